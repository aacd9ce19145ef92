"""Legacy text completions: the request, the first token, the end, and one form made of the other."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import RequestError
from hedgerow.events import Failure, FailureClass, Usage, UsageSource
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Facts
from hedgerow.wire.openai_completions import OpenAICompletions
from tests.unit.chat_support import END, TOKENS, plain, sdk, stream

TEXT = OpenAICompletions()
PATH = b"/v1/completions"
SSE = [(b"content-type", b"text/event-stream")]
HEAD = {"id": "cmpl-P1", "object": "text_completion", "created": 1764500000, "model": "m-p"}
USAGE = HEAD | {"choices": [], "usage": TOKENS}


def piece(text: Any, finish: str | None = None, *, index: int = 0, **more: Any) -> dict[str, Any]:
    return HEAD | {"choices": [{"text": text, "index": index, "logprobs": None, "finish_reason": finish} | more]}


def frame(chunk: dict[str, Any]) -> bytes:
    return stream([chunk], b"")


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "fast", "prompt": "Hi", **fields}).encode()


def logprobs(*tokens: str) -> dict[str, Any]:
    return {
        "tokens": list(tokens),
        "token_logprobs": [None, *[-0.5] * (len(tokens) - 1)],
        "top_logprobs": [{token: -0.5} for token in tokens],
        "text_offset": list(range(len(tokens))),
    }


RED = piece("Red")
STOP = piece("", "stop")


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, Facts("fast", False)),
        ({"prompt": [[1, 2], [3]], "echo": True, "suffix": None, "logprobs": 1}, Facts("fast", False, answers=2)),
        ({"prompt": ["a", "b", "c"], "max_tokens": 5}, Facts("fast", False, None, 5, answers=3)),
        ({"prompt": [1, 2, 3]}, Facts("fast", False)),
        ({"prompt": []}, Facts("fast", False)),
        ({"prompt": {"odd": 1}}, Facts("fast", False)),
        ({"stream": True, "max_tokens": 5}, Facts("fast", True, None, 5, wants_usage=False)),
        ({"stream": True, "stream_options": {"include_usage": True}}, Facts("fast", True)),
        ({"n": 1, "best_of": 1.0}, Facts("fast", False)),
        ({"n": 2}, Facts("fast", False, needs=("n",))),
        ({"best_of": 3}, Facts("fast", False, needs=("n",))),
        ({"plugins": [{"id": "web"}]}, Facts("fast", False, "plugins")),
    ],
)
def test_the_facts_of_a_request(fields: dict[str, Any], facts: Facts) -> None:
    assert TEXT.facts(PATH, body(**fields)) == msgspec.structs.replace(facts, has_options="stream_options" in fields)


def test_a_body_is_edited_in_place() -> None:
    raw = body(stream=True)
    facts = TEXT.facts(PATH, raw)
    assert TEXT.rewrite(raw, facts, None) is raw
    assert TEXT.rewrite(raw, facts, "gpt") == raw.replace(b"fast", b"gpt")
    asking = {"stream_options": {"include_usage": True}, "stream": True}
    assert json.loads(TEXT.rewrite(raw, facts, "gpt", usage=True)) == json.loads(body(**asking)) | {"model": "gpt"}
    still = body()
    assert json.loads(TEXT.rewrite(still, TEXT.facts(PATH, still), None, usage=True, stream=True)) == json.loads(
        body(**asking)
    )


def test_a_bad_request_is_refused() -> None:
    with pytest.raises(RequestError):
        TEXT.facts(PATH, b'{"model":1}')


@pytest.mark.parametrize(
    "token",
    [
        RED,
        piece("\n"),
        piece("", "content_filter"),
        piece("Red", "stop"),
        piece("b", index=1),
        piece("", reasoning="h"),
    ],
)
def test_text_is_a_first_token(token: dict[str, Any]) -> None:
    reading = TEXT.scanner(Facts("m", True), SSE)
    assert reading.feed(frame(piece(""))) is None
    assert reading.feed(frame(token)) is ACCEPTED


def test_reasoning_is_one_only_if_it_counts() -> None:
    reading = TEXT.scanner(Facts("m", True), SSE, reasoning_counts=False)
    assert reading.feed(frame(piece("", reasoning="hm"))) is None
    assert reading.feed(frame(STOP)) is ACCEPTED


@pytest.mark.parametrize("quiet", [piece(""), piece(None), USAGE, HEAD | {"choices": []}])
def test_what_is_no_text_leaves_the_race_open(quiet: dict[str, Any]) -> None:
    reading = TEXT.scanner(Facts("m", True), SSE)
    assert reading.feed(frame(quiet)) is None
    failure = reading.feed(frame(STOP) + END)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.body) == (FailureClass.EMPTY, frame(quiet) + frame(STOP) + END)


def test_an_error_before_the_first_token_is_the_http_error_it_stands_for() -> None:
    failure = TEXT.scanner(Facts("m", True), SSE).feed(frame({"error": {"code": 503}}))
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status) == (FailureClass.SERVER_ERROR, 503)


def test_a_stream_ends_with_its_marker_and_reports_usage() -> None:
    reading = TEXT.scanner(Facts("m", True), SSE)
    assert reading.feed(frame(RED)) is ACCEPTED
    assert not reading.watch(frame(STOP) + frame(USAGE))
    assert reading.ending(True).usage == Usage(12, 4, None, 3, source=UsageSource.PARTIAL)
    assert reading.watch(END)
    assert reading.ending(True) == Ending(None, Usage(12, 4, None, 3))


def test_a_stream_that_breaks_off_used_a_token_for_each_text() -> None:
    reading = TEXT.scanner(Facts("m", True), SSE)
    assert reading.feed(frame(piece("")) + frame(RED)) is ACCEPTED
    assert not reading.watch(frame(RED))
    assert reading.ending(False).usage == Usage(output_tokens=2, source=UsageSource.ESTIMATED)


def whole(text: str, finish: str = "stop", **more: Any) -> bytes:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
    return json.dumps(HEAD | {"choices": [choice], "usage": TOKENS} | more).encode()


def test_a_whole_completion_is_judged() -> None:
    reading = TEXT.scanner(Facts("m", False), [])
    assert reading.feed(whole("Red")) is None
    assert reading.eof(whole("Red")) is ACCEPTED
    assert reading.ending(True) == Ending(None, Usage(12, 4, None, 3))
    for bad, kind in (
        (whole(""), FailureClass.EMPTY),
        (whole("", "error"), FailureClass.SERVER_ERROR),
        (whole("Red", error={"code": 429}), FailureClass.RATE_LIMITED),
        (b"<html>", FailureClass.PROTOCOL),
        (b'{"status":"ok"}', FailureClass.PROTOCOL),
        (whole("Red")[:-3], FailureClass.PROTOCOL),
    ):
        failure = TEXT.scanner(Facts("m", False), []).eof(bad)
        assert isinstance(failure, Failure)
        assert failure.kind is kind
    assert TEXT.scanner(Facts("m", False), []).eof(whole("", "content_filter")) is ACCEPTED


STREAMS = {
    "text": [piece(""), RED, piece(" and caf\u00e9"), STOP, USAGE],
    "no usage": [RED, STOP],
    "finish with the text": [RED, piece("!", "length")],
    "two choices": [piece("b", index=1), RED, piece("!", index=1), STOP, piece("", "length", index=1), USAGE],
    "echo with logprobs": [
        piece("Hi", logprobs=logprobs("H", "i")),
        piece("Red", logprobs=logprobs("Red")),
        piece("", "stop", logprobs=logprobs(), stop_reason=None, prompt_token_ids=[1]),
    ],
    "nothing": [STOP],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_and_its_document_mean_the_same(name: str) -> None:
    raw = stream(STREAMS[name])
    document = TEXT.as_document(raw)
    told = json.loads(document)
    assert plain(told) == read_by_the_sdk(raw)
    with sdk(document, "application/json") as client:
        assert client.completions.create(model="m", prompt="x").to_dict() == told
    again = TEXT.as_stream(document)
    assert json.loads(TEXT.as_document(again)) == told
    assert read_by_the_sdk(again) == plain(told)


def read_by_the_sdk(raw: bytes) -> Any:
    """What a client puts together from the SDK's chunks; for texts the SDK has no accumulator of its own."""
    answer: dict[str, Any] = dict(HEAD)
    choices: dict[int, dict[str, Any]] = {}
    with sdk(raw) as client:
        for chunk in client.completions.create(model="m", prompt="x", stream=True):
            if chunk.usage is not None:
                answer["usage"] = chunk.usage.to_dict()
            for part in map(plain, (choice.to_dict() for choice in chunk.choices)):
                choice = choices.setdefault(part["index"], {"text": ""})
                columns = part.pop("logprobs", None)
                choice |= part | {"text": choice["text"] + part["text"]}
                if columns is not None:
                    held = choice.setdefault("logprobs", {})
                    held |= {name: held.get(name, []) + values for name, values in columns.items()}
    return plain(answer | {"choices": [choices[index] for index in sorted(choices)]})


