"""An HTTP/1.1 client on asyncio streams that hides nothing: when bytes came, whether an answer was whole."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

BROKEN = (asyncio.IncompleteReadError, ConnectionError)


@dataclass
class Reply:
    """One answer, as far as it came. Times are `time.monotonic()`; `ended` is None of an answer that broke off."""

    status: int
    headers: dict[str, str]
    head_at: float
    body: bytearray = field(default_factory=bytearray)
    ended_at: float | None = None

    @property
    def whole(self) -> bool:
        return self.ended_at is not None

    @property
    def target(self) -> str:
        """Which target answered."""
        return self.headers["x-hedgerow-target"]

    @property
    def last(self) -> bool:
        """The server closes the connection after this answer."""
        return self.headers.get("connection") == "close"


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: tuple[str, int], *, tls: ssl.SSLContext | None = None) -> Client:
        """A new connection; raises OSError."""
        return cls(*await asyncio.open_connection(*address, ssl=tls))

    def send(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a request."""
        fields = {"host": "gateway", **(headers or {})}
        if body is not None:
            fields |= {"content-type": "application/json", "content-length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))

    async def head(self) -> Reply:
        """The head of the next answer. Raises one of BROKEN when there is none."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head[:-4].split("\r\n")
        pairs = (one.partition(": ") for one in fields)
        return Reply(int(line.split(" ")[1]), {name: value for name, _, value in pairs}, time.monotonic())

    async def piece(self) -> bytes:
        """The next chunk of a chunked body, b"" after the last. Raises one of BROKEN."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def body(self, reply: Reply, method: str = "POST") -> None:
        """The rest of an answer; one that breaks off is not `whole`."""
        try:
            if method == "HEAD" or reply.status in (204, 304):
                pass
            elif "transfer-encoding" in reply.headers:
                while piece := await self.piece():
                    reply.body += piece
            else:
                reply.body += await self.reader.readexactly(int(reply.headers["content-length"]))
        except BROKEN:
            return
        reply.ended_at = time.monotonic()

    async def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """A request and its answer."""
        self.send(method, target, body, headers)
        reply = await self.head()
        await self.body(reply, method)
        return reply

    async def chat(self, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
        """A chat request and its answer."""
        return await self.ask("POST", "/v1/chat/completions", body, headers)

    def leave(self) -> None:
        """Close at once."""
        self.writer.transport.abort()


async def ask(
    address: tuple[str, int],
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """A request on a connection of its own, and its answer."""
    client = await Client.connect(address, tls=tls)
    try:
        return await client.ask(method, target, body, headers)
    finally:
        client.leave()
