"""How the runner reads an answer, by protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.answers import Told, events, read
from tests.cases.client import Got


def got(body: bytes, *, status: int = 200, kind: str = "text/event-stream") -> Got:
    return Got(0.0, 0.0, status=status, headers={"content-type": kind}, body=body, whole=True)


def sse(*data: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in data)


def test_events_are_read_as_the_standard_says() -> None:
    body = b'\xef\xbb\xbf: comment\r\ndata:{"a":\rdata: "\xe2\x80\xa8"}\r\n\r\nevent: x\nid: 1\n\ndata: cut'
    assert list(events(body)) == [b'{"a":\n"\xe2\x80\xa8"}']


@pytest.mark.parametrize(
    ("protocol", "body", "text", "finish", "ended"),
    [
        (
            "openai.chat",
            sse(
                {"choices": []},
                {"choices": [{"index": 0, "delta": {"content": "a"}}]},
                {"choices": [{"index": 0, "delta": {"reasoning": "b"}, "finish_reason": "stop"}]},
            )
            + b"data: [DONE]\n\n",
            "a",
            "stop",
            True,
        ),
        (
            "anthropic.messages",
            sse(
                {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "b"}},
                {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
            ),
            "a",
            "end_turn",
            True,
        ),
        (
            "openai.responses",
            sse(
                {"type": "response.output_text.delta", "delta": "a"},
                {"type": "response.completed", "response": {"status": "completed", "error": None}},
            ),
            "a",
            "completed",
            True,
        ),
        (
            "gemini.generate",
            sse(
                {"candidates": [{"content": {"parts": [{"text": "b", "thought": True}, {"text": "a"}]}}]},
                {"candidates": [{"finishReason": "STOP"}]},
            ),
            "a",
            "STOP",
            True,
        ),
        ("openai.chat", sse({"choices": [{"index": 0, "delta": {"content": "a"}}]}), "a", None, False),
    ],
    ids=["chat", "messages", "responses", "gemini", "cut"],
)
def test_a_stream(protocol: str, body: bytes, text: str, finish: str | None, ended: bool) -> None:
    answer = read(protocol, got(body))
    assert (answer.text, answer.finish, answer.ended, answer.error) == (text, finish, ended, None)


@pytest.mark.parametrize(
    ("protocol", "document", "text", "finish"),
    [
        ("openai.chat", {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}, "a", "stop"),
        ("openai.completions", {"choices": [{"text": "a", "finish_reason": "stop"}]}, "a", "stop"),
        ("anthropic.messages", {"type": "message", "content": [{"text": "a"}], "stop_reason": "x"}, "a", "x"),
        ("openai.responses", {"status": "completed", "output": [{"content": [{"text": "a"}]}]}, "a", "completed"),
        ("gemini.generate", [{"candidates": [{"content": {"parts": [{"text": "a"}]}}]}], "a", None),
        ("openai.embeddings", {"data": []}, "", None),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_a_document(protocol: str, document: Any, text: str, finish: str | None) -> None:
    answer = read(protocol, got(json.dumps(document).encode(), kind="application/json"))
    assert (answer.text, answer.finish, answer.error) == (text, finish, None)


@pytest.mark.parametrize(
    ("protocol", "body", "error"),
    [
        ("openai.chat", sse({"error": {"code": 503, "type": "x"}}), Told(200, True, 503, "x")),
        ("anthropic.messages", sse({"type": "error", "error": {"type": "x"}}), Told(200, True, None, "x")),
        ("openai.responses", sse({"type": "error", "code": "c"}), Told(200, True, "c", "error")),
        (
            "openai.responses",
            sse({"type": "response.failed", "response": {"status": "failed", "error": {"code": "c"}}}),
            Told(200, True, "c"),
        ),
        (
            "gemini.generate",
            sse({"candidates": []}) + b'{\n "error": {\n "code": 503 }\n}\n',
            Told(200, True, 503),
        ),
    ],
    ids=["chat", "messages", "responses", "responses failed", "gemini tail"],
)
def test_an_error_inside_a_stream(protocol: str, body: bytes, error: Told) -> None:
    answer = read(protocol, got(body))
    assert answer.error == error
    assert not answer.ended


def test_an_error_status_is_an_error_whatever_its_body() -> None:
    body = b'{"error":{"code":"c","type":"t"}}'
    assert read("openai.chat", got(body, status=400, kind="application/json")).error == Told(400, False, "c", "t")
    assert read("openai.chat", got(b"<html>", status=502, kind="text/html")).error == Told(502, False)