def test_a_body_in_the_other_form_is_converted() -> None:
    raw = stream(STREAMS["text"])
    reading = TEXT.scanner(Facts("m", False), [])
    assert reading.eof(raw) == Accepted(TEXT.as_document(raw))
    assert reading.ending(True).usage == Usage(12, 4, None, 3)
    assert isinstance(TEXT.scanner(Facts("m", False), []).eof(raw.removesuffix(END)), Failure)
    for wanted in (True, False):
        streaming = TEXT.scanner(Facts("m", True, wants_usage=wanted), SSE)
        assert streaming.feed(whole("Red")) is None
        verdict = streaming.eof(whole("Red"))
        assert isinstance(verdict, Accepted)
        assert verdict.instead is not None
        assert streaming.ending(True) == Ending(None, Usage(12, 4, None, 3))
        assert (b"prompt_tokens" in verdict.instead) == wanted


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b'{"choices":[{}]}', stream([RED, {"error": 1}]), stream([RED], b""), stream([piece([]), RED])]
)
def test_what_is_not_whole_is_not_converted(raw: bytes) -> None:
    for convert in (TEXT.as_document, TEXT.as_stream):
        with pytest.raises(ValueError, match=r".+"):
            convert(raw)


EVENTS = st.sampled_from([*map(frame, (RED, STOP, USAGE, piece(""), {"error": {"code": 503}})), END, b": x\n\n"])


