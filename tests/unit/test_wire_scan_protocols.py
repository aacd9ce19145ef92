"""Every scanner of every protocol: all chunkings of a stream say the same, and no bytes make one raise.

The streams are those of the cases from bug reports, whole and damaged.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire import JSON_ENDPOINT, PROTOCOLS, lookup
from hedgerow.wire.base import Accepted, Protocol, Scanner, Verdict
from tests.cases.files import load

SSE: Headers = [(b"content-type", b"text/event-stream")]
JSON: Headers = [(b"content-type", b"application/json")]
BOM = b"\xef\xbb\xbf"


class Asked(NamedTuple):
    """A request, and so the kind of scanner that reads its answer."""

    target: str
    body: bytes = b"{}"
    protocol: Protocol | None = None

    def scanner(self, headers: Headers = SSE) -> Scanner:
        target = self.target.encode()
        protocol = self.protocol or lookup(b"POST", target)
        return protocol.scanner(protocol.facts(target, self.body), headers)


def ask(target: str, protocol: Protocol | None = None, **fields: Any) -> Asked:
    return Asked(target, json.dumps(fields).encode(), protocol)


GEMINI = "/v1beta/models/g:"
KINDS = {
    "chat stream": ask("/v1/chat/completions", model="m", stream=True),
    "chat": ask("/v1/chat/completions", model="m"),
    "completions stream": ask("/v1/completions", model="m", prompt="p", stream=True),
    "completions": ask("/v1/completions", model="m", prompt="p"),
    "responses stream": ask("/v1/responses", model="m", input="i", stream=True),
    "responses": ask("/v1/responses", model="m", input="i"),
    "messages stream": ask("/v1/messages", model="m", max_tokens=9, messages=[], stream=True),
    "messages": ask("/v1/messages", model="m", max_tokens=9, messages=[]),
    "gemini events": ask(GEMINI + "streamGenerateContent?alt=sse", contents=[]),
    "gemini array": ask(GEMINI + "streamGenerateContent", contents=[]),
    "gemini": ask(GEMINI + "generateContent", contents=[]),
    "embeddings": ask("/v1/embeddings", model="m", input=["a"]),
    "moderations": ask("/v1/moderations", input="a"),
    "http": ask("/translate", JSON_ENDPOINT, text="a"),
    "http stream": ask("/translate", JSON_ENDPOINT, text="a", stream=True),
    "passed through": ask("/v1/files"),
}


class Said(NamedTuple):
    """What a scanner made of a stream."""

    accepted: bool
    instead: bytes | None
    refused: tuple[FailureClass, str, int | None, float | None, bytes | None] | None
    done: bool
    failure: tuple[FailureClass, str, int | None, float | None, bytes | None] | None
    usage: Usage | None


def told(failure: Failure | None) -> tuple[FailureClass, str, int | None, float | None, bytes | None] | None:
    """A failure without what depends on the reads by right: an empty answer carries all that had come."""
    if failure is None:
        return None
    body = None if failure.kind is FailureClass.EMPTY else failure.body
    return failure.kind, failure.message, failure.status, failure.retry_after, body


def run(asked: Asked, reads: list[bytes], *, clean: bool = True, headers: Headers = SSE) -> Said:
    """Feed as the gateway does: nothing is read after the end."""
    scanner = asked.scanner(headers)
    verdict: Verdict | None = None
    done = False
    for number, read in enumerate(reads if scanner.sign is not None else []):
        verdict = scanner.feed(read)
        if isinstance(verdict, Accepted):
            done = any(scanner.watch(piece) for piece in (b"", *reads[number + 1 :]))
        if verdict is not None:
            break
    if verdict is None:
        verdict = scanner.eof(b"".join(reads))
    accepted = isinstance(verdict, Accepted)
    ending = scanner.ending(clean)
    return Said(
        accepted,
        verdict.instead if isinstance(verdict, Accepted) else None,
        told(verdict) if isinstance(verdict, Failure) else None,
        done,
        told(ending.failure) if accepted else None,
        ending.usage if accepted else None,
    )


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


def recorded() -> dict[str, tuple[Asked, bytes]]:
    """The 200 answers in the cases, each by the name of its case and upstream."""
    found: dict[str, tuple[Asked, bytes]] = {}
    for case in load(Path(__file__).parent.parent / "cases" / "open"):
        for number, step in enumerate(case.steps):
            body = step.request.content() if hasattr(step.request, "content") else None
            if not hasattr(step.request, "path") or len(body or b"") > 1_000_000:
                continue
            for name, upstream in step.upstreams.items():
                coded = any(field.lower() == "content-encoding" for field, _ in upstream.headers)
                if upstream.status == 200 and upstream.chunks and not coded:
                    answer = b"".join(piece for _, piece in upstream.pieces())
                    found[f"{case.id} {number} {name}"] = Asked(step.request.path, body or b""), answer
    return found


RECORDED = {name: (asked, answer) for name, (asked, answer) in recorded().items() if "duplicate-keys" not in name}
SHORT = {name: found for name, found in RECORDED.items() if len(found[1]) < 20_000}
"""Without the ones that hold a megabyte."""


def test_the_cases_hold_streams_of_every_kind() -> None:
    protocols = {lookup(b"POST", asked.target.encode()).name for asked, _ in RECORDED.values()}
    assert protocols >= {
        "openai.chat",
        "openai.responses",
        "openai.embeddings",
        "anthropic.messages",
        "gemini.generate",
    }
    assert len(SHORT) > 100
    assert len(RECORDED) > len(SHORT)


def test_every_protocol_has_its_scanners_here() -> None:
    known = {(kind.protocol or lookup(b"POST", kind.target.encode())).name for kind in KINDS.values()}
    assert known == {protocol.name for protocol in (*PROTOCOLS, JSON_ENDPOINT)}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_answer_says_the_same_in_reads_of_every_size(name: str) -> None:
    asked, answer = RECORDED[name]
    whole = run(asked, [answer])
    for size in (1, 2, 3, 7, 64, 1000) if name in SHORT else (997, 65_536):
        assert run(asked, [answer[i : i + size] for i in range(0, len(answer), size)]) == whole


@given(
    st.sampled_from(list(SHORT)),
    st.lists(st.integers(0, 20_000), max_size=12),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from([b"", BOM, b": hello\n\n", b"\n\n"]),
    st.integers(0, 20_000),
    st.booleans(),
)
def test_a_recorded_answer_says_the_same_however_it_is_cut(
    name: str, cuts: list[int], end: bytes, start: bytes, lost: int, clean: bool
) -> None:
    asked, answer = SHORT[name]
    answer = start + answer.replace(b"\n", end)
    for stream in (answer, answer[: len(answer) - lost % (len(answer) + 1)]):
        assert run(asked, split(stream, cuts), clean=clean) == run(asked, [stream] if stream else [], clean=clean)


@given(st.sampled_from(list(SHORT)), st.sampled_from([b"\r\n", b"\r"]), st.sampled_from([b"", BOM]))
def test_line_ends_and_a_bom_change_nothing(name: str, end: bytes, start: bytes) -> None:
    asked, answer = SHORT[name]
    plain, other = run(asked, [answer]), run(asked, [start + answer.replace(b"\n", end)])
    assert (other.accepted, other.done, other.usage) == (plain.accepted, plain.done, plain.usage)
    assert (other.refused or ())[:3] == (plain.refused or ())[:3]
    assert (other.failure or ())[:3] == (plain.failure or ())[:3]


PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:[DONE]\n\n",
        b'"error"',
        b'{"error":{"message":"m","code":500}}',
        b'{"choices":[{"delta":{"content":"x"}}]}',
        b'{"type":"response.completed","response":{}}',
        b'{"type":"message_stop"}',
        b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}',
        b'{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}',
        b'{"usage":{"prompt_tokens":1e400,"input_tokens":-1}}',
        b'{"data":[]}',
        b"event: error\n",
        b"\n\n",
        b"\r\r",
        b"\r\n\r\n",
        b"[",
        b"{",
        b"<",
        b'"',
        b"\\",
        b"\xff",
        b"\x00",
        b"\xed\xa0\x80",
        BOM,
        b"[" * 2_000,
        b"NaN",
        b"1" * 5_000,
    ]
)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(PIECES | st.binary(max_size=20), max_size=12), st.booleans(), st.sampled_from([SSE, JSON, []]))
def test_no_bytes_make_a_scanner_raise(kind: str, reads: list[bytes], clean: bool, headers: Headers) -> None:
    said = run(KINDS[kind], reads, clean=clean, headers=headers)
    assert said.accepted or said.refused is not None


@given(
    st.sampled_from(list(SHORT)),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 40), PIECES | st.binary(max_size=3)), max_size=4),
    st.lists(st.integers(0, 20_000), max_size=12),
)
def test_a_damaged_answer_never_raises_and_says_the_same_however_it_is_cut(
    name: str, damage: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    asked, answer = SHORT[name]
    for at, length, piece in damage:
        at %= len(answer) + 1
        answer = answer[:at] + piece + answer[at + length :]
    whole, cut = run(asked, [answer] if answer else []), run(asked, split(answer, cuts))
    assert cut._replace(usage=None) == whole._replace(usage=None)


@pytest.mark.parametrize(
    "protocol", [*PROTOCOLS, JSON_ENDPOINT], ids=lambda protocol: f"{protocol.name} {protocol.family}"
)
@given(st.integers(100, 999), st.lists(PIECES | st.binary(max_size=20), max_size=6).map(b"".join))
def test_no_error_body_makes_a_classifier_raise(protocol: Protocol, status: int, body: bytes) -> None:
    failure = protocol.classify(status, [(b"retry-after", body[:20])], body)
    assert (failure.status, failure.body) == (status, body)
