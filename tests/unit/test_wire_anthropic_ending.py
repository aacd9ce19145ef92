"""The failures, the end and the usage of a stream of Anthropic messages."""

from __future__ import annotations

import json

import pytest

from hedgerow.events import FailureClass, Usage, UsageSource
from hedgerow.wire.base import ACCEPTED, Accepted, Ending
from tests.unit.anthropic_support import (
    BLOCK_END,
    END,
    HM,
    MESSAGES,
    PING,
    RED,
    START,
    STOP,
    TEXT,
    THINKING,
    block,
    delta,
    error,
    event,
    failed,
    of,
    run,
    scanner,
    started,
    stopped,
)

ERRORS = [
    (error("overloaded_error", "Overloaded"), FailureClass.OVERLOADED, 529),
    (error("api_error", "Overloaded"), FailureClass.OVERLOADED, 529),
    (error("api_error", "Internal server error"), FailureClass.SERVER_ERROR, 500),
    (error("timeout_error"), FailureClass.SERVER_ERROR, 504),
    (error("rate_limit_error"), FailureClass.RATE_LIMITED, 429),
    (
        error("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
        FailureClass.QUOTA_EXHAUSTED,
        429,
    ),
    (error("billing_error"), FailureClass.QUOTA_EXHAUSTED, 402),
    (error("authentication_error"), FailureClass.UPSTREAM_AUTH, 401),
    (error("permission_error"), FailureClass.UPSTREAM_AUTH, 403),
    (error("not_found_error"), FailureClass.UPSTREAM_MISSING_MODEL, 404),
    (error("invalid_request_error"), FailureClass.FATAL_REQUEST, 400),
    (error("request_too_large"), FailureClass.FATAL_REQUEST, 413),
    (error("of_tomorrow"), FailureClass.SERVER_ERROR, 500),
    (b'event: error\ndata: {"error":{"code":503}}\n\n', FailureClass.SERVER_ERROR, 503),
    (b'event: error\ndata: {"type":"error","error":"gone"}\n\n', FailureClass.SERVER_ERROR, 500),
]


@pytest.mark.parametrize(("told", "kind", "status"), ERRORS)
@pytest.mark.parametrize("before", [(), (START, TEXT, PING)])
def test_an_error_before_the_first_token_is_the_http_error_it_stands_for(
    told: bytes, kind: FailureClass, status: int, before: tuple[bytes, ...]
) -> None:
    failure = failed(run(*before, told, END)[0])
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.body == told.partition(b"data: ")[2].strip()
    assert failure.headers == [(b"content-type", b"application/json"), (b"request-id", b"req_1")]


@pytest.mark.parametrize(("told", "kind", "status"), ERRORS)
@pytest.mark.parametrize("tail", [(), (END,)])
def test_an_error_after_commit_is_the_failure(
    told: bytes, kind: FailureClass, status: int, tail: tuple[bytes, ...]
) -> None:
    ending = of(run(START, TEXT, RED, told, *tail)[3])
    assert (failed(ending.failure).kind, failed(ending.failure).status) == (kind, status)
    assert ending.usage == Usage(25, 1, source=UsageSource.PARTIAL)


@pytest.mark.parametrize(
    "harmless",
    [
        delta("text_delta", text='the "error": {"type": "error"}'),
        block("web_search_tool_result", content={"type": "error", "error": "x"}, tool_use_id="t"),
        block("tool_use", id="t", name="error", input={}),
        event("ping", error=None),
        b'data: {"error": broken\n\n',
    ],
)
def test_talk_of_errors_is_no_error(harmless: bytes) -> None:
    assert of(run(START, TEXT, RED, harmless, STOP, END)[3]).failure is None


@pytest.mark.parametrize("clean", [True, False])
def test_an_answer_with_its_end_marker_is_whole_however_the_connection_ends(clean: bool) -> None:
    assert run(START, TEXT, RED, RED, BLOCK_END, STOP, END, clean=clean)[2:] == (True, Ending(None, Usage(25, 17)))


def test_a_whole_answer_in_the_deciding_read_is_seen_to_be_whole() -> None:
    whole = START + TEXT + RED + STOP + END
    assert run(whole) == (ACCEPTED, whole, True, Ending(None, Usage(25, 17)))


@pytest.mark.parametrize(
    "marker",
    [
        END.replace(b"\n", b"\r\n"),
        END.replace(b"\n", b"\r"),
        b'data:{"type": "message_stop" , "amazon-bedrock-invocationMetrics":{"inputTokenCount":25}}  \n\n',
        b': bye\nevent: message_stop\ndata: {"type":\ndata: "message_stop"}\nid: 7\n\n',
    ],
)
def test_the_end_marker_is_an_event_in_any_framing(marker: bytes) -> None:
    for at in range(len(marker)):
        _, _, done, ending = run(START, RED, marker[:at], marker[at:])
        assert done, "seen at once, not only at the close"
        assert of(ending).failure is None


def test_the_sign_of_the_end_is_a_byte_of_it_that_no_delta_has_in_its_own_words() -> None:
    sign = bytes([scanner().sign or 0])
    assert sign in b"message_stop"
    kinds = ("text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta")
    assert all(sign not in delta(kind, text="", thinking="", signature="", partial_json="") for kind in kinds)


@pytest.mark.parametrize(
    "text",
    [
        delta("text_delta", text='{"type":"message_stop"}'),
        delta("text_delta", text="\n\nevent: message_stop\n\n"),
        block("tool_use", id="t", name="message_stop", input={}),
        b"event: message_stop\n\n",
        b': "message_stop"\n\n',
        b'data: {"type":"message_stop"\n\n',
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_stream_without_an_end_marker_is_a_cut(text: bytes, clean: bool) -> None:
    _, _, done, ending = run(START, TEXT, RED, text, STOP, clean=clean)
    assert not done
    assert failed(of(ending).failure).kind is FailureClass.PROTOCOL
    assert of(ending).usage == Usage(25, 17), "reported with the reason for the end"


def test_usage_is_the_last_total_and_never_a_sum() -> None:
    stream = (START, TEXT, RED, *(stopped(None, {"output_tokens": n}) for n in range(2, 9)), stopped(), END)
    assert of(run(*stream)[3]).usage == Usage(25, 17)
    assert of(run(b"".join(stream))[3]).usage == Usage(25, 17)


def test_input_holds_what_was_written_to_a_cache_and_read_from_it() -> None:
    first = started(cache_creation_input_tokens=100, cache_read_input_tokens=1000)
    last = stopped(usage={"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}})
    assert of(run(first, RED, last, END)[3]).usage == Usage(1125, 9, 1000, 4, 100)


def test_what_is_written_to_a_cache_for_an_hour_is_told_apart() -> None:
    written = {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}
    first = started(cache_creation_input_tokens=100, cache_read_input_tokens=0, cache_creation=written)
    known = Usage(125, 17, 0, None, cache_write_tokens=100, cache_write_1h_tokens=40)
    assert of(run(first, RED, stopped(), END)[3]).usage == known


@pytest.mark.parametrize(
    ("first", "last", "usage"),
    [
        ({"input_tokens": 0}, {"input_tokens": 9, "output_tokens": 7}, Usage(9, 7)),
        ({}, {"input_tokens": 25, "output_tokens": 7, "cache_read_input_tokens": 4}, Usage(29, 7, 4)),
        ({"cache_read_input_tokens": 4}, {"input_tokens": 0, "output_tokens": 7}, Usage(29, 7, 4)),
        ({"input_tokens": 0}, {"output_tokens": 0}, Usage(None, 0)),
        ({}, {"output_tokens": 7, "input_tokens": None, "server_tool_use": None}, Usage(25, 7)),
        ({"input_tokens": "many"}, {"output_tokens": 7}, Usage(None, 7)),
        ({}, {"output_tokens": "many"}, Usage(25, 1, source=UsageSource.PARTIAL)),
    ],
)
def test_each_number_is_the_last_that_was_told(first: dict[str, object], last: dict[str, object], usage: Usage) -> None:
    known = of(run(started(**first), RED, stopped(usage=last), clean=False)[3]).usage
    assert known == usage


def test_a_loser_has_its_exact_input_and_as_much_output_as_was_received() -> None:
    reading = scanner(reasoning_counts=False)
    for read in (started(input_tokens=1500), THINKING, *[HM] * 40):
        assert reading.feed(read) is None
    assert reading.ending(False).usage == Usage(1500, 40, source=UsageSource.PARTIAL)


def test_an_answer_that_breaks_off_has_as_much_output_as_was_received() -> None:
    assert of(run(started(input_tokens=1500), TEXT, *[RED] * 60, clean=False)[3]).usage == Usage(
        1500, 60, source=UsageSource.PARTIAL
    )
    assert scanner().ending(False).usage == Usage(output_tokens=0, source=UsageSource.ESTIMATED)


def test_a_message_that_came_whole_becomes_the_stream_that_was_asked_for() -> None:
    content = [{"type": "text", "text": "Red"}]
    message = {"id": "msg_P", "type": "message", "role": "assistant", "model": "c", "content": content}
    whole = json.dumps(
        message | {"stop_reason": "end_turn", "usage": {"input_tokens": 25, "output_tokens": 17}}, indent=1
    ).encode()
    verdict, _, _, ending = run(whole[:30], whole[30:])
    assert isinstance(verdict, Accepted)
    assert verdict.instead == MESSAGES.as_stream(whole)
    assert ending == Ending(None, Usage(25, 17))


def test_an_empty_message_that_came_whole_can_still_be_delivered_as_a_stream() -> None:
    whole = b'{"type":"message","content":[],"stop_reason":"end_turn","usage":{"output_tokens":1}}'
    failure = failed(run(whole)[0])
    assert (failure.kind, failure.body) == (FailureClass.EMPTY, MESSAGES.as_stream(whole))
    assert failure.headers is not None
    assert failure.headers[0] == (b"content-type", b"text/event-stream; charset=utf-8")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', FailureClass.OVERLOADED),
        (b'{"type":"message","content":[{"type":"text","text":"x"}]}', FailureClass.PROTOCOL),
    ],
)
def test_a_document_that_makes_no_stream_is_the_failure_it_tells(body: bytes, kind: FailureClass) -> None:
    assert failed(run(body)[0]).kind is kind
