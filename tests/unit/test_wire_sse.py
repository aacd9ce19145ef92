"""Event streams on bytes: only CR, LF and CRLF end lines, and reads are not events."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.wire import sse
from hedgerow.wire.sse import Blocks, keep, payloads, without_bom


def events(*reads: bytes) -> list[bytes]:
    blocks = Blocks()
    found: list[bytes] = []
    for read in reads:
        found += payloads(blocks.cut(read))
    return found


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"\xef\xbb\xbf: comment\r\n\r\ndata: a\r\n\r\n", [b"a"]),
        (b"\n\n\r\r\r\n\r\ndata: a\n\n", [b"a"]),
        (b"event: x\rdata: {\r\ndata: }\n\rid\r\r", [b"{\n}"]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
        (b": comment\n\n:\n\ndata: a\n\n", [b"a"]),
        (b"data: {\ndata: }\n\n", [b"{\n}"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"event: x\nid: 1\nretry: 5\nwhatever\nwhat: ever\ndata: a\n\n", [b"a"]),
        (b"data\n\ndata:\n\n", [b"", b""]),
        (b"id: 1\n\n", []),
        (b"datas: a\n\n data: a\n\n", []),
        (b"data: a\n\ndata: unfinished\n", [b"a"]),
        ("data: a\u2028b\u0085c\u2029d\x0b\x0c\n\n".encode(), ["a\u2028b\u0085c\u2029d\x0b\x0c".encode()]),
    ],
)
def test_events_are_read_as_the_standard_says_whatever_the_reads(stream: bytes, expected: list[bytes]) -> None:
    assert events(stream) == expected
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == expected
    for at in range(len(stream)):
        assert events(stream[:at], stream[at:]) == expected


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


lines = st.lists(
    st.sampled_from([b"data: x", b"data:", b"data:[y]", b": c", b"\xef\xbb\xbf", b"id", b"", b"", b"\x85"])
)
line_ends = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(st.lists(st.tuples(lines, line_ends)), st.lists(st.integers(0, 500)))
def test_all_chunkings_give_the_same_events(parts: list[tuple[list[bytes], bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for group, end in parts for line in group)
    assert events(*split(stream, cuts)) == events(stream)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_cutting_loses_and_invents_no_byte(stream: bytes, cuts: list[int]) -> None:
    blocks = Blocks()
    whole = b"".join(map(blocks.cut, split(stream, cuts))) + blocks.rest()
    assert whole == stream.removeprefix(sse.BOM)


def test_a_line_of_a_megabyte_is_one_event() -> None:
    stream = b"data: " + b"x" * 1_048_576 + b"\n\n"
    assert events(*(stream[i : i + 1000] for i in range(0, len(stream), 1000))) == [stream[6:-2]]


def test_an_endless_line_is_dropped_and_the_next_event_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    blocks = Blocks()
    for count in range(1, 1000):
        assert blocks.cut(b"data: x" * 10) == b""
        assert len(blocks.rest()) <= 101
        assert blocks.overflowed == (count > 1)
    assert payloads(blocks.cut(b"\n\ndata: next\n\n")) == [b"next"]


@pytest.mark.parametrize("size", [1, 2, 3, 1023])
def test_an_open_line_takes_its_bytes_and_little_more_however_small_the_reads(size: int) -> None:
    piece = b"x" * size
    blocks = Blocks()
    tracemalloc.start()
    try:
        for _ in range(100_000 // size):
            blocks.cut(bytes(bytearray(piece)))  # a new object each time
        assert tracemalloc.get_traced_memory()[1] < 150_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=2000)))
def test_keeping_pieces_loses_no_byte(pieces: list[bytes]) -> None:
    kept: list[bytes] = []
    for piece in pieces:
        keep(kept, piece)
    assert b"".join(kept) == b"".join(pieces)


def test_a_bom_is_taken_from_the_start_only() -> None:
    assert without_bom(b"\xef\xbb\xbfdata: \xef\xbb\xbf\n\n") == b"data: \xef\xbb\xbf\n\n"
    assert without_bom(b"data: a\n\n") == b"data: a\n\n"
