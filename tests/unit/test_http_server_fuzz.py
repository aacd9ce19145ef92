"""Random and mutated bytes: nothing escapes, whatever ends, ends cleanly, and the handler sees only sound requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hedgerow.http.exchange import Exchange
from hedgerow.http.limits import Limits
from tests.unit.http_support import Desk, Ears, Wire, echo

LIMITS = Limits(header_bytes=2000, body_bytes=2000, pipeline_bytes=500)
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]+\r\n((?:[a-z-]+: [^\r\n]*\r\n)*)\r\n")

GOOD = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /x?y=z HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
]
LAST = [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
SPICE = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b"\t",
    b":",
    b"Host: b\r\n",
    b"Content-Length: 3\r\n",
    b"\xff",
    b"0",
    b";",
]
SPICE += [b"Transfer-Encoding: chunked\r\n", b"HTTP/2.0", b"Upgrade: h2c\r\nConnection: upgrade\r\n", b"A: b\r\n c\r\n"]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A few good requests with some bytes cut out, repeated or put in."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(GOOD + LAST), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(at + 20, len(data))))
        data[at:end] = draw(st.sampled_from([*SPICE, b"", bytes(data[at:end]) * 2]) | st.binary(max_size=5))
    return bytes(data)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces, cut at these places (modulo its length)."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def sound(exchange: Exchange) -> bool:
    """Whether a request is one a handler may be shown."""
    names = [name for name, _ in exchange.headers]
    lengths = [int(value) for name, value in exchange.headers if name == b"content-length"]
    return (
        exchange.method in (b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS")
        and re.fullmatch(rb"[\x21-\x7e]+", exchange.target) is not None
        and all(TOKEN.fullmatch(name) for name in names)
        and all(value == value.strip() and not re.search(rb"[\x00\r\n]", value) for _, value in exchange.headers)
        and names.count(b"host") <= 1
        and names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
        and lengths in ([], [len(exchange.body)])
        and len(exchange.body) <= LIMITS.body_bytes
    )


def statuses(written: bytes, methods: list[bytes]) -> list[int]:
    """Read the answers back; fails where what was written is not a row of whole answers."""
    found: list[int] = []
    at = 0
    while at < len(written):
        match = ANSWER.match(written, at)
        assert match is not None, written[at:]
        at, status = match.end(), int(match[1])
        if status != 100:
            method = methods[len(found)] if len(found) < len(methods) else b"GET"
            length = re.search(rb"content-length: (\d+)\r\n", match[2])
            assert length is not None
            at += 0 if method == b"HEAD" else int(length[1])
            found.append(status)
    assert at == len(written)
    return found


def seen(desk: Desk) -> list[tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]]:
    return [(e.method, e.target, e.headers, e.body) for e in desk.seen]


@settings(max_examples=400, deadline=None)
@given(data=mutated() | st.binary(max_size=300), cuts=st.lists(st.integers(0, 10_000), max_size=12), late=st.booleans())
@example(data=b"".join(GOOD + LAST), cuts=list(range(2000)), late=True)
@example(data=GOOD[0] + LAST[0] + GOOD[0], cuts=[], late=False)
def test_any_bytes_in_any_pieces_end_in_whole_answers(
    loop: asyncio.AbstractEventLoop, data: bytes, cuts: list[int], late: bool
) -> None:
    desk = Desk(None if late else echo)
    wire = Wire(loop, desk, LIMITS)
    answered = 0
    for piece in split(data, cuts):
        wire.receive(piece)
        if late and wire.connection.current is not None:
            echo(desk.seen[answered])
            answered += 1
    while wire.connection.current is not None:
        echo(desk.seen[answered])
        answered += 1
    assert all(sound(exchange) for exchange in desk.seen)
    found = statuses(wire.written, [exchange.method for exchange in desk.seen])
    assert found[: len(desk.seen)] == [200] * len(desk.seen)
    assert found[len(desk.seen) :] in ([], [400], [413], [417], [431], [501], [505])
    assert len(found) == len(desk.seen) or wire.transport.ended == "eof"


@settings(max_examples=200, deadline=None)
@given(data=mutated(), cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_pieces_make_no_difference(loop: asyncio.AbstractEventLoop, data: bytes, cuts: list[int]) -> None:
    whole, pieces, slow = (Desk(echo) for _ in range(3))
    wires = [Wire(loop, desk, LIMITS) for desk in (whole, pieces, slow)]
    wires[0].receive(data)
    wires[1].receive(*split(data, cuts))
    wires[2].receive(*(data[i : i + 1] for i in range(len(data))))
    assert seen(whole) == seen(pieces) == seen(slow)
    # Whether a client is told to continue rightly depends on whether its body has already come.
    answers = [wire.written.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"") for wire in wires]
    assert answers[0] == answers[1] == answers[2]
    assert wires[0].transport.ended == wires[1].transport.ended == wires[2].transport.ended


@settings(max_examples=200, deadline=None)
@given(data=mutated(), cut=st.integers(0, 10_000), how=st.sampled_from(["eof", "lost", "expired", "abort"]))
def test_a_connection_can_end_at_any_point(loop: asyncio.AbstractEventLoop, data: bytes, cut: int, how: str) -> None:
    desk, ears = Desk(), Ears()
    wire = Wire(loop, desk, LIMITS)
    wire.receive(data[: cut % (len(data) + 1)])
    in_progress = wire.connection.current is not None
    if in_progress:
        desk.seen[0].listener = ears
    if how == "eof":
        wire.connection.eof_received()
    elif how == "expired":
        wire.at(1000.0)
    elif how == "abort" and in_progress:
        desk.seen[0].abort()
    wire.connection.connection_lost(None)
    if in_progress and how != "abort":
        echo(desk.seen[0])  # a no-op by now
        assert ears.heard == ["disconnect"]
    else:
        assert ears.heard == []
    assert wire.connection.current is None
    assert wire.shared.connections == set()
