"""The client of a case: one request on a connection of its own, and everything that came back, with its times."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from tests.cases.case import Request
from tests.cases.upstream import RUN_HEADER
from tests.e2e.raw import BROKEN, Client, Reply

PATIENCE = 15.0
"""Seconds after which a client gives up, beyond every limit that a case sets."""


@dataclass
class Got:
    """What came back. Times are those of the loop; `status` is None when the client left before there was one.

    The request arrived between `began_at`, before its first byte was sent, and `sent_at`, after its last.
    """

    began_at: float
    sent_at: float
    done_at: float = 0.0
    head_at: float | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False
    """The message ended as HTTP says it must."""
    left: bool = False
    """The client went away before the end, as it was told to."""

    @property
    def text(self) -> str:
        """The body as text; what is no UTF-8 shows as U+FFFD."""
        return self.body.decode("utf-8", "replace")


async def ask(address: tuple[str, int], request: Request, run: str, *, leave_after: float | None) -> Got:
    """Send a request and take what comes; `leave_after` seconds the client closes the connection."""
    loop = asyncio.get_running_loop()
    message = _bytes(request, run)
    client = await Client.connect(address)
    client.writer.transport.set_write_buffer_limits(0)
    began_at = loop.time()
    client.writer.write(message)
    with contextlib.suppress(*BROKEN):
        await client.writer.drain()
    got = Got(began_at, loop.time())
    reply: Reply | None = None
    limit = PATIENCE if leave_after is None else leave_after
    try:
        with contextlib.suppress(*BROKEN):
            async with asyncio.timeout_at(got.sent_at + limit):
                reply = await client.head()
                got.head_at = loop.time()
                await client.body(reply, request.method)
    except TimeoutError:
        got.left = leave_after is not None
    finally:
        got.done_at = loop.time()
        client.leave()
    if reply is not None:
        got.status = reply.status
        got.headers = {name.lower(): value for name, value in reply.headers.items()}
        got.body, got.whole = bytes(reply.body), reply.whole
    return got


def _bytes(request: Request, run: str) -> bytes:
    body = request.content()
    fields = [("host", "gateway"), (RUN_HEADER, run), *request.headers]
    if body is not None:
        if not any(name.lower() == "content-type" for name, _ in fields):
            fields.append(("content-type", "application/json"))
        fields.append(("content-length", str(len(body))))
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (body or b"")