@given(st.lists(EVENTS, max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 2000)))
def test_all_chunkings_agree(events: list[bytes], line_end: bytes, cuts: list[int]) -> None:
    raw = b"".join(events).replace(b"\n", line_end)
    marks = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    one, other = read(raw), read(*(raw[a:b] for a, b in pairwise(marks)))
    assert one == other


@given(st.lists(st.binary(max_size=60) | EVENTS, max_size=8))
def test_random_bytes_never_raise(pieces: list[bytes]) -> None:
    read(*pieces)
    TEXT.scanner(Facts("m", False), []).eof(b"".join(pieces))
    for convert in (TEXT.as_document, TEXT.as_stream):
        with suppress(ValueError):
            convert(b"".join(pieces))


def read(*reads: bytes) -> tuple[str, Ending]:
    """The kind of the verdict, and the ending."""
    reading = TEXT.scanner(Facts("m", True), SSE)
    verdict = None
    for data in reads:
        if verdict is None:
            verdict = reading.feed(data)
        elif verdict is ACCEPTED:
            reading.watch(data)
    verdict = verdict or reading.eof(b"".join(reads))
    ending = reading.ending(True) if verdict is ACCEPTED else Ending(None, None)
    return verdict.kind if isinstance(verdict, Failure) else "accepted", ending
