"""Chats as they are on the wire, and what the official SDK makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai

END = b"data: [DONE]\n\n"
HEAD = {
    "id": "chatcmpl-P1",
    "object": "chat.completion.chunk",
    "created": 1764500000,
    "model": "m-p",
    "service_tier": "default",
    "system_fingerprint": "fp_1",
}
TOKENS = {
    "prompt_tokens": 12,
    "completion_tokens": 4,
    "total_tokens": 16,
    "completion_tokens_details": {"reasoning_tokens": 3},
}
USAGE = HEAD | {"choices": [], "usage": TOKENS}


def piece(delta: dict[str, Any], finish: str | None = None, *, index: int = 0, **more: Any) -> dict[str, Any]:
    """A chunk of one choice."""
    return HEAD | {"choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish} | more]}


def stream(chunks: Iterable[dict[str, Any]], end: bytes = END) -> bytes:
    """A stream of these chunks."""
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + end


def call(at: int, **fields: Any) -> dict[str, Any]:
    """A delta with a fragment of one tool call."""
    return {"tool_calls": [{"index": at, **fields}]}


@contextmanager
def sdk(body: bytes, content_type: str = "text/event-stream") -> Iterator[openai.OpenAI]:
    """The official client, to which every request is answered with this body."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": content_type}, content=body)

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        yield openai.OpenAI(api_key="sk-any", base_url="http://upstream/v1", max_retries=0, http_client=http)


def accumulated(body: bytes) -> Any:
    """What the SDK's accumulator makes of a stream."""
    with sdk(body) as client, client.chat.completions.stream(model="m", messages=[]) as events:
        for _ in events:
            pass
        return plain(events.current_completion_snapshot.to_dict())


def final(body: bytes) -> Any:
    """The SDK's final completion of a stream; it raises for an answer that was cut short."""
    with sdk(body) as client, client.chat.completions.stream(model="m", messages=[]) as events:
        return plain(events.get_final_completion().to_dict())


def parsed(body: bytes) -> Any:
    """What the SDK makes of a document."""
    with sdk(body, "application/json") as client:
        return plain(client.chat.completions.create(model="m", messages=[]).to_dict())


def plain(value: Any) -> Any:
    """Without nulls, without what the SDK's parser adds, and without the stream's numbers of tool calls."""
    if isinstance(value, dict):
        kept = {key: plain(member) for key, member in value.items() if member is not None}
        for call in kept.get("tool_calls", ()):
            call.pop("index", None)
        return {key: member for key, member in kept.items() if key not in ("parsed", "parsed_arguments")}
    return [plain(member) for member in value] if isinstance(value, list) else value
