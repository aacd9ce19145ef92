"""The transports in the clients of the official SDKs, against two labs in separate processes.

Times are the labs' own, on the clock of `time.monotonic()` (docs/lab.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from hedgerow import HttpTarget, Policy, http_client, http_client_sync
from hedgerow.lab.process import LabProcess
from tests.e2e.support import MESSAGES, Labs, assert_within, script, until
from tests.e2e.upstream import SSE_HEAD, Received, Upstream, always, chunk, completion, event, stream, whole

pytestmark = pytest.mark.e2e

ROUNDS = 9
"""Of ten stalled primaries in a row the tenth is an outage, in which nothing is hedged."""
DELAY = 0.06
FIRST_TOKEN = 0.03
GRAIN = 0.002
"""What a clock of whole milliseconds may be off at both ends of an interval."""
STALL = {"x-lab-script-primary": script(fault="stall")}
HANG = {"x-lab-script-primary": script(fault="hang")}
BACKUP = {"x-lab-script-backup": script(ttft_ms=1000 * FIRST_TOKEN, gap_ms=1, tokens=5)}
QUICK = {"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=3)}
RETRYABLE = {"x-lab-script": script(status=500)}
UNBOUND = Policy(delay=DELAY, budget=None, breaker=False)
PATIENT = Policy(delay=30.0, budget=None, breaker=False)
LIBRARIES = pytest.mark.parametrize("library", ["httpx2", "httpx"])


def targets(labs: Labs, *, model: str | None = None) -> list[HttpTarget]:
    """The primary with the client's own key, the backup with another."""
    primary = HttpTarget(base_url=labs[0].base_url, api_key="passthrough", name="primary")
    return [primary, HttpTarget(base_url=labs[1].base_url, api_key="sk-backup", name="backup", model=model)]


