"""How the stream of a response ends, and what it reports of its tokens."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from hedgerow.events import Failure, FailureClass, Usage, UsageSource
from hedgerow.wire.base import ACCEPTED, Accepted, Ending
from tests.unit.responses_support import (
    BLUE,
    COMPLETED,
    FINAL,
    INCOMPLETE,
    ITEM_DONE,
    JSON,
    OPENING,
    RED,
    RESPONSES,
    SSE,
    call,
    delta,
    event,
    failed,
    finished,
    message,
    of,
    response,
    run,
    scanner,
    usage,
)


@pytest.mark.parametrize("end", [COMPLETED, INCOMPLETE, COMPLETED.replace(b"\n", b"\r\n")])
@pytest.mark.parametrize("clean", [True, False])
def test_an_answer_with_its_end_is_whole_however_the_connection_ends(end: bytes, clean: bool) -> None:
    _, _, seen, ending = run(OPENING, RED, BLUE, ITEM_DONE, end, clean=clean)
    assert seen
    assert ending == Ending(None, Usage(12, 1 if end is INCOMPLETE else 2, 0, 0, 0))


@pytest.mark.parametrize("end", [COMPLETED.rstrip(b"\n"), COMPLETED[:-1]])
def test_an_end_without_its_blank_line_makes_the_answer_whole_at_the_close(end: bytes) -> None:
    assert of(run(RED, end)[3]).failure is None


def test_a_whole_answer_in_the_deciding_read_is_seen_to_be_whole() -> None:
    stream = OPENING + RED + BLUE + ITEM_DONE + COMPLETED
    assert run(stream) == (ACCEPTED, stream, True, Ending(None, Usage(12, 2, 0, 0, 0)))


@pytest.mark.parametrize(
    "talk",
    [
        delta("response"),
        delta("error"),
        delta('"response.completed","response":{'),
        delta("\n\nevent: response.completed\ndata: {}\n\n"),
        delta('{"error": {"code": 500}}'),
        event("response.in_progress", response=response("in_progress")),
        finished(call() | {"error": None}),
        b"event: response.completed\n\n",
        b': "response.completed" "response"\n\n',
        b"data: [DONE]\n\n",
        b'data: "response" "error"\n\n',
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_talk_of_an_end_or_an_error_is_neither(talk: bytes, clean: bool) -> None:
    _, _, seen, ending = run(OPENING, RED, talk, clean=clean)
    assert not seen
    how = "was closed" if clean else "broke off"
    assert of(ending).failure == Failure(FailureClass.PROTOCOL, f"the stream {how} before its end marker")
    assert run(OPENING, RED, talk, COMPLETED)[3] == Ending(None, Usage(12, 2, 0, 0, 0))


def test_usage_says_what_was_cached_and_what_was_reasoning() -> None:
    final = event("response.completed", response=FINAL | {"usage": usage(12, 4, 8, 3)})
    assert of(run(RED, final)[3]).usage == Usage(12, 4, 8, 3, 0)
    beside = event("response.completed", response=FINAL | {"usage": usage(12, 4, 8, 3) | {"total_tokens": 19}})
    assert of(run(RED, beside)[3]).usage == Usage(12, 7, 8, 3, 0)
    bare = event("response.completed", response=FINAL | {"usage": {"input_tokens": 12, "output_tokens": 4}})
    assert of(run(RED, bare)[3]).usage == Usage(12, 4)
    odd = event("response.completed", response=FINAL | {"usage": {"input_tokens": "12"}})
    assert of(run(RED, odd)[3]) == Ending(None, Usage(output_tokens=1, source=UsageSource.ESTIMATED))
    none = event("response.completed", response=FINAL | {"usage": {"input_tokens": None}})
    assert of(run(RED, none)[3]) == Ending(None, Usage(output_tokens=1, source=UsageSource.ESTIMATED))
    lone = final.replace(b"Red and blue", b"\\ud83d")
    assert of(run(RED, lone)[3]) == Ending(None, Usage(12, 4, 8, 3, 0))


def test_of_an_attempt_that_ended_early_what_came_is_counted() -> None:
    thought = delta("hm", "response.reasoning_summary_text.delta")
    reading = scanner(reasoning_counts=False)
    for read in (OPENING, thought, thought):
        assert reading.feed(read) is None
    assert reading.feed(RED) is ACCEPTED
    reading.watch(BLUE)
    assert reading.ending(False).usage == Usage(output_tokens=4, source=UsageSource.ESTIMATED)
    reading = scanner()
    assert reading.feed(OPENING + delta("")) is None
    assert reading.ending(False).usage == Usage(output_tokens=0, source=UsageSource.ESTIMATED)


def test_a_whole_document_is_passed_on_as_the_stream_it_stands_for() -> None:
    document = json.dumps(FINAL, indent=1).encode()
    reading = scanner(JSON)
    assert reading.feed(document) is None
    verdict = reading.eof(document)
    assert isinstance(verdict, Accepted)
    assert verdict.instead == RESPONSES.as_stream(document)
    assert reading.watch(b"")
    assert reading.ending(True) == Ending(None, Usage(12, 2, 0, 0, 0))


def test_an_empty_document_is_an_empty_stream() -> None:
    document = json.dumps(response("completed", [message("")], usage=usage(12, 3))).encode()
    reading = scanner(JSON)
    assert reading.feed(document) is None
    failure = failed(reading.eof(document))
    assert failure.kind is FailureClass.EMPTY
    assert failure.body == RESPONSES.as_stream(document)
    assert failure.headers == SSE
    assert reading.ending(True).usage == Usage(12, 3, 0, 0, 0)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"error": {"code": "insufficient_quota", "message": "x"}}, FailureClass.QUOTA_EXHAUSTED),
        (response("failed", error={"code": "server_error", "message": "x"}), FailureClass.SERVER_ERROR),
        (response("queued"), FailureClass.PROTOCOL),
        ({"choices": []}, FailureClass.PROTOCOL),
    ],
)
def test_a_document_that_is_no_finished_response_is_no_stream(document: dict[str, Any], kind: FailureClass) -> None:
    assert failed(run(json.dumps(document).encode())[0]).kind is kind


@pytest.mark.parametrize("end", [COMPLETED, INCOMPLETE])
def test_the_sign_is_in_every_end(end: bytes) -> None:
    sign = scanner().sign
    assert sign is not None
    assert sign in end.partition(b'"id"')[2].partition(b'"created_at"')[0]


def test_nothing_is_held_or_piles_up_once_a_stream_is_committed() -> None:
    tracemalloc.start()
    reading = scanner()
    assert reading.feed(b": " + b"x" * 1_000_000 + b"\n\n") is None
    assert reading.feed(OPENING + RED) is ACCEPTED
    for number in range(3_000):
        reading.watch(delta(f"word {number} "))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 64 * 1024
