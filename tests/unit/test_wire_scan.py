"""The scanner that all event streams share, in a protocol of words: against a plain reading of the whole stream."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage, UsageSource
from hedgerow.wire import sse
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Verdict
from hedgerow.wire.scan import StreamScanner
from hedgerow.wire.sse import BOM
from hedgerow.wire.words import Words, words

ERROR = Failure(FailureClass.SERVER_ERROR, "said so")


class Talk(StreamScanner):
    """Events are words: `token`, `quiet`, `usage 3;`, `error`, `finish`, `end`."""

    __slots__ = ()
    END = b"end"
    sign = ord("d")
    ERROR = b"error"
    USAGE = b"usage"
    DELTA = b"token"

    def decide(self, payload: bytes) -> Verdict | None:
        word = payload.split(b" ")[0]
        if word == b"finish":
            self._finished = True
        if word == b"end":
            return self.empty(self.held())
        verdicts: dict[bytes, Verdict] = {b"token": ACCEPTED, b"error": ERROR}
        return verdicts.get(word)

    def is_end(self, payload: bytes) -> bool:
        return payload == b"end"

    def error_in(self, payload: bytes) -> Failure | None:
        return ERROR if payload == b"error" else None

    def usage_in(self, payload: bytes) -> Usage | None:
        word, _, count = payload.partition(b" ")
        return Usage(output_tokens=int(count[:-1])) if word == b"usage" and count.endswith(b";") else None

    def words_in(self, document: bytes) -> Words:
        return words(document.partition(b" ")[0].decode("latin-1"))

    def judge_document(self, body: bytes) -> Verdict:
        return Accepted(b"document " + body)


@dataclass
class Said:
    """What a scanner made of a stream, but for the bytes that an empty answer carries along."""

    verdict: FailureClass | None = None
    why: str = ""
    done: bool = False
    failure: Failure | None = None
    usage: Usage | None = None


def run(reads: list[bytes], *, clean: bool = True) -> Said:
    """Feed as the gateway does."""
    scanner = Talk([])
    said = Said()
    verdict: Verdict | None = None
    for number, read in enumerate(reads):
        verdict = scanner.feed(read)
        if verdict is not None:
            if isinstance(verdict, Accepted):
                done = [scanner.watch(piece) for piece in (b"", *reads[number + 1 :])]
                assert done == sorted(done), "an end that was seen stays seen"
                said.done = done[-1]
            break
    else:
        verdict = scanner.eof(b"".join(reads))
    if isinstance(verdict, Failure):
        said.verdict, said.why = verdict.kind, verdict.message
    ending = scanner.ending(clean)
    said.failure = ending.failure
    said.usage = ending.usage
    return said


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


WORDS = st.sampled_from(["token", "quiet", "usage 3;", "usage 8;", "error", "finish", "end", "ending", "tok\u2028en"])
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
NOISE = st.sampled_from([b"", b": comment", b"event: end", b"id", b"retry: 5", b"whatever: error"])


def lines_of(word: str, spaced: bool, noise: bytes) -> list[bytes]:
    data = (b"data: " if spaced else b"data:") + word.encode()
    return [*([noise] if noise else []), data, b""]


EVENTS = st.lists(st.tuples(WORDS, st.booleans(), NOISE, ENDS), max_size=8)


def expected(words: list[str]) -> tuple[FailureClass | None, bool, bool, Usage | None]:
    """Verdict, whether the end came, whether an error came, and the usage: read the slow way, up to the end."""
    finished = False
    for at, word in enumerate(words):
        finished = finished or word == "finish"
        if word == "token":
            rest = words[at:]
            done, failed = "end" in rest, "error" in rest
            reports = [int(report[6:-1]) for report in words if report.startswith("usage")]
            if not reports:
                return None, done, failed, Usage(output_tokens=rest.count("token"), source=UsageSource.ESTIMATED)
            if finished or (done and not failed):
                return None, done, failed, Usage(output_tokens=reports[-1])
            count = max(reports[-1], rest.count("token"))
            return None, done, failed, Usage(output_tokens=count, source=UsageSource.PARTIAL)
        if word == "error":
            return FailureClass.SERVER_ERROR, False, False, None
        if word == "end":
            return FailureClass.EMPTY, False, False, None
    return FailureClass.EMPTY if finished else FailureClass.PROTOCOL, False, False, None


@given(EVENTS, st.lists(st.integers(0, 400)), st.booleans(), st.booleans())
@example([("token", True, b"", b"\r"), ("end", True, b"", b"\r")], [12, 13], True, True)
def test_whatever_the_reads_it_says_what_a_reading_of_the_whole_stream_says(
    events: list[tuple[str, bool, bytes, bytes]], cuts: list[int], bom: bool, clean: bool
) -> None:
    words = [event[0] for event in events]
    if "end" in words:
        events = events[: words.index("end") + 1]
    stream = b"".join(line + end for word, spaced, noise, end in events for line in lines_of(word, spaced, noise))
    stream = BOM + stream if bom and stream else stream
    said = run(split(stream, cuts), clean=clean)
    verdict, done, failed, usage = expected([event[0] for event in events])
    assert said.verdict is verdict
    if verdict is None:
        assert said.done is done
        assert (said.failure is None) == (done and not failed)
        assert said.failure == ERROR if failed else True
        assert said.usage == usage


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"data: token\n\n", b"data: end\r\n\r\n", b"{", BOM])))
def test_no_bytes_make_it_raise_and_all_chunkings_agree(reads: list[bytes]) -> None:
    stream = b"".join(reads)
    whole = run([stream] if stream else [])
    pieces = run(reads)
    single = run([stream[i : i + 1] for i in range(len(stream))])
    for said in (pieces, single):
        assert (said.verdict, said.done, said.failure) == (whole.verdict, whole.done, whole.failure)


@pytest.mark.parametrize("pieces", [(b"data: end\n\ndata: error\n\n",), (b"data: end\n\n", b"data: error\n\n")])
def test_an_error_after_the_end_is_ignored(pieces: tuple[bytes, ...]) -> None:
    scanner = Talk([])
    assert scanner.feed(b"data: token\n\n") is ACCEPTED
    assert [scanner.watch(piece) for piece in pieces] == [True] * len(pieces)
    assert scanner.ending(True) == Ending(None, Usage(output_tokens=1, source=UsageSource.ESTIMATED))


def test_a_document_in_place_of_a_stream_is_judged_without_its_bom() -> None:
    scanner = Talk([])
    assert scanner.feed(BOM[:1]) is None
    assert scanner.feed(BOM[1:] + b" \n{") is None
    assert scanner.feed(b"}") is None
    assert scanner.eof(BOM + b" \n{}") == Accepted(b"document  \n{}")


def test_an_event_too_long_is_told_before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    scanner = Talk([])
    assert scanner.feed(b"data: " + b"x" * 900) is None
    verdict = scanner.feed(b"x" * 100)
    assert verdict == Failure(FailureClass.PROTOCOL, "an event of more than 32 MiB")


def test_an_event_too_long_after_commit_is_named_only_when_the_end_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    long = b"data: " + b"x" * 2000 + b"\n\n"
    scanner = Talk([])
    assert scanner.feed(b"data: token\n\n") is ACCEPTED
    for piece in (long[:1500], long[1500:]):
        assert scanner.watch(piece) is False
    failure = scanner.ending(True).failure
    assert failure is not None
    assert failure.message == "the stream was closed before its end marker, after an event of more than 32 MiB"
    assert scanner.watch(b"data: end\n\n") is True
    assert scanner.ending(True) == Ending(None, Usage(output_tokens=1, source=UsageSource.ESTIMATED))


@pytest.mark.parametrize("size", [1, 2, 100])
def test_what_is_held_before_commit_takes_little_more_than_its_bytes(size: int) -> None:
    quiet = b"data: quiet\n\n" * 1_000
    line = b"data: " + b"q" * 12_000
    for stream, bound in ((quiet, 2.5), (line, 4.5), (b"{" + line, 0.5)):
        scanner = Talk([])
        tracemalloc.start()
        try:
            for i in range(0, len(stream), size):
                assert scanner.feed(bytes(bytearray(stream[i : i + size]))) is None
            assert tracemalloc.get_traced_memory()[0] < bound * len(stream) + 8_192
        finally:
            tracemalloc.stop()