@asynccontextmanager
async def async_openai(labs: Labs, policy: Policy = UNBOUND, **options: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    library = options.pop("library", "httpx2")
    made: Any = http_client(targets(labs), policy, library=library)
    base_url = labs[0].base_url
    async with openai.AsyncOpenAI(
        api_key="sk-mine", base_url=base_url, http_client=made, **{"max_retries": 0, "timeout": 10, **options}
    ) as client:
        yield client


@pytest.fixture
def sync_openai(labs: Labs) -> Iterator[Callable[..., openai.OpenAI]]:
    made: list[openai.OpenAI] = []

    def make(policy: Policy = UNBOUND, *, library: str = "httpx2", **options: Any) -> openai.OpenAI:
        client: Any = http_client_sync(targets(labs), policy, library=library)  # type: ignore[call-overload]
        options = {"max_retries": 0, "timeout": 10, **options}
        made.append(openai.OpenAI(api_key="sk-mine", base_url=labs[0].base_url, http_client=client, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


def records(lab: LabProcess) -> list[dict[str, Any]]:
    """Its requests, once all are over."""
    until(lambda: len(lab.log()) == ROUNDS and all(one["closed_at"] is not None for one in lab.log()))
    return lab.log()


def text_of(chunks: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def first_token_is_the_backups(labs: Labs, firsts: list[float]) -> None:
    """What issue and docs promise: the first token at the delay and the backup's own time, and the primary's connection
    closed within 50 ms of the win.
    """
    pairs = list(zip(*map(records, labs), strict=True))
    assert {loser["ending"] for loser, _ in pairs} <= {"cancelled_before_token", "cancelled_before_headers"}
    assert {winner["ending"] for _, winner in pairs} == {"completed"}
    assert min(firsts) >= DELAY + FIRST_TOKEN - GRAIN, "the hedge started too early"
    assert_within([first - DELAY - FIRST_TOKEN for first in firsts], bound=0.050)
    won = [winner["first_token_at"] or winner["headers_at"] for _, winner in pairs]
    assert_within([loser["closed_at"] - at for (loser, _), at in zip(pairs, won, strict=True)], bound=0.050)


@LIBRARIES
@pytest.mark.parametrize("streaming", [True, False])
def test_async_the_first_token_comes_at_delay_plus_backups_time(labs: Labs, library: str, streaming: bool) -> None:
    """hedge-python and httpx-hedged leave a POST alone; LiteLLM's race is won by the headers of a stalled stream."""

    async def story() -> list[float]:
        firsts = []
        async with async_openai(labs, library=library) as client:
            for _ in range(ROUNDS):
                stalled = STALL if streaming else HANG
                sent = time.monotonic()
                answer: Any = await client.chat.completions.create(
                    model="any",
                    messages=MESSAGES,
                    stream=streaming,
                    extra_headers={**stalled, **BACKUP},
                )
                firsts.append(time.monotonic() - sent)
                if streaming:
                    assert text_of([chunk async for chunk in answer]).startswith("backup A hedge")
                else:
                    assert answer.choices[0].message.content.startswith("backup A hedge")
        return firsts

    first_token_is_the_backups(labs, asyncio.run(story()))


@LIBRARIES
@pytest.mark.parametrize("streaming", [True, False])
def test_sync_the_first_token_comes_at_delay_plus_backups_time(
    labs: Labs, sync_openai: Callable[..., openai.OpenAI], library: str, streaming: bool
) -> None:
    """lemmas' sync race gives the winner of 53 ms after 502, once its losers have ended (B10)."""
    client = sync_openai(library=library)
    firsts = []
    for _ in range(ROUNDS):
        headers = {**(STALL if streaming else HANG), **BACKUP}
        sent = time.monotonic()
        answer: Any = client.chat.completions.create(
            model="any", messages=MESSAGES, stream=streaming, extra_headers=headers
        )
        firsts.append(time.monotonic() - sent)
        said = text_of(answer) if streaming else answer.choices[0].message.content
        assert said.startswith("backup A hedge")
    first_token_is_the_backups(labs, firsts)


@pytest.mark.parametrize("streaming", [True, False])
def test_anthropics_sdk_with_base_urls_as_it_takes_them(labs: Labs, streaming: bool) -> None:
    ours = [
        HttpTarget(base_url=labs[0].url, api_key="passthrough", name="primary"),
        HttpTarget(base_url=labs[1].url, api_key="sk-backup", name="backup"),
    ]

    async def story() -> tuple[str, Any]:
        made = http_client(ours, UNBOUND)
        async with anthropic.AsyncAnthropic(
            api_key="sk-mine", base_url=labs[0].url, http_client=made, max_retries=0, timeout=10
        ) as client:
            asked: dict[str, Any] = {"model": "any", "max_tokens": 20, "messages": MESSAGES}
            headers = (STALL if streaming else HANG) | BACKUP
            message: Any
            if not streaming:
                message = await client.messages.create(**asked, extra_headers=headers)
            else:
                async with client.messages.stream(**asked, extra_headers=headers) as answer:
                    said = "".join([text async for text in answer.text_stream])
                    message = await answer.get_final_message()
                    assert message.content[0].text == said
            models = await client.models.list()
            return message.content[0].text, models.data[0]

    said, model = asyncio.run(story())
    assert said.startswith("backup A hedge")
    assert labs[0].stats()["other_requests"] == 1, "models are asked of the client's own URL"
    assert labs[1].stats()["other_requests"] == 0
    assert model is not None


def test_anthropics_sync_sdk(labs: Labs) -> None:
    ours = [HttpTarget(base_url=labs[0].url, api_key="passthrough"), HttpTarget(base_url=labs[1].url, api_key="k")]
    made = http_client_sync(ours, UNBOUND)
    with anthropic.Anthropic(
        api_key="sk-mine", base_url=labs[0].url, http_client=made, max_retries=0, timeout=10
    ) as client:
        with client.messages.stream(
            model="any", max_tokens=20, messages=MESSAGES, extra_headers=STALL | BACKUP
        ) as answer:
            assert "".join(answer.text_stream).startswith("backup A hedge")
        raw = client.messages.with_raw_response.create(
            model="any", max_tokens=20, messages=MESSAGES, extra_headers=QUICK
        )
        assert raw.headers["x-hedgerow-attempts"] == "1"


def test_raw_responses_say_who_answered(sync_openai: Callable[..., openai.OpenAI]) -> None:
    create = sync_openai().chat.completions.with_raw_response.create
    raw = create(model="any", messages=MESSAGES, extra_headers=HANG | BACKUP)
    marks = {name: value for name, value in raw.headers.items() if name.startswith("x-hedgerow-")}
    assert marks.pop("x-hedgerow-request-id").startswith("hr-")
    assert marks == {"x-hedgerow-target": "backup", "x-hedgerow-attempts": "2", "x-hedgerow-hedged": "true"}
    assert raw.http_version == "HTTP/1.1"


def test_the_stream_helper(labs: Labs) -> None:
    async def story() -> tuple[list[Any], str | None]:
        async with (
            async_openai(labs) as client,
            client.chat.completions.stream(model="any", messages=MESSAGES, extra_headers=STALL | BACKUP) as answer,
        ):
            kinds = [each.type async for each in answer]
            final = await answer.get_final_completion()
        return kinds, final.choices[0].message.content

    kinds, said = asyncio.run(story())
    assert kinds.count("content.delta") > 2
    assert said is not None
    assert said.startswith("backup A hedge")


def test_each_target_gets_the_key_that_is_its_own(labs: Labs) -> None:
    secrets = {"x-lab-script": script(fault="hang"), "openai-organization": "org-1", "helicone-auth": "Bearer sk-heli"}
    with Upstream(always(whole(completion("Hi")))) as primary, Upstream(always(whole(completion("Ho")))) as backup:
        primary.answer = always(b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\n{}")
        ours = [
            HttpTarget(base_url=primary.base_url, api_key="passthrough"),
            HttpTarget(base_url=backup.base_url, api_key="sk-backup", model="other", headers={"x-own": "1"}),
        ]
        with openai.OpenAI(
            api_key="sk-mine", base_url=primary.base_url, http_client=http_client_sync(ours, UNBOUND)
        ) as client:
            answer = client.chat.completions.create(
                model="mine", messages=MESSAGES, extra_headers=secrets, extra_query={"api-key": "s", "api-version": "1"}
            )
    assert answer.choices[0].message.content == "Ho"
    [first], [second] = primary.requests, backup.requests
    assert (first.headers["authorization"], second.headers["authorization"]) == ("Bearer sk-mine", "Bearer sk-backup")
    assert (first.json["model"], second.json["model"]) == ("mine", "other")
    assert first.headers["openai-organization"] == "org-1"
    assert first.headers["helicone-auth"] == "Bearer sk-heli"
    assert {"openai-organization", "helicone-auth"}.isdisjoint(second.headers)
    assert [each.target.partition("?")[2] for each in (first, second)] == ["api-key=s&api-version=1", "api-version=1"]
    assert ("x-own" in first.headers, second.headers["x-own"]) == (False, "1")
    assert second.headers["user-agent"].startswith("OpenAI/Python")
    assert second.headers["host"] == f"127.0.0.1:{backup.port}"


def test_a_key_is_sent_nowhere_but_where_the_client_would_send_it(labs: Labs) -> None:
    made = http_client_sync(targets(labs), UNBOUND, base_urls=["http://127.0.0.1:9/v1"])
    with (
        openai.OpenAI(api_key="sk-mine", base_url="http://127.0.0.1:9/v1", http_client=made) as client,
        pytest.raises(openai.BadRequestError, match=r"key is meant for 127\.0\.0\.1:9; passthrough would send it"),
    ):
        client.chat.completions.create(model="any", messages=MESSAGES)
    assert [lab.stats()["requests"] for lab in labs] == [0, 0]
    both = [HttpTarget(base_url=lab.base_url, api_key="passthrough") for lab in labs]
    with pytest.raises(ValueError, match="a client's key belongs to one place"):
        http_client(both)


def test_what_is_not_hedged_goes_where_the_client_means_it(
    labs: Labs, sync_openai: Callable[..., openai.OpenAI]
) -> None:
    client = sync_openai()
    assert [model.id for model in client.models.list()] != []
    echo: Any = client.post("/batches", cast_to=dict, body={"input_file_id": "file-1"})
    key = [value for name, value in echo["headers"] if name == "authorization"]
    assert key == ["sha256:" + sha256(b"Bearer sk-mine").hexdigest()[:12]]
    client.post("/threads/thread_1/messages", cast_to=dict, body={"role": "user", "content": "Hi"})
    assert [lab.stats()["other_requests"] for lab in labs] == [3, 0]
    assert [lab.stats()["requests"] for lab in labs] == [0, 0]


@pytest.mark.parametrize("streaming", [True, False])
def test_an_error_keeps_status_and_body(labs: Labs, sync_openai: Callable[..., openai.OpenAI], streaming: bool) -> None:
    headers = {"x-lab-script": script(status=400, code="string_too_long")}
    with pytest.raises(openai.BadRequestError, match="refused by the lab's script") as raised:
        sync_openai(max_retries=2).chat.completions.create(
            model="any", messages=MESSAGES, stream=streaming, extra_headers=headers
        )
    assert raised.value.code == "string_too_long"
    assert [lab.stats()["requests"] for lab in labs] == [1, 0]


@pytest.mark.parametrize("streaming", [True, False])
def test_used_up_attempts_are_not_repeated_by_the_sdk(
    labs: Labs, sync_openai: Callable[..., openai.OpenAI], streaming: bool
) -> None:
    with pytest.raises(openai.InternalServerError) as raised:
        sync_openai(max_retries=3).chat.completions.create(
            model="any", messages=MESSAGES, stream=streaming, extra_headers=RETRYABLE
        )
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert [lab.stats()["requests"] for lab in labs] == [1, 1]


def test_a_lone_targets_failure_is_left_to_the_sdks_own_retries(labs: Labs) -> None:
    made = http_client_sync(targets(labs)[:1])
    with (
        openai.OpenAI(api_key="k", base_url=labs[0].base_url, http_client=made, max_retries=1) as client,
        pytest.raises(openai.InternalServerError),
    ):
        client.chat.completions.create(model="any", messages=MESSAGES, extra_headers=RETRYABLE)
    assert labs[0].stats()["requests"] == 2


CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
PIECES = ['{"ci', 'ty":"Ys"', "}"]
TOOL_STREAM = stream(
    event({"role": "assistant", "content": None}),
    event({"tool_calls": [CALL]}),
    *(event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in PIECES),
    event({}, "tool_calls"),
)
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]


def test_a_tool_call_is_a_first_token_and_comes_piece_by_piece() -> None:
    def stalls(_: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"role": "assistant", "content": None}))
        until(lambda: bool(backup.requests))

    with Upstream(stalls) as primary, Upstream(always(TOOL_STREAM)) as backup:
        ours = [HttpTarget(base_url=each.base_url, api_key="k") for each in (primary, backup)]
        made = http_client_sync(ours, UNBOUND)
        with openai.OpenAI(
            api_key="unused", base_url=primary.base_url, http_client=made, max_retries=0, timeout=10
        ) as client:
            answer = client.chat.completions.create(model="any", messages=MESSAGES, tools=TOOLS, stream=True)
            deltas = [each.choices[0].delta.tool_calls for each in answer]
    calls = [delta[0] for delta in deltas if delta]
    assert "".join(call.function.arguments or "" for call in calls if call.function) == '{"city":"Ys"}'
    assert backup.requests[0].json["tools"] == TOOLS


def test_structured_outputs(labs: Labs) -> None:
    import pydantic

    class Weather(pydantic.BaseModel):
        city: str

    with Upstream(always(whole(completion('{"city": "Ys"}')))) as upstream:
        made = http_client_sync([HttpTarget(base_url=upstream.base_url)], UNBOUND)
        with openai.OpenAI(api_key="unused", base_url=upstream.base_url, http_client=made) as client:
            answer = client.chat.completions.parse(model="any", messages=MESSAGES, response_format=Weather)
    assert answer.choices[0].message.parsed == Weather(city="Ys")
    assert upstream.requests[0].json["response_format"]["type"] == "json_schema"
    assert "authorization" not in upstream.requests[0].headers, "a target without a key gets none"


def test_a_whole_answer_asked_for_as_a_stream_is_decided_by_its_first_token(labs: Labs) -> None:
    made = http_client_sync(targets(labs), UNBOUND, nonstream_as_stream=True)
    with openai.OpenAI(api_key="k", base_url=labs[0].base_url, http_client=made, timeout=10) as client:
        answer = client.chat.completions.create(model="any", messages=MESSAGES, extra_headers=STALL | BACKUP)
    assert (answer.choices[0].message.content or "").startswith("backup A hedge")
    assert labs[0].stats()["cancelled_before_token"] == 1, "the primary was asked for a stream"


def test_what_losers_say_can_be_fetched_with_the_same_client(
    labs: Labs, sync_openai: Callable[..., openai.OpenAI]
) -> None:
    client = sync_openai(Policy(mode="race", losers="keep", breaker=False))
    slow = {"x-lab-script-primary": script(ttft_ms=100, gap_ms=1, tokens=3), **BACKUP}
    raw = client.chat.completions.with_raw_response.create(model="any", messages=MESSAGES, extra_headers=slow)
    where = raw.headers["x-hedgerow-alternatives"].removeprefix("/v1")

    def kept() -> Any:
        return client.get(where, cast_to=object)

    until(lambda: kept()["pending"] == 0)
    said = {one["target"]: each["text"] for each in kept()["alternatives"] for one in each["said_by"]}
    assert said == {"primary": "primary A hedge", "backup": "backup A hedge is a"}


@pytest.mark.parametrize(("allow", "target"), [([], "primary"), (["store"], "backup")])
def test_answers_that_are_kept_are_hedged_where_that_is_allowed(labs: Labs, allow: Any, target: str) -> None:
    """LiteLLM's fastest_response sends whatever it is given to all models; what takes effect needs leave here."""
    slow = {"x-lab-script-primary": script(ttft_ms=400, gap_ms=0, tokens=2), **BACKUP}
    made = http_client_sync(targets(labs), UNBOUND, allow=allow)
    with openai.OpenAI(api_key="k", base_url=labs[0].base_url, http_client=made, timeout=10) as client:
        raw = client.responses.with_raw_response.create(model="any", input="Hi", extra_headers=slow)
    assert raw.headers["x-hedgerow-target"] == target


def test_side_by_side_in_one_loop(labs: Labs) -> None:
    async def story() -> list[str]:
        async with async_openai(labs, PATIENT) as client:

            async def one() -> str:
                answer = await client.chat.completions.create(
                    model="any", messages=MESSAGES, stream=True, extra_headers=QUICK
                )
                return text_of([chunk async for chunk in answer])

            return await asyncio.gather(*(one() for _ in range(100)))

    assert set(asyncio.run(story())) == {"primary A hedge"}
    assert [lab.stats()["completed"] for lab in labs] == [100, 0]


def test_plain_clients_without_an_sdk(labs: Labs) -> None:
    body = {"model": "any", "messages": MESSAGES}
    with http_client_sync(targets(labs), UNBOUND) as client:
        answer = client.post(f"{labs[0].base_url}/chat/completions", json=body, headers=HANG | BACKUP)
        assert isinstance(answer, httpx2.Response)
        assert answer.json()["choices"][0]["message"]["content"].startswith("backup")
    with http_client_sync(targets(labs), UNBOUND, library="httpx") as older:
        other = older.post(f"{labs[0].base_url}/chat/completions", json=body, headers=HANG | BACKUP)
        assert isinstance(other, httpx.Response)
        assert other.json()["choices"][0]["message"]["content"].startswith("backup")
