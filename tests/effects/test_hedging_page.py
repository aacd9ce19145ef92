"""docs/hedging.md says what a client gets when every attempt fails; this is its table."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.config import Settings
from tests.effects.support import HELLO, QUICK, SILENT, STALLS, STREAM, WHOLE, asked, play, settings
from tests.engine.scripted import JSON, REFUSED, Answer, Script

SAID = b'{"error":{"message":"said by the upstream","type":"t","param":null,"code":null}}'
NOWHERE, ELSEWHERE = ["a"], ["a", "b", "c"]


def status(number: int, body: bytes = SAID) -> Answer:
    return Answer([(0.0, body)], status=number, headers=JSON, head_after=0.1)


def frame(code: str) -> Answer:
    return Answer([(0.1, b'data: {"error":{"message":"m","type":"t","code":"%b"}}\n\n' % code.encode())])


def three(**changes: object) -> Settings:
    """Three targets, three accounts, no hedge to confuse the picture."""
    return settings({"routes.<name>.hedge.delay": "off", **changes})


@pytest.mark.parametrize("number", [400, 413, 422, 418])
def test_a_fault_of_the_request_is_returned_as_it_was_said(number: int) -> None:
    pools, client = play(three(), {"a": status(number)})
    assert ([name for name, _ in asked(pools)], client.status, client.text) == (NOWHERE, number, SAID)


@pytest.mark.parametrize("number", [401, 402, 403, 404, 405, 408, 409, 410, 429, 500, 502, 503, 529])
def test_where_another_target_may_help_all_are_asked_and_the_last_ones_words_returned(number: int) -> None:
    pools, client = play(three(), dict.fromkeys("abc", status(number)))
    assert ([name for name, _ in asked(pools)], client.status, client.text) == (ELSEWHERE, number, SAID)
    assert client.answer_headers[b"x-should-retry"] == b"false"


@pytest.mark.parametrize(
    ("script", "body", "answered", "code"),
    [
        (REFUSED, STREAM, 502, "connect"),
        (Answer([(0.0, b"<html>")], headers=[(b"content-type", b"text/html")]), WHOLE, 502, "protocol"),
        (Answer([(0.0, HELLO[:20])], headers=JSON, end="reset"), WHOLE, 502, "connect"),
        (Answer(end="reset"), STREAM, 502, "connect"),
        (SILENT, STREAM, 504, "timeout_first_token"),
    ],
)
def test_where_no_upstream_said_anything_the_error_is_ours(
    script: Script, body: bytes, answered: int, code: str
) -> None:
    pools, client = play(three(), dict.fromkeys("abc", script), body)
    assert [name for name, _ in asked(pools)] == ELSEWHERE
    assert (client.status, msgspec.json.decode(client.text)["error"]["code"]) == (answered, code)


def test_at_the_total_limit_everything_ends_with_504() -> None:
    pools, client = play(three(), dict.fromkeys("abc", SILENT), WHOLE)
    assert (asked(pools), client.ended_at, client.status) == ([("a", 0.0)], 600.0, 504)
    assert msgspec.json.decode(client.text)["error"]["code"] == "timeout_total"


@pytest.mark.parametrize(("code", "expected"), [("overloaded_error", 529), ("server_error", 500)])
def test_an_error_in_a_stream_becomes_the_status_it_stands_for(code: str, expected: int) -> None:
    pools, client = play(three(), dict.fromkeys("abc", frame(code)))
    assert ([name for name, _ in asked(pools)], client.status) == (ELSEWHERE, expected)


def test_an_empty_answer_is_returned_when_all_are_empty() -> None:
    empty = Answer([(0.1, b"data: [DONE]\n\n")])
    pools, client = play(three(), dict.fromkeys("abc", empty))
    assert ([name for name, _ in asked(pools)], client.status, client.text) == (ELSEWHERE, 200, b"data: [DONE]\n\n")


def test_a_fault_of_the_request_does_not_stop_a_rival_that_runs() -> None:
    late = Answer([(0.0, SAID)], status=400, headers=JSON, head_after=3.0)
    _, client = play(settings(), {"a": late, "b": Answer([(1.5, QUICK.chunks[0][1]), QUICK.chunks[1]])})
    assert (client.status, client.pieces[0][0]) == (200, 3.5)


def test_after_the_first_token_a_stall_ends_in_an_error_event_and_a_cut() -> None:
    _, client = play(three(), {"a": STALLS})
    assert client.outcome == "broken"
    assert client.text.endswith(
        b'data: {"error":{"message":"nothing came for 30 s","type":"upstream_error","param":null,'
        b'"code":"timeout_stall"}}\n\n'
    )
