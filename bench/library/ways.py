"""How each package is asked to hedge one call. Imported in that package's own environment, so each imports its own.

A way is given `attempt`, which makes the nth attempt of the call, and the delay; packages that call one function again
get one that counts. Those that hedge HTTP requests only send a GET through a transport that makes the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from itertools import count
from typing import Any

Attempt = Callable[[int], Awaitable[Any]]
Way = Callable[[Attempt], Awaitable[Any]]


def package(name: str) -> Any:
    """A module of the package that is measured, which mypy cannot see from here."""
    return import_module(name)


def counted(attempt: Attempt) -> Callable[[], Awaitable[Any]]:
    """A function for packages that call one again: each call is the next attempt."""
    number = count()

    async def call() -> Any:
        return await attempt(next(number))

    return call


def bare(delay: float) -> Way:
    async def way(attempt: Attempt) -> Any:
        return await counted(attempt)()

    return way


def asyncio_task(delay: float) -> Way:
    """What a task for each call costs by itself."""

    async def way(attempt: Attempt) -> Any:
        return await asyncio.ensure_future(counted(attempt)())

    return way


def asyncio_wait(delay: float) -> Way:
    """As one writes it by hand, and forgets what this bench looks for."""

    async def way(attempt: Attempt) -> Any:
        call = counted(attempt)
        tasks = {asyncio.ensure_future(call())}
        done, _ = await asyncio.wait(tasks, timeout=delay)
        if not done:
            tasks.add(asyncio.ensure_future(call()))
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
        return done.pop().result()

    return way


def _targets() -> list[Any]:
    async def primary(attempt: Attempt) -> Any:
        return await attempt(0)

    async def backup(attempt: Attempt) -> Any:
        return await attempt(1)

    return [primary, backup]


def hedgerow_hedger(delay: float) -> Way:
    from hedgerow import Hedger, Policy

    hedger: Any = Hedger("bench", _targets(), Policy(delay=delay, budget=None))

    async def way(attempt: Attempt) -> Any:
        return (await hedger(attempt)).value

    return way


def hedgerow_hedge(delay: float) -> Way:
    from hedgerow import hedge

    async def way(attempt: Attempt) -> Any:
        return (await hedge(lambda: attempt(0), lambda: attempt(1), delay=delay, budget=None)).value

    return way


def hedgerow_learned(delay: float) -> Way:
    from hedgerow import Hedger, Policy

    policy = Policy(delay="auto", budget=0.1, min_delay=0.001, warmup_delay=delay, warmup_samples=20)
    hedger: Any = Hedger("bench", _targets(), policy)

    async def way(attempt: Attempt) -> Any:
        return (await hedger(attempt)).value

    return way


def hedgerow_race(delay: float) -> Way:
    from hedgerow import Hedger, Policy

    hedger: Any = Hedger("bench", _targets(), Policy(mode="race", budget=None))

    async def way(attempt: Attempt) -> Any:
        return (await hedger(attempt)).value

    return way


def asynchedging(delay: float) -> Way:
    hedge = package("asynchedging").hedge

    async def way(attempt: Attempt) -> Any:
        return (await hedge(counted(attempt), delays_s=[delay]))[0]

    return way


def nopanic(delay: float) -> Way:
    return _decorated(package("nopanic.hedge").hedge(delay=delay))


def grit_toolkit(delay: float) -> Way:
    return _decorated(package("grit.hedge").hedge(delay))


def _decorated(decorator: Any) -> Way:
    async def call_it(call: Any) -> Any:
        return await call()

    hedged = decorator(call_it)

    async def way(attempt: Attempt) -> Any:
        return await hedged(counted(attempt))

    return way


def _over_httpx(wrap: Callable[[Any], Any]) -> Way:
    httpx: Any = package("httpx")

    class Body(httpx.AsyncByteStream):  # type: ignore[misc]  # of a package that is not here
        """Holds an answer as a response holds its connection."""

        def __init__(self, answer: Any) -> None:
            self._answer = answer

        async def __aiter__(self) -> Any:
            yield b"ok"

        async def aclose(self) -> None:
            if hasattr(self._answer, "aclose"):
                await self._answer.aclose()

    class Inner(httpx.AsyncBaseTransport):  # type: ignore[misc]  # as above
        async def handle_async_request(self, request: Any) -> Any:
            answer = await request.extensions["call"]()
            return httpx.Response(200, stream=Body(answer), extensions={"answer": answer}, request=request)

    client = httpx.AsyncClient(transport=wrap(Inner()))

    async def way(attempt: Attempt) -> Any:
        request = client.build_request("GET", "http://bench.test/", extensions={"call": counted(attempt)})
        response = await client.send(request, stream=True)
        answer = response.extensions["answer"]
        if not hasattr(answer, "aclose"):
            await response.aread()
        return answer

    return way


def httpx_bare(delay: float) -> Way:
    return _over_httpx(lambda inner: inner)


def hedge_python(delay: float) -> Way:
    config = package("hedge").HedgeConfig(warmup_delay=delay, estimated_rps=1_000.0)
    return _over_httpx(lambda inner: package("hedge.transport._httpx").HedgedHttpxTransport(inner, config))


def httpx_hedged(delay: float) -> Way:
    config = package("httpx_hedged").HedgeConfig(warmup_delay=delay)
    return _over_httpx(lambda inner: package("httpx_hedged").HedgedTransport(inner, config))


def _router() -> Any:
    litellm: Any = package("litellm")

    class Provider(litellm.CustomLLM):  # type: ignore[misc]  # as above
        async def acompletion(self, *args: Any, **kwargs: Any) -> Any:
            params = kwargs.get("optional_params", {})
            answer = await CALLS[params["seed"]](0 if kwargs["model"] == "primary" else 1)
            said = litellm.ModelResponse(choices=[{"message": {"role": "assistant", "content": "ok"}}])
            said._hidden_params["answer"] = answer
            ANSWERS[said.id] = answer
            return said

    litellm.telemetry = False
    litellm.custom_provider_map = [{"provider": "bench", "custom_handler": Provider()}]
    with suppress(Exception):
        litellm.utils.custom_llm_setup()
    names = ("primary", "backup")
    models = [{"model_name": name, "litellm_params": {"model": f"bench/{name}"}} for name in names]
    return litellm.Router(model_list=models, num_retries=0, disable_cooldowns=True)


CALLS: dict[int, Attempt] = {}
ANSWERS: dict[str, Any] = {}
_NUMBERS = count(1)


def _over_litellm(ask: Callable[[Any, int], Awaitable[Any]]) -> Way:
    router = _router()

    async def way(attempt: Attempt) -> Any:
        number = next(_NUMBERS)
        CALLS[number] = attempt
        said = await ask(router, number)
        return ANSWERS.pop(said.id, None)

    return way


MESSAGES = [{"role": "user", "content": "hi"}]


def litellm_bare(delay: float) -> Way:
    return _over_litellm(lambda router, seed: router.acompletion(model="primary", messages=MESSAGES, seed=seed))


def litellm_fastest(delay: float) -> Way:
    return _over_litellm(
        lambda router, seed: router.abatch_completion_fastest_response(
            model="primary, backup", messages=MESSAGES, seed=seed
        )
    )


WAYS = {
    "bare": bare,
    "asyncio task": asyncio_task,
    "asyncio.wait by hand": asyncio_wait,
    "hedgerow Hedger": hedgerow_hedger,
    "hedgerow hedge()": hedgerow_hedge,
    "hedgerow auto, 10 %": hedgerow_learned,
    "hedgerow race": hedgerow_race,
    "asynchedging": asynchedging,
    "nopanic": nopanic,
    "grit-toolkit": grit_toolkit,
    "httpx bare": httpx_bare,
    "hedge-python": hedge_python,
    "httpx-hedged": httpx_hedged,
    "LiteLLM bare": litellm_bare,
    "LiteLLM fastest_response": litellm_fastest,
}
