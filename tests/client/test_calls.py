"""The plain functions and the decorator: what they pass on, what they learn, whose context it is."""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Policy, Target, chain, hedge, hedged, race
from hedgerow.client import calls
from hedgerow.events import Reason
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, Closable, run, turn

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def test_arguments_go_to_every_target() -> None:
    async def main(_: VirtualLoop) -> None:
        got: list[Any] = []

        async def slow(*args: Any, **kwargs: Any) -> str:
            got.append((args, kwargs))
            await asyncio.sleep(9)
            return "slow"

        async def fast(prompt: str, *, temperature: float) -> str:
            got.append(((prompt,), {"temperature": temperature}))
            return f"{prompt}!"

        for call in (
            hedge(slow, fast, args=("hi",), kwargs={"temperature": 0.5}, delay=1),
            race(slow, fast, args=("hi",), kwargs={"temperature": 0.5}),
            Hedger[str]("r", [slow, fast], Policy(delay=1))("hi", temperature=0.5),
        ):
            got.clear()
            assert (await call).value == "hi!"
            assert got == [(("hi",), {"temperature": 0.5})] * 2
        await turn()

    run(main)


def test_calls_from_one_place_learn_from_each_other_though_their_lambdas_are_new() -> None:
    async def main(_: VirtualLoop) -> None:
        book, draw = Book(), random.Random(7)

        async def ask(number: int) -> Any:
            a, b = book.target(f"a{number}", draw.uniform(1, 2)), book.target(f"b{number}", 9.0)
            return await hedge(
                lambda: a(), lambda: b(), delay="p50", warmup_samples=100, warmup_delay=None, budget=None
            )

        results = [await ask(number) for number in range(300)]
        assert {each.target for each in results} == {"primary"}
        assert not any(each.hedged or each.reason for each in results[:100])
        late = [each for each in results[150:] if each.hedged or each.reason]
        assert 0.3 < len(late) / 150 < 0.7
        await turn()

    run(main)


def test_calls_with_other_rules_or_targets_or_names_learn_for_themselves() -> None:
    async def one() -> int:
        return 1

    async def two() -> int:
        return 2

    async def main(_: VirtualLoop) -> None:
        calls._courses.clear()
        for delay in (1, 2):
            await hedge(one, two, delay=delay)
        await hedge(two, one, delay=1)
        await hedge(two, one, delay=1, name="named")
        await hedge(two, one, delay=1, gate=lambda _: True)
        await hedge(functools.partial(one), two, delay=1)  # as `one`
        await hedge(Target(call=one, name="x"), two, delay=1)
        assert len(calls._courses) == 6

    run(main)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one() -> int:
        return 1

    async def main(_: VirtualLoop) -> None:
        calls._courses.clear()
        monkeypatch.setattr(calls, "KEPT", 4)
        for number in range(10):
            await hedge(one, delay=1)
            await hedge(one, delay=2 + number)
        assert len(calls._courses) == 4
        assert any(("delay", 1) in key for key in calls._courses)  # the one that is used

    run(main)


def test_one_function_twice_is_two_targets_of_one_account() -> None:
    """What it says of its rate limit holds for both."""

    class Limited(Exception):
        status_code = 429

    async def main(_: VirtualLoop) -> None:
        count = 0

        async def call() -> int:
            nonlocal count
            count += 1
            raise Limited

        with pytest.raises(Limited) as caught:
            await hedge(call, call, delay=5)
        assert isinstance(caught.value, EveryAttemptFailed)
        assert count == 1

    run(main)


def test_a_decorated_function_is_hedged_with_itself_and_keeps_its_name() -> None:
    async def main(loop: VirtualLoop) -> None:
        seconds = iter([9.0, 1.0])

        @hedged(delay=2)
        async def translate(text: str) -> str:
            """Translates."""
            await asyncio.sleep(next(seconds))
            return text.upper()

        assert await translate("ja") == "JA"
        assert loop.time() == 3.0
        assert (translate.__name__, translate.__doc__) == ("translate", "Translates.")  # type: ignore[attr-defined]
        assert translate.hedger.name.endswith("translate")
        await turn()

    run(main)


def test_a_decorated_method_is_called_with_its_object() -> None:
    async def main(_: VirtualLoop) -> None:
        class Client:
            def __init__(self, name: str) -> None:
                self.name = name

            @hedged(delay=2)
            async def ask(self, text: str) -> str:
                return f"{self.name}: {text}"

        assert await Client("c").ask("x") == "c: x"

    run(main)


def test_gates_decide_what_is_good_enough_and_what_they_reject_is_closed() -> None:
    """asynchedging drops results that `accept` refused without closing them; racing favours short answers (B21)."""

    async def main(_: VirtualLoop) -> None:
        book, bad = Book(), Closable("bad")
        good = Closable("good")
        result = await hedge(
            book.target("a", 1.0, bad), book.target("b", 1.0, good), delay=5, gate=lambda answer: answer is good
        )
        assert (result.value, result.latency, result.attempts[0].outcome) == (good, 2.0, "rejected")
        await turn()
        assert (bad.closed, good.closed) == (1, 0)

    run(main)


