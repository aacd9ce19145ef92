"""A whole answer of Gemini's is judged when it is complete, and only an adequate one is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage
from hedgerow.wire.base import ACCEPTED, Accepted
from tests.unit.gemini_support import GEMINI, OVERLOADED, SSE, WHOLE, answer, chunk, failed, run, usage

TOLD = usage(9, 4, thoughtsTokenCount=6)


@pytest.mark.parametrize(
    "document",
    [
        answer([{"text": "Red"}], "STOP"),
        answer([{"text": "Red"}]),
        answer([{"text": "weighing", "thought": True}], "MAX_TOKENS"),
        answer([{"functionCall": {"name": "f", "args": {}}}], "STOP"),
        answer([{"inlineData": {"mimeType": "image/png", "data": "A" * 1_000_000}}], "STOP"),
        answer(None, "SAFETY"),
        answer(None, "IMAGE_OTHER"),
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"candidates": [{"finishReason": "OTHER"}, {"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"}]},
    ],
)
def test_an_adequate_answer_is_accepted_and_its_usage_read(document: dict[str, Any]) -> None:
    verdict, _, ending = run(json.dumps(document | {"usageMetadata": TOLD}, indent=2).encode(), facts=WHOLE)
    assert verdict is ACCEPTED
    assert ending is not None
    assert (ending.failure, ending.usage) == (None, Usage(9, 10, None, 6))


@pytest.mark.parametrize(
    "document",
    [
        answer(None, "STOP"),
        answer([{"text": ""}], "MAX_TOKENS"),
        answer([{"text": "call:look{"}], "MALFORMED_FUNCTION_CALL"),
        answer(None, "OTHER"),
        {"candidates": [], "modelVersion": "g"},
        {"usageMetadata": TOLD, "modelVersion": "g", "responseId": "r"},
    ],
)
def test_a_whole_answer_with_nothing_in_it_is_empty_and_can_be_delivered(document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    failure = failed(run(body, facts=WHOLE)[0])
    assert failure == Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, SSE, body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the answer has no body"),
        (b"<!DOCTYPE html>", "an HTML page instead of JSON"),
        (b"upstream connect error", "the body is not JSON"),
        (b'{"candidates":[', "the body is not whole JSON"),
        (b"{}", "JSON that is no GenerateContentResponse"),
        (b"[]", "JSON that is no GenerateContentResponse"),
        (b'{"choices":[{"message":{"content":"Red"}}]}', "JSON that is no GenerateContentResponse"),
        (chunk("Red"), "the body is not JSON"),
    ],
)
def test_what_is_no_answer_is_broken(body: bytes, why: str) -> None:
    assert failed(run(body, facts=WHOLE)[0]) == Failure(FailureClass.PROTOCOL, why)


@pytest.mark.parametrize("body", [OVERLOADED, b"[" + OVERLOADED + b"]"])
def test_an_error_with_status_200_is_the_error_it_stands_for(body: bytes) -> None:
    failure = failed(run(body, facts=WHOLE)[0])
    assert (failure.kind, failure.status, failure.body) == (FailureClass.OVERLOADED, 503, body)


def test_a_stream_that_was_not_asked_for_is_delivered_as_the_document_it_amounts_to() -> None:
    verdict, _, ending = run(chunk("Red "), chunk("blue", "STOP", usageMetadata=TOLD), facts=WHOLE)
    assert isinstance(verdict, Accepted)
    assert verdict.instead is not None
    assert json.loads(verdict.instead) == answer([{"text": "Red blue"}], "STOP", usageMetadata=TOLD)
    assert ending is not None
    assert ending.usage == Usage(9, 10, None, 6)


@given(
    st.binary(max_size=200) | st.from_regex(rb'\{"(candidates|error|usageMetadata)":[\[\]{}0-9",a-z:]*', fullmatch=True)
)
def test_random_bytes_never_raise(body: bytes) -> None:
    verdict = GEMINI.scanner(WHOLE, SSE).eof(body)
    assert isinstance(verdict, Accepted | Failure)
