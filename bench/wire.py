"""What reading the wire costs: microseconds per chunk and per body, one core, no I/O.

Run: python -m bench.wire
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable
from functools import partial

from hedgerow.wire import lookup
from hedgerow.wire.base import Facts

CHAT = lookup(b"POST", b"/v1/chat/completions")
STREAM = Facts("m", True)
ROUNDS = 300
ROUND_SECONDS = 0.0005


def chunk(content: str) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "logprobs": None, "finish_reason": None}
    document = {"id": "chatcmpl-P1", "object": "chat.completion.chunk", "created": 1764500000, "model": "m-p"}
    return b"data: " + json.dumps(document | {"choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


def request(size: int) -> bytes:
    text = 'He said "hello" and wrote code:\n x = {"a": [1, 2]}\n'
    tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object"}}} for i in range(4)]
    message = {"role": "user", "content": text * 4}
    count = max(1, (size - 400) // len(json.dumps(message)))
    return json.dumps({"model": "fast", "stream": True, "tools": tools, "messages": [message] * count}).encode()


def microseconds(action: Callable[[], object]) -> float:
    """The best of many short rounds: what the code costs when nothing else runs."""
    timer = timeit.Timer(action)
    number = 64  # enough to hold the work that is done once in a batch of chunks
    while timer.timeit(number) < ROUND_SECONDS:
        number *= 2
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


def show(what: str, cost: float, unit: str = "us") -> None:
    print(f"{what:<56}{cost:10.2f} {unit}")


def streams() -> None:
    quiet, token = chunk(""), chunk("Red and blue and some more")
    large = b"".join(chunk(f"word {number}") for number in range(400))

    def feeding(piece: bytes) -> float:
        reading = CHAT.scanner(STREAM, [])
        return microseconds(lambda: reading.feed(piece))

    def deciding(piece: bytes) -> float:
        return microseconds(lambda: CHAT.scanner(STREAM, []).feed(piece))

    def watching(piece: bytes) -> float:
        reading = CHAT.scanner(STREAM, [])
        reading.feed(token)
        return microseconds(lambda: reading.watch(piece))

    show(f"before commit, {len(quiet)} B chunk that does not decide", feeding(quiet))
    show(f"new scanner and {len(token)} B chunk that decides", deciding(token))
    show(f"after commit, {len(token)} B chunk", watching(token))
    show(f"after commit, {len(token)} B chunk with CRLF", watching(token.replace(b"\n", b"\r\n")))
    whole, cut = token * (65_536 // len(token)), large[:65_536]
    show("after commit, 64 KiB reads of whole events", len(whole) / watching(whole), "MB/s")
    show("after commit, 64 KiB reads that cut events", len(cut) / watching(cut), "MB/s")


def requests() -> None:
    for size in (2_000, 50_000):
        early = request(size)
        late = json.dumps(dict(reversed(json.loads(early).items()))).encode()
        facts = CHAT.facts(b"/v1/chat/completions", early)
        show(f"facts of a {len(early)} B request", microseconds(partial(CHAT.facts, early)))
        show("  model replaced, first key", microseconds(partial(CHAT.rewrite, early, facts, "gpt-5-mini")))
        show("  model replaced, last key", microseconds(partial(CHAT.rewrite, late, facts, "gpt-5-mini")))


def answers() -> None:
    message = {"role": "assistant", "content": "P-answer " * 40, "refusal": None}
    answer = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    whole = json.dumps(answer | {"usage": {"prompt_tokens": 12, "completion_tokens": 80}}).encode()
    cost = microseconds(lambda: CHAT.scanner(Facts("m", False), []).eof(whole))
    show(f"new scanner and whole {len(whole)} B answer judged, usage read", cost)


if __name__ == "__main__":
    streams()
    requests()
    answers()
