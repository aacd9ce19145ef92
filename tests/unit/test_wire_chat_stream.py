"""A stream of chat chunks: what is a first token, what is an error, what is an end; the same for every chunking."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage, UsageSource
from hedgerow.wire import lookup
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Facts, Scanner, Verdict

SSE = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-request-id", b"r1")]
END = b"data: [DONE]\n\n"


def frame(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return frame(id="chatcmpl-P1", object="chat.completion.chunk", created=1, model="m", choices=[choice], **more)


def call(**function: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


def usage(given: int, made: int) -> dict[str, int]:
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


ROLE = chunk({"role": "assistant", "content": ""})
RED = chunk({"content": "Red"})
STOP = chunk({}, "stop")
USAGE = frame(id="chatcmpl-P1", choices=[], usage=usage(12, 4))


def scanner() -> Scanner:
    return lookup(b"POST", b"/v1/chat/completions").scanner(Facts("m", True), SSE)


def run(*reads: bytes, clean: bool = True) -> tuple[Verdict, bytes, bool, Ending | None]:
    """Feed as the gateway does: verdict, the read that brought it, whether the end was seen, the ending."""
    reading = scanner()
    seen = b""
    for number, read in enumerate(reads):
        seen += read
        verdict = reading.feed(read)
        if verdict is ACCEPTED:
            done = [reading.watch(piece) for piece in (b"", *reads[number + 1 :])]
            assert done == sorted(done), "an end that was seen stays seen"
            return verdict, read, done[-1], reading.ending(clean)
        if verdict is not None:
            return verdict, read, False, None
    return reading.eof(seen), b"", False, None


def failed(verdict: Verdict | None) -> Failure:
    assert isinstance(verdict, Failure)
    return verdict


def of(ending: Ending | None) -> Ending:
    assert ending is not None
    return ending


@pytest.mark.parametrize(
    "token",
    [
        RED,
        chunk({"role": "assistant", "content": "Red"}),
        chunk({"refusal": "I can't "}),
        chunk(call(name="look", arguments="")),
        chunk(call(arguments="{")),
        chunk({"tool_calls": [{"index": 0, "type": "custom", "custom": {"name": "sh", "input": ""}}]}),
        chunk({"function_call": {"name": "look", "arguments": ""}}),
        chunk({"reasoning_content": "thinking "}),
        chunk({"reasoning": "thinking "}),
        chunk({"content": [{"type": "text", "text": "Red"}]}),
        chunk({"audio": {"id": "a", "data": "AAAA"}}),
        chunk({"audio": {"id": "a", "transcript": "Red"}}),
        chunk({"content": ""}, "content_filter"),
        chunk({"content": "all of it"}, "stop"),
        frame(choices=[{"index": 0, "delta": {}}, {"index": 1, "delta": {"content": "b1"}}]),
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
        b'data:{"choices":\ndata: [{"delta":{"content":"Red"}}]}\n\n',
        chunk({"content": "Red"}).replace(b"\n", b"\r\n"),
        chunk({"content": "Red"}).replace(b"\n", b"\r"),
        chunk({"content": "R" * 1_048_576}),
        'data: {"choices":[{"delta":{"content":"P\u2028one\u0085"}}]}\n\n'.encode(),
    ],
)
def test_output_is_a_first_token(token: bytes) -> None:
    assert run(ROLE, token)[:2] == (ACCEPTED, token)


@pytest.mark.parametrize(
    "thought",
    [
        chunk({"reasoning_content": "thinking "}),
        chunk({"reasoning": "thinking ", "content": ""}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
    ],
)
def test_reasoning_decides_only_if_it_counts(thought: bytes) -> None:
    protocol = lookup(b"POST", b"/v1/chat/completions")
    assert scanner().feed(thought) is ACCEPTED
    for end, decides in ((RED, True), (chunk({"reasoning": "hm", "content": "x"}), True), (STOP, True), (END, True)):
        reading = protocol.scanner(Facts("m", True), SSE, reasoning_counts=False)
        assert reading.feed(ROLE) is None
        assert reading.feed(thought + thought) is None
        assert (reading.feed(end) is ACCEPTED) == decides
    reading = protocol.scanner(Facts("m", True), SSE, reasoning_counts=False)
    assert reading.feed(ROLE + thought + thought) is None
    assert reading.ending(False).usage == Usage(output_tokens=2, source=UsageSource.PARTIAL)
    assert failed(reading.eof(ROLE + thought + thought)).kind is FailureClass.PROTOCOL


NO_TOKENS = [
    ROLE,
    chunk({"role": "assistant", "content": None}),
    chunk({}),
    chunk({}, obfuscation="k3Jq0aa"),
    chunk({"content": ""}, usage=usage(12, 0)),
    chunk({}, usage=None, service_tier="default", system_fingerprint="fp"),
    chunk({"tool_calls": []}),
    chunk({"tool_calls": [{"index": 0, "id": "c", "type": "function"}]}),
    chunk(call(name="", arguments="")),
    chunk({"function_call": None, "audio": {"id": "a"}}),
    frame(id="", object="", created=0, model="", choices=[], prompt_filter_results=[{"prompt_index": 0}]),
    frame(choices=None),
    frame(choices=[], error=None),
    frame(choices="odd"),
    b"data: 1\n\n",
    b"data: \n\n",
    b": OPENROUTER PROCESSING\n\n",
    b":\n\n",
    b"event: ping\nid: 1\nretry: 10\n\n",
]


@pytest.mark.parametrize("quiet", NO_TOKENS)
def test_what_is_no_output_leaves_the_race_open(quiet: bytes) -> None:
    assert scanner().feed(quiet) is None
    assert run(quiet, quiet, RED)[:2] == (ACCEPTED, RED)


def test_a_document_instead_of_a_stream_is_made_one() -> None:
    message = {"role": "assistant", "content": "P-answer", "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    document = json.dumps({"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage(12, 2)}).encode()
    protocol = lookup(b"POST", b"/v1/chat/completions")
    for wanted in (True, False):
        reading = protocol.scanner(Facts("m", True, wants_usage=wanted), SSE)
        assert reading.feed(document[:50]) is None
        assert reading.feed(document[50:]) is None
        verdict = reading.eof(document)
        assert isinstance(verdict, Accepted)
        assert verdict.instead is not None
        assert reading.ending(True) == Ending(None, Usage(12, 2))
        assert (b"prompt_tokens" in verdict.instead) == wanted
        assert run(verdict.instead)[2:] == (True, Ending(None, Usage(12, 2) if wanted else None))


def test_an_empty_document_instead_of_a_stream_can_still_be_delivered_as_one() -> None:
    document = b'{"id":"x","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}'
    reading = scanner()
    assert reading.feed(document) is None
    failure = failed(reading.eof(document))
    assert (failure.kind, failure.status) == (FailureClass.EMPTY, 200)
    assert failure.headers == SSE
    assert failure.body is not None
    assert failure.body.endswith(END)
    assert reading.ending(True).usage == Usage(1, 0)


def test_a_token_in_an_event_that_is_not_yet_complete_does_not_count() -> None:
    assert scanner().feed(RED[:-1]) is None
    assert failed(run(RED[:-1])[0]).kind is FailureClass.PROTOCOL


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (frame(error={"message": "dead", "type": "server_error", "code": 503}), FailureClass.SERVER_ERROR, 503),
        (frame(error={"message": "bad", "type": "BadRequestError", "code": 400}), FailureClass.FATAL_REQUEST, 400),
        (chunk({"content": ""}, "error", error={"code": 502, "message": "x"}), FailureClass.SERVER_ERROR, 502),
        (chunk({"content": "P"}, error={"code": 429, "message": "x"}), FailureClass.RATE_LIMITED, 429),
        (chunk({}, "error"), FailureClass.SERVER_ERROR, 500),
        (frame(error="out of memory"), FailureClass.SERVER_ERROR, 500),
        (frame(error={"code": "content_filter"}), FailureClass.CONTENT_POLICY, 400),
        (b'{"error":{"code":"insufficient_quota"}}', FailureClass.QUOTA_EXHAUSTED, 429),
        (b'data: {"error":{"code":500}}', FailureClass.SERVER_ERROR, 500),
    ],
)
def test_an_error_before_the_first_token_is_the_http_error_it_stands_for(
    error: bytes, kind: FailureClass, status: int
) -> None:
    failure = failed(run(error)[0])
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.body == error.removeprefix(b"data: ").strip()
    assert failure.headers == [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]


def test_an_error_frame_decides_without_waiting_for_the_end() -> None:
    reading = scanner()
    assert reading.feed(ROLE) is None
    assert failed(reading.feed(frame(error={"code": 503}) + END)).kind is FailureClass.SERVER_ERROR


@pytest.mark.parametrize(
    "stream",
    [(ROLE, STOP, END), (ROLE, END), (ROLE, STOP), (ROLE, chunk({}, "length"), USAGE), (b"data: [DONE]",)],
)
def test_a_whole_answer_with_nothing_in_it_is_empty_and_keeps_its_bytes(stream: tuple[bytes, ...]) -> None:
    failure = failed(run(*stream)[0])
    assert (failure.kind, failure.status, failure.headers) == (FailureClass.EMPTY, 200, SSE)
    assert failure.body == b"".join(stream)


def test_the_usage_of_an_empty_answer_is_on_record() -> None:
    reading = scanner()
    for read in (ROLE, STOP, USAGE):
        assert reading.feed(read) is None
    assert failed(reading.feed(END)).kind is FailureClass.EMPTY
    assert reading.ending(True).usage == Usage(12, 4)


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\n\n",
        ROLE,
        b"<!DOCTYPE html><html></html>",
        b"\n  <html>",
        b'{"id":"x","choices":[{"text":"P-answer","finish_reason":"content_filter"}]}',
        b'{"id":"x"}',
        b'{"truncated',
        b"data: {not json}\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"\x1f\x8b\x08\x00",
    ],
)
def test_what_is_no_stream_of_chunks_is_a_protocol_failure(stream: bytes) -> None:
    failure = failed(run(stream)[0])
    assert (failure.kind, failure.status, failure.body) == (FailureClass.PROTOCOL, None, None)


def test_an_html_page_is_told_at_its_first_byte() -> None:
    assert failed(scanner().feed(b"<")).message == "an HTML page instead of a stream"


@pytest.mark.parametrize("clean", [True, False])
def test_an_answer_with_its_end_marker_is_whole_however_the_connection_ends(clean: bool) -> None:
    _, _, done, ending = run(ROLE, RED, RED, STOP, USAGE, END, clean=clean)
    assert done
    assert ending == Ending(None, Usage(12, 4))


def test_the_end_marker_counts_without_a_finish_reason() -> None:
    assert run(ROLE, RED, END)[2:] == (True, Ending(None, None))


def test_a_whole_answer_in_the_deciding_read_is_seen_to_be_whole() -> None:
    assert run(ROLE + RED + STOP + USAGE + END) == (
        ACCEPTED,
        ROLE + RED + STOP + USAGE + END,
        True,
        Ending(None, Usage(12, 4)),
    )


@pytest.mark.parametrize(
    "end",
    [
        b"data: [DONE]\r\n\r\n",
        b"data: [DONE]\r\r",
        b"data:[DONE]\n\n",
        b": bye\ndata: [DONE]\nid: 7\n\n",
        b"data: [DONE]\n\n\n",
        b"data: [DONE] \n\n",
    ],
)
def test_the_end_marker_is_an_event_in_any_framing(end: bytes) -> None:
    for at in range(len(end)):
        _, _, done, ending = run(RED, end[:at], end[at:])
        assert of(ending).failure is None
        if end.endswith((b"]\n\n", b"]\r\n\r\n", b"]\r\r")):
            assert done, "seen at once, not only at the close"


@pytest.mark.parametrize("end", [b"data: [DONE]", b"data: [DONE]\n"])
def test_an_end_marker_without_its_blank_line_makes_the_answer_whole_at_the_close(end: bytes) -> None:
    assert of(run(RED, end)[3]).failure is None


@pytest.mark.parametrize(
    "text",
    [
        chunk({"content": "[DONE]"}),
        chunk({"content": "\n\ndata: [DONE]\n\n"}),
        b": [DONE]\n\n",
        b"id: [DONE]\n\n",
        b'data: {"choices":[]}[DONE]\n\n',
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_stream_without_an_end_marker_is_a_cut(text: bytes, clean: bool) -> None:
    _, _, done, ending = run(ROLE, RED, text, STOP, clean=clean)
    failure = failed(of(ending).failure)
    assert not done
    assert (failure.kind, failure.body) == (FailureClass.PROTOCOL, None)


@pytest.mark.parametrize("tail", [b"", END, RED * 1000 + END])
def test_an_error_after_commit_is_the_failure(tail: bytes) -> None:
    lost = frame(error={"message": "upstream lost", "type": "server_error", "code": 503})
    failure = failed(of(run(ROLE, RED, lost, tail)[3]).failure)
    assert (failure.kind, failure.status, failure.body) == (FailureClass.SERVER_ERROR, 503, lost[6:-2])


@pytest.mark.parametrize(
    "harmless",
    [
        chunk({"content": 'the "error": {"code": 500}'}),
        chunk({"content": "x"}, error=None),
        frame(choices=[{"delta": {"content": "error"}, "logprobs": {"content": [{"token": "error"}]}}]),
        b'data: {"error": broken\n\n',
    ],
)
def test_talk_of_errors_is_no_error(harmless: bytes) -> None:
    assert run(ROLE, RED, harmless, STOP, END)[3] == Ending(None, None)


def test_the_last_usage_counts_when_every_chunk_reports_it() -> None:
    stream = [chunk({"content": "P"}, usage=usage(12, made)) for made in range(1, 301)]
    assert of(run(*stream, END)[3]).usage == Usage(12, 300)
    assert of(run(*stream)[3]).usage == Usage(12, 300, source=UsageSource.PARTIAL)


def test_a_stream_that_ends_early_used_at_least_a_token_for_each_delta() -> None:
    assert of(run(ROLE, RED, RED)[3]).usage == Usage(output_tokens=2, source=UsageSource.PARTIAL)
    assert of(run(ROLE + RED + RED)[3]).usage == Usage(output_tokens=2, source=UsageSource.PARTIAL)
    early = chunk({"content": "Red"}, usage=usage(12, 1))
    assert of(run(early, RED, RED)[3]).usage == Usage(12, 3, source=UsageSource.PARTIAL)
    late = chunk({"content": "Red"}, usage=usage(12, 9))
    assert of(run(ROLE, RED, late)[3]).usage == Usage(12, 9, source=UsageSource.PARTIAL)
    assert of(run(RED, USAGE, frame(error={"code": 503}))[3]).usage == Usage(12, 4, source=UsageSource.PARTIAL)


@pytest.mark.parametrize("quiet", [ROLE, chunk({}), frame(error={"code": 503}), chunk({}, error={"code": 503})])
def test_a_stream_that_has_said_nothing_has_no_known_usage(quiet: bytes) -> None:
    reading = scanner()
    reading.feed(quiet)
    assert reading.ending(False).usage is None


def test_usage_says_what_was_cached_and_what_was_reasoning() -> None:
    report = usage(12, 4) | {
        "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert of(run(RED, frame(choices=[], usage=report), END)[3]).usage == Usage(12, 4, 8, 3)
    odd = report | {"prompt_tokens": "12"}
    assert of(run(RED, frame(choices=[], usage=odd), END)[3]).usage is None


def test_talk_of_usage_does_not_hide_the_last_report() -> None:
    talk = frame(choices=[], usage={"prompt_tokens": None})
    assert of(run(RED, USAGE, talk, b': "prompt_tokens"\n\n', END)[3]).usage == Usage(12, 4)


def test_the_first_of_two_errors_is_the_failure() -> None:
    first, second = frame(error={"code": 503}), frame(error={"code": 400})
    assert failed(of(run(RED, first, second)[3]).failure).status == 503


def reads(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


EVENTS = st.sampled_from(
    [
        *NO_TOKENS,
        RED,
        RED,
        STOP,
        USAGE,
        END,
        chunk({"content": "caf\u00e9 [DONE] \U0001f600"}, usage=usage(12, 2)),
        frame(error={"code": 503}),
        chunk({}, "error"),
        b"data: {broken\n\n",
        b"data: [DONE]\nid: 1\n\n",
        b"\xef\xbb\xbf",
        b"\n",
        b"<",
        b"{",
    ]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=12), LINE_ENDS, st.lists(st.integers(0, 4000)), st.booleans())
def test_all_chunkings_agree(events: list[bytes], line_end: bytes, cuts: list[int], clean: bool) -> None:
    stream = b"".join(events).replace(b"\n", line_end)
    whole, pieces = run(stream, clean=clean), run(*reads(stream, cuts), clean=clean)
    assert same(pieces[0], whole[0])
    assert pieces[3] == whole[3]


def same(one: Verdict, other: Verdict) -> bool:
    """Equal but for the bytes of an empty answer, of which the reads after its end marker are no part."""
    if isinstance(one, Failure) and isinstance(other, Failure) and one.kind is FailureClass.EMPTY:
        assert one.body is not None
        assert other.body is not None
        return one.kind == other.kind and other.body.startswith(one.body)
    return one == other


@given(st.lists(st.sampled_from([RED, USAGE, STOP, ROLE]), max_size=80), st.lists(st.integers(0, 20_000)))
def test_the_end_is_seen_with_its_last_byte_in_every_chunking(middle: list[bytes], cuts: list[int]) -> None:
    stream = RED + b"".join(middle) + END
    verdict, _, done, ending = run(*reads(stream, cuts))
    assert verdict is ACCEPTED
    assert done
    assert of(ending).failure is None


@given(st.lists(st.binary(max_size=60) | EVENTS, max_size=8), st.booleans())
def test_random_bytes_never_raise(pieces: list[bytes], clean: bool) -> None:
    verdict, _, _, ending = run(*pieces, clean=clean)
    assert verdict is ACCEPTED or isinstance(verdict, Failure)
    assert (ending is not None) == (verdict is ACCEPTED)


def test_nothing_is_held_or_piles_up_once_a_stream_is_committed() -> None:
    tracemalloc.start()
    reading = scanner()
    assert reading.feed(b": " + b"x" * 1_000_000 + b"\n\n") is None
    assert reading.feed(ROLE + RED) is ACCEPTED
    for number in range(3_000):
        reading.watch(chunk({"content": f"word {number} "}))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 64 * 1024
