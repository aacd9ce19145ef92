"""What reading the wire costs: microseconds per chunk and per body, MB/s of large reads; one core, no I/O.

Run: python -m bench.wire
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from hedgerow.wire import lookup
from hedgerow.wire.base import ACCEPTED, Facts, Protocol, Scanner
from hedgerow.wire.usage_filter import UsageFilter

ROUNDS = 100
ROUND_SECONDS = 0.0005
READ = 65_536


class Sample(NamedTuple):
    """A protocol and two events of about 200 bytes: one that does not decide, and one with a token."""

    target: bytes
    quiet: bytes
    token: bytes


def event(document: dict[str, Any], *, named: bool = False) -> bytes:
    name = b"event: %b\n" % document["type"].encode() if named else b""
    return name + b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def chunk(content: str) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "logprobs": None, "finish_reason": None}
    document = {"id": "chatcmpl-P1", "object": "chat.completion.chunk", "created": 1764500000, "model": "m-p"}
    return event(document | {"choices": [choice]})


def text(content: str) -> bytes:
    choice = {"index": 0, "text": content, "logprobs": None, "finish_reason": None}
    document = {"id": "cmpl-P1", "object": "text_completion", "created": 1764500000, "model": "m-p-instruct"}
    return event(document | {"choices": [choice]})


def response(kind: str, **fields: Any) -> bytes:
    place = {"sequence_number": 4, "item_id": "msg_P", "output_index": 0, "content_index": 0}
    return event({"type": f"response.{kind}"} | place | fields, named=True)


def message(kind: str, **fields: Any) -> bytes:
    return event({"type": f"content_block_{kind}", "index": 1} | fields, named=True)


def candidate(content: str) -> bytes:
    part = {"content": {"parts": [{"text": content}], "role": "model"}, "index": 0}
    tokens = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
    return event({"candidates": [part], "usageMetadata": tokens, "modelVersion": "g-p"})


WORDS = "Red and blue and some more"
DELTA = {"type": "text_delta", "text": WORDS * 3}
SAMPLES = [
    Sample(b"/v1/chat/completions", chunk(""), chunk(WORDS)),
    Sample(b"/v1/completions", text(""), text(WORDS)),
    Sample(
        b"/v1/responses",
        response("content_part.added", part={"type": "output_text", "text": "", "annotations": []}),
        response("output_text.delta", delta=WORDS, logprobs=[]),
    ),
    Sample(
        b"/v1/messages",
        message("start", content_block={"type": "text", "text": ""}),
        message("delta", delta=DELTA),
    ),
    Sample(b"/v1beta/models/g-p:streamGenerateContent?alt=sse", candidate(""), candidate(WORDS)),
]
CHAT = lookup(b"POST", SAMPLES[0].target)
STREAM = Facts("m", True)


def request(size: int) -> bytes:
    code = 'He said "hello" and wrote code:\n x = {"a": [1, 2]}\n'
    tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object"}}} for i in range(4)]
    said = {"role": "user", "content": code * 4}
    count = max(1, (size - 400) // len(json.dumps(said)))
    return json.dumps({"model": "fast", "stream": True, "tools": tools, "messages": [said] * count}).encode()


def microseconds(action: Callable[[], object]) -> float:
    """The best of many short rounds: what the code costs when nothing else runs."""
    timer = timeit.Timer(action)
    number = 64  # enough to hold the work that is done once in a batch of chunks
    while timer.timeit(number) < ROUND_SECONDS:
        number *= 2
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


def show(what: str, cost: float, unit: str = "us") -> None:
    print(f"{what:<56}{cost:10.2f} {unit}")


def committed(protocol: Protocol, token: bytes) -> Scanner:
    """A scanner that has seen its first token."""
    reading = protocol.scanner(STREAM, [])
    if reading.feed(token) is not ACCEPTED:
        raise SystemExit(f"{protocol.name}: the sample does not decide")
    return reading


def streams(sample: Sample) -> None:
    protocol, quiet, token = lookup(b"POST", sample.target), sample.quiet, sample.token
    print(f"\n{protocol.name}")
    if protocol.accepts_head:
        print("  passed through: nothing is read")
        return
    waiting = protocol.scanner(STREAM, [])
    show(f"  before commit, {len(quiet)} B event that does not decide", microseconds(lambda: waiting.feed(quiet)))
    deciding = microseconds(lambda: protocol.scanner(STREAM, []).feed(token))
    show(f"  new scanner and {len(token)} B event that decides", deciding)
    watching = committed(protocol, token)
    show(f"  after commit, {len(token)} B event", microseconds(lambda: watching.watch(token)))
    if protocol.asks_for_usage:
        clean = UsageFilter().feed
        filtered = microseconds(lambda: (clean(token), watching.watch(token)))
        show("    and without the usage that the client did not want", filtered)
    whole = token * (READ // len(token))
    show(
        "  after commit, 64 KiB reads of whole events", len(whole) / microseconds(lambda: watching.watch(whole)), "MB/s"
    )
    cut = whole[7:] + token[:7]
    show("  after commit, 64 KiB reads that cut events", len(cut) / microseconds(lambda: watching.watch(cut)), "MB/s")
    if protocol.asks_for_usage:
        clean = UsageFilter().feed
        cost = microseconds(lambda: (clean(cut), watching.watch(cut)))
        show("    and without the usage that the client did not want", len(cut) / cost, "MB/s")


def requests() -> None:
    print()
    for size in (2_000, 50_000):
        early = request(size)
        late = json.dumps(dict(reversed(json.loads(early).items()))).encode()
        facts = CHAT.facts(b"", early)
        show(f"facts of a {len(early)} B chat request", microseconds(partial(CHAT.facts, b"", early)))
        show("  model replaced, first key", microseconds(partial(CHAT.rewrite, early, facts, "gpt-5-mini")))
        show("  model replaced, last key", microseconds(partial(CHAT.rewrite, late, facts, "gpt-5-mini")))
        asking = partial(CHAT.rewrite, early, facts, "gpt-5-mini", usage=True)
        show("  model replaced and usage asked for", microseconds(asking))


def answers() -> None:
    said = {"role": "assistant", "content": "P-answer " * 40, "refusal": None}
    answer = {
        "id": "c",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
    }
    whole = json.dumps(answer | {"usage": {"prompt_tokens": 12, "completion_tokens": 80}}).encode()
    print()
    cost = microseconds(lambda: CHAT.scanner(Facts("m", False), []).eof(whole))
    show(f"new scanner and whole {len(whole)} B chat judged, usage read", cost)
    stream = CHAT.as_stream(whole)
    long = chunk(WORDS) * 200 + stream
    show(f"stream made of the {len(whole)} B chat", microseconds(partial(CHAT.as_stream, whole)))
    show("chat made of a stream of 200 chunks", microseconds(partial(CHAT.as_document, long)))


if __name__ == "__main__":
    for sample in SAMPLES:
        streams(sample)
    requests()
    answers()
