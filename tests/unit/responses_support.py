"""Responses and their events as OpenAI's API writes them."""

from __future__ import annotations

import json
from typing import Any

from hedgerow.events import Failure
from hedgerow.wire.base import ACCEPTED, Ending, Facts, Scanner, Verdict
from hedgerow.wire.openai_responses import OpenAIResponses

RESPONSES = OpenAIResponses()
SSE = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-request-id", b"r1")]
JSON = [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]


def event(kind: str, number: int = 0, **fields: Any) -> bytes:
    data = {"type": kind, "sequence_number": number, **fields}
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def response(status: str, output: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_P",
        "object": "response",
        "created_at": 1764500000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "m-p",
        "output": output or [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        **fields,
    }


def usage(given: int, made: int, cached: int = 0, reasoning: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": given,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": cached},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": given + made,
    }


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    item = {"id": "msg_P", "type": "message", "status": "completed", "role": "assistant", "content": content}
    return item | fields


def reasoning(*summary: str) -> dict[str, Any]:
    return {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in summary]}


def call(arguments: str = '{"q":"x"}', **fields: Any) -> dict[str, Any]:
    item = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "look"}
    return item | {"arguments": arguments} | fields


def delta(text: str, kind: str = "response.output_text.delta", number: int = 4) -> bytes:
    return event(kind, number, item_id="msg_P", output_index=0, content_index=0, delta=text, logprobs=[])


CREATED = event("response.created", response=response("in_progress"))
IN_PROGRESS = event("response.in_progress", 1, response=response("in_progress"))
ADDED = event("response.output_item.added", 2, output_index=0, item=message(status="in_progress"))
PART = event(
    "response.content_part.added",
    3,
    item_id="msg_P",
    output_index=0,
    content_index=0,
    part={"type": "output_text", "text": "", "annotations": []},
)
OPENING = CREATED + IN_PROGRESS + ADDED + PART
RED = delta("Red ")
BLUE = delta("and blue", number=5)
ITEM_DONE = event("response.output_item.done", 8, output_index=0, item=message("Red and blue"))
FINAL = response("completed", [message("Red and blue")], usage=usage(12, 2))
COMPLETED = event("response.completed", 9, response=FINAL)
CUT_SHORT = response(
    "incomplete",
    [message("Red ", status="incomplete")],
    incomplete_details={"reason": "max_output_tokens"},
    usage=usage(12, 1),
)
INCOMPLETE = event("response.incomplete", 5, response=CUT_SHORT)
FLAT = event("error", 2, code="insufficient_quota", message="You exceeded your current quota.", param=None)
NESTED = event(
    "error", 2, error={"type": "too_many_requests", "code": "too_many_requests", "message": "x", "param": None}
)
FAILED = event(
    "response.failed", 2, response=response("failed", error={"code": "server_error", "message": "The model failed."})
)


def scanner(headers: list[tuple[bytes, bytes]] = SSE, *, reasoning_counts: bool = True) -> Scanner:
    return RESPONSES.scanner(Facts("m", True), headers, reasoning_counts=reasoning_counts)


def run(*reads: bytes, clean: bool = True) -> tuple[Verdict, bytes, bool, Ending | None]:
    """Feed as the gateway does: verdict, the read that brought it, whether the end was seen, the ending."""
    reading = scanner()
    seen = b""
    for number, read in enumerate(reads):
        seen += read
        verdict = reading.feed(read)
        if verdict is ACCEPTED:
            done = any(reading.watch(piece) for piece in (b"", *reads[number + 1 :]))  # what follows an end is ignored
            return verdict, read, done, reading.ending(clean)
        if verdict is not None:
            return verdict, read, False, None
    return reading.eof(seen), b"", False, None


def failed(verdict: object) -> Failure:
    assert isinstance(verdict, Failure)
    return verdict


def of(ending: Ending | None) -> Ending:
    assert ending is not None
    return ending


def added(item: dict[str, Any]) -> bytes:
    return event("response.output_item.added", output_index=0, item=item)


def finished(item: dict[str, Any]) -> bytes:
    return event("response.output_item.done", output_index=0, item=item)
