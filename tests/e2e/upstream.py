"""An upstream of our own that sends exactly the bytes a test gives it. Blocking sockets, one thread per connection."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


class Cut(Exception):
    """Raised by an answer to reset the connection at this point."""


@dataclass
class Received:
    """One request as the upstream got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """Connections count from 0 in the order in which they came."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the answer has been sent, or could not be."""

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


Answer = Callable[[Received], Iterable[bytes]]
"""The bytes of an answer; whatever comes after a `yield` happens when the bytes before it have been handed over."""


class Upstream:
    """Listens on loopback and answers every request by `answer`. A context manager."""

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        """May be changed between requests."""
        self._tls = tls
        self.requests: list[Received] = []
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def open(self) -> int:
        """Connections open now."""
        return len(self._open)

    @property
    def base_url(self) -> str:
        """As a target's base URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            number, self.connections = self.connections, self.connections + 1
            self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, EOFError):  # the client has gone, as it may
            try:
                if self._tls is not None:
                    self._open.discard(connection)
                    connection = self._tls.wrap_socket(connection, server_side=True)
                    self._open.add(connection)
                self._converse(connection, number)
            except Cut:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            finally:
                self._open.discard(connection)
                connection.close()

    def _converse(self, connection: socket.socket, number: int) -> None:
        with connection.makefile("rb") as reader:
            while True:
                received = _read(reader, number)
                self.requests.append(received)
                try:
                    for piece in self.answer(received):
                        connection.sendall(piece)
                finally:
                    received.over.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._socket.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive(), "an answer did not end"


def _read(reader: Any, number: int) -> Received:
    line = reader.readline().decode("latin-1")
    if not line:
        raise EOFError
    method, target, _ = line.split(" ")
    headers: dict[str, str] = {}
    while (field_line := reader.readline().decode("latin-1").rstrip("\r\n")) != "":
        name, _, value = field_line.partition(": ")
        headers[name.lower()] = value
    body = reader.read(int(headers.get("content-length", 0)))
    return Received(method, target, headers, body, number)


def whole(body: bytes, *, status: str = "200 OK", kind: str = "application/json", headers: Iterable[str] = ()) -> bytes:
    """An answer with a content-length."""
    fields = "".join(f"{line}\r\n" for line in headers)
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{fields}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def always(answer: bytes) -> Answer:
    """This answer to every request."""
    return lambda _: (answer,)


SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One event of a streamed chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def stream(*events: bytes) -> bytes:
    """A whole streamed answer, every event in a chunk of its own, and [DONE]."""
    return SSE_HEAD + b"".join(chunk(one) for one in (*events, b"data: [DONE]\n\n")) + LAST_CHUNK


def completion(content: str) -> bytes:
    """The body of a chat completion that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    ).encode()
