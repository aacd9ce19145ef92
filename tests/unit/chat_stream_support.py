"""Streams of chat chunks, read as the gateway reads them."""

from __future__ import annotations

import json
from typing import Any

from hedgerow.events import Failure
from hedgerow.wire import lookup
from hedgerow.wire.base import ACCEPTED, Ending, Facts, Scanner, Verdict

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
    chunk({"function_call": None, "audio": {"id": "a"}, "images": []}),
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