def test_the_best_of_the_rejected_is_given_where_nobody_is_better_unless_strict() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        gates = [lambda answer: len(answer) > 1, lambda answer: "too short" if len(answer) < 3 else None]
        targets = book.target("a", 1.0, "x"), book.target("b", 1.0, "xx")
        result = await hedge(*targets, delay=5, gate=gates)
        assert result.value == "xx"
        with pytest.raises(EveryAttemptFailed, match="too short"):
            await hedge(*targets, delay=5, gate=gates, strict=True)

    run(main)


def test_a_rejected_answer_waits_for_a_running_rival_but_not_for_ever() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        targets = book.target("a", 3.0, "no"), book.target("b", 60.0)
        result = await hedge(*targets, delay=2, gate=lambda _: False, gate_wait=4)
        assert (result.value, result.latency) == ("no", 3.0)
        await turn()
        assert ("b", "cancelled", 7.0) in book.ended

    run(main)


def test_a_gate_that_raises_has_not_judged_and_one_may_be_async(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()

        def broken(answer: str) -> bool:
            raise ZeroDivisionError(answer)

        async def slow(answer: str) -> bool:
            await asyncio.sleep(1)
            return answer == "b"

        result = await hedge(book.target("a", 1.0), book.target("b", 1.0), delay=5, gate=[broken, slow])
        assert result.value == "b"

    run(main)
    assert "broken" in caplog.text


def test_attempts_have_contexts_of_their_own_and_the_winners_is_kept() -> None:
    """Polly's issue 2023, dotnet's 4686: attempts write into one context, and the loser's words remain (B15)."""

    async def main(_: VirtualLoop) -> None:
        seen = []

        async def attempt(name: str, seconds: float) -> str:
            seen.append(WHO.get())
            WHO.set(name)
            await asyncio.sleep(seconds)
            assert WHO.get() == name
            return name

        WHO.set("caller")
        result = await hedge(lambda: attempt("a", 9), lambda: attempt("b", 1), delay=2)
        assert (result.value, WHO.get(), seen) == ("b", "b", ["caller", "caller"])
        WHO.set("caller")
        with pytest.raises(EveryAttemptFailed):
            await hedge(Book().target("x", 1.0, error=OSError()))
        assert WHO.get() == "caller"
        await turn()

    run(main)


def test_a_new_loop_of_the_same_thread_goes_on_with_what_was_learned() -> None:
    async def slow() -> str:
        await asyncio.sleep(0)
        return "a"

    hedger: Hedger[str] = Hedger("r", [slow, slow], Policy(delay="p95", warmup_samples=20))

    async def calls_of(number: int) -> None:
        for _turn in range(number):
            await hedger()

    asyncio.run(calls_of(30))
    route = hedger._course._here.home.route
    asyncio.run(calls_of(1))
    assert hedger._course._here.home.route is route
    run(lambda _: calls_of(1))  # whose clock begins at 0
    assert hedger._course._here.home.route is not route


def test_threads_with_loops_of_their_own_may_share_a_hedger() -> None:
    async def fast() -> str:
        await asyncio.sleep(0)
        return "a"

    hedger: Hedger[str] = Hedger("r", [fast, fast], Policy(delay=5))
    answers: list[str] = []

    async def ask() -> None:
        for _ in range(300):
            answers.append((await hedger()).value)
            answers.append((await hedge(fast, fast, delay=5)).value)

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == ["a"] * 2_400


def test_without_a_loop_the_error_says_what_to_do() -> None:
    coroutine = Hedger[str]("r", [Book().target("a", 1.0)])()
    with pytest.raises(RuntimeError, match="hedge_sync"):
        coroutine.send(None)


def test_a_chain_asks_the_next_only_after_a_failure() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await chain(book.target("a", 60.0), book.target("b", 1.0))
        assert (result.value, result.latency, len(result.attempts)) == ("a", 60.0, 1)

    run(main)


def test_tasks_that_a_loop_starts_eagerly_change_nothing() -> None:
    eager: Any = getattr(asyncio, "eager_task_factory", None)
    if eager is None:
        pytest.skip("a Python before 3.12 has no eager tasks")

    async def main(loop: VirtualLoop) -> None:
        loop.set_task_factory(eager)

        async def at_once() -> str:
            return "a"

        async def fails() -> str:
            raise OSError

        assert (await hedge(at_once, at_once)).value == "a"
        assert (await race(at_once, at_once)).value == "a"
        assert (await hedge(fails, at_once)).value == "a"

    run(main)


def test_calls_at_once_are_independent() -> None:
    async def main(_: VirtualLoop) -> None:
        async def echo(number: int) -> int:
            await asyncio.sleep(number % 7)
            return number

        hedger: Hedger[int] = Hedger("r", [echo, echo], Policy(delay=2))
        results = await asyncio.gather(*(hedger(number) for number in range(200)))
        assert [each.value for each in results] == list(range(200))
        assert {each.reason for each in results} <= {None, Reason.BUDGET, Reason.OUTAGE}
        await turn()

    run(main)
