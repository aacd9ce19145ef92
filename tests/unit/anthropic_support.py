"""What the tests of the Anthropic wire share: events as the API spells them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import anthropic
import httpx2
from anthropic.types import Message
from anthropic.types.beta import BetaMessage

from hedgerow.events import Failure
from hedgerow.wire.anthropic_messages import AnthropicMessages
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Facts, Scanner, Verdict

MESSAGES = AnthropicMessages()
SSE = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"request-id", b"req_1")]
JSON = [(b"content-type", b"application/json"), (b"request-id", b"req_1")]


def event(kind: str, **members: Any) -> bytes:
    data = json.dumps({"type": kind, **members}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def started(**usage: Any) -> bytes:
    message = {"id": "msg_P", "type": "message", "role": "assistant", "content": [], "model": "c-p"}
    counts = {"input_tokens": 25, "output_tokens": 1, **usage}
    return event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": counts})


def block(kind: str, index: int = 0, **members: Any) -> bytes:
    return event("content_block_start", index=index, content_block={"type": kind, **members})


def delta(kind: str, index: int = 0, **members: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **members})


def stopped(reason: str | None = "end_turn", usage: dict[str, Any] | None = None, **more: Any) -> bytes:
    counts = {"output_tokens": 17} if usage is None else usage
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None, **more}, usage=counts)


def error(kind: str, message: str = "no", **more: Any) -> bytes:
    return event("error", error={"type": kind, "message": message, **more})


START = started()
TEXT = block("text", text="")
THINKING = block("thinking", thinking="", signature="")
PING = event("ping")
RED = delta("text_delta", text="Red")
HM = delta("thinking_delta", thinking="hm")
SIGNATURE = delta("signature_delta", signature="c2ln")
BLOCK_END = event("content_block_stop", index=0)
STOP = stopped()
END = event("message_stop")


def scanner(*, reasoning_counts: bool = True, limit: int | None = None) -> Scanner:
    return MESSAGES.scanner(Facts("m", True, max_output_tokens=limit), SSE, reasoning_counts=reasoning_counts)


def run(
    *reads: bytes, clean: bool = True, reasoning_counts: bool = True, limit: int | None = None
) -> tuple[Verdict, bytes, bool, Ending | None]:
    """Feed as the gateway does: verdict, the read that brought it, whether the end was seen, the ending."""
    reading = scanner(reasoning_counts=reasoning_counts, limit=limit)
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
    verdict = reading.eof(seen)
    return verdict, b"", False, reading.ending(clean) if isinstance(verdict, Accepted) else None


def failed(verdict: Verdict | None) -> Failure:
    assert isinstance(verdict, Failure)
    return verdict


def of(ending: Ending | None) -> Ending:
    assert ending is not None
    return ending


def reads(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


ASKED: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": []}


def final_message(stream: bytes) -> Message:
    """What the official SDK's own accumulator makes of a stream."""
    with _sdk(stream).messages.stream(**ASKED) as streaming:
        return streaming.get_final_message()


def whole_message(document: bytes) -> Message:
    """What the official SDK reads in a document."""
    message: Message = _sdk(document).messages.create(**ASKED)
    return message


def final_beta_message(stream: bytes) -> BetaMessage:
    """As `final_message`, with what is in beta."""
    with _sdk(stream).beta.messages.stream(**ASKED) as streaming:
        return streaming.get_final_message()


def whole_beta_message(document: bytes) -> BetaMessage:
    """As `whole_message`, with what is in beta."""
    message: BetaMessage = _sdk(document).beta.messages.create(**ASKED)
    return message


def _sdk(body: bytes) -> anthropic.Anthropic:
    """A client whose every request is answered with this body."""
    kind = "application/json" if body.lstrip().startswith(b"{") else "text/event-stream"

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="k", base_url="http://upstream", max_retries=0, http_client=http)
