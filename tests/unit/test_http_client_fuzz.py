"""Any bytes, in any pieces: the same result, one last word to the sink, no exception."""

from __future__ import annotations

import asyncio
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import UpstreamClosed, UpstreamProtocolError
from hedgerow.http.client_call import ClientCall
from hedgerow.http.client_connection import ClientConnection
from tests.unit.client_support import Recorder


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.shut = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.shut

    def abort(self) -> None:
        self.shut = True

    def close(self) -> None:
        self.shut = True


class Lonely:
    """A pool of one connection."""

    name = "upstream:1"

    def __init__(self) -> None:
        self.freed = 0
        self.gone = False

    def free(self, connection: ClientConnection) -> None:
        assert not self.gone
        self.freed += 1

    def lost(self, connection: ClientConnection) -> None:
        self.gone = True

    def closed(self, connection: ClientConnection) -> None:
        assert self.gone

    def resend(self, call: ClientCall) -> None:
        raise AssertionError("nothing was sent on this connection before")

    def leave(self, call: ClientCall) -> None:
        raise AssertionError("the call has a connection")

    def queues(self, call: ClientCall) -> bool:
        raise AssertionError("the call has a connection")

    def cancelled(self, connection: ClientConnection) -> None:
        self.gone = True


class Outcome(Recorder):
    """What a caller was told, comparable."""

    def told(self) -> tuple[object, ...]:
        return (self.status, self.headers, self.body, self.ends, type(self.error), str(self.error))


def receive(pieces: list[bytes], *, is_head: bool = False, cancel_after: int | None = None) -> Outcome:
    """What the sink is told when `pieces` arrive and then the end of the connection."""
    owner, wire, sink = Lonely(), Wire(), Outcome()
    connection = ClientConnection(owner)
    connection.connection_made(wire)
    call = ClientCall(owner, sink, b"GET / HTTP/1.1\r\n\r\n", b"", is_head, resend=True)
    connection.start(call, 0.0)
    told = None
    for number, piece in enumerate(pieces):
        if cancel_after == number:
            call.cancel()
            told = sink.told()
        if wire.shut:
            break
        connection.data_received(piece)
    if not wire.shut:
        connection.eof_received()
    connection.connection_lost(None)
    if cancel_after is None:
        assert sink.ends == 1
        assert isinstance(sink.error, UpstreamClosed | UpstreamProtocolError | None)
    elif told is not None:
        assert sink.told() == told
    assert wire.shut
    assert owner.freed <= sink.ends
    return sink


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({cut % len(data) for cut in cuts} | {0, len(data)}) if data else [0]
    return [data[a:b] for a, b in itertools.pairwise(marks)]


status_lines = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 204 No",
        b"HTTP/1.1 100 Go",
        b"HTTP/1.1 429",
        b"HTTP/2.0 200 OK",
    ]
)
fields = st.sampled_from(
    [
        b"content-length: 5",
        b"Content-Length: 0",
        b"transfer-encoding: chunked",
        b"transfer-encoding: gzip",
        b"connection: close",
        b"Connection: keep-alive",
        b"X-Empty:",
        b"x-blank:  a b  ",
        b"upgrade: h2c",
        b"bad name: x",
    ]
)
bodies = st.sampled_from(
    [b"hello", b"", b"5\r\nhello\r\n0\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n", b"5\r\nhel", b"zz\r\n", b"\r\n"]
)
answers = st.builds(
    lambda line, lines, body: b"\r\n".join([line, *lines, b"", body]),
    status_lines,
    st.lists(fields, max_size=4),
    bodies,
)
noise = st.binary(max_size=40)
streams = st.lists(st.one_of(answers, answers, noise), min_size=1, max_size=3).map(b"".join)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An almost valid stream with one byte changed."""
    data = bytearray(draw(answers))
    data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


cuts = st.lists(st.integers(0, 10_000), max_size=12)


@given(st.one_of(streams, damaged()), cuts, st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_split_gives_the_same_result(data: bytes, at: list[int], is_head: bool) -> None:
    whole = receive([data] if data else [], is_head=is_head)
    assert receive(split(data, at), is_head=is_head).told() == whole.told()
    assert receive([bytes([byte]) for byte in data], is_head=is_head).told() == whole.told()


@given(st.binary(max_size=300), cuts)
@settings(max_examples=100, deadline=None)
def test_random_bytes_never_raise_and_end_once(data: bytes, at: list[int]) -> None:
    receive(split(data, at))


@given(st.one_of(streams, damaged()), cuts, st.integers(0, 12))
@settings(max_examples=100, deadline=None)
def test_after_a_cancel_nothing_is_told(data: bytes, at: list[int], after: int) -> None:
    receive(split(data, at), cancel_after=after)
