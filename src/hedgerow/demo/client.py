"""The demo's client side: chat requests to the gateway, questions to the labs' control pages."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from hedgerow.demo.load import Send
from hedgerow.demo.reply import Reply
from hedgerow.demo.verify import Books
from hedgerow.errors import HedgerowError, UpstreamError
from hedgerow.events import Headers
from hedgerow.http.client import Origin, Pool, PoolSettings
from hedgerow.http.head import request_head
from hedgerow.lab.routes import LogAnswer, StatsAnswer

CONNECTIONS = 4096
ANSWER_WITHIN = 10.0
"""Seconds a lab may take to answer a question about its books."""

SETTLE_WITHIN = 5.0
"""Seconds after the last answer in which every cancelled attempt must have ended at its lab."""

PROMPT = "Why do hedges need a gate? Answer in a few sentences."
T = TypeVar("T")


class LabSilent(HedgerowError):
    """A lab did not answer a question about its books."""


class Client:
    """Connections to the gateway and the labs. Use as an async context manager."""

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pool in self._pools.values():
            await pool.close()

    def sender(self, url: str, route: str) -> Send:
        """What sends chat requests to this route of the gateway at `url`, marked by key for the labs' draws."""
        pool = self._pool(url)
        message = {"role": "user", "content": PROMPT}
        body = msgspec.json.encode({"model": route, "stream": True, "messages": [message]})
        fields = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream")]

        def send(key: str, reply: Reply) -> object:
            marked = [*fields, (b"x-lab-key", key.encode())]
            head = request_head(b"POST", b"/v1/chat/completions", pool.origin.host_header, marked, len(body))
            return pool.send(reply, head, body)

        return send

    async def reset(self, lab: str) -> None:
        """Start the lab's books anew, so that both phases meet the same draws."""
        await self._ask(lab, b"POST", b"/lab/reset", StatsAnswer)

    async def books(self, target: str, lab: str) -> Books:
        """The lab's books, once nothing is open there any more, or as they are after `SETTLE_WITHIN`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_WITHIN):
                while (await self._ask(lab, b"GET", b"/lab/stats", StatsAnswer)).open:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.02)
        stats = await self._ask(lab, b"GET", b"/lab/stats", StatsAnswer)
        log = await self._ask(lab, b"GET", b"/lab/log", LogAnswer)
        return Books(target, stats, log.records)

    async def _ask(self, url: str, method: bytes, path: bytes, kind: type[T]) -> T:
        pool, page = self._pool(url), _Page()
        head = request_head(method, path, pool.origin.host_header, [], 0 if method == b"POST" else None)
        pool.send(page, head, b"", method=method)
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return msgspec.json.decode(await page.body, type=kind)
        except (TimeoutError, UpstreamError, msgspec.MsgspecError) as error:
            raise LabSilent(f"the lab at {url} does not answer {path.decode()}: {error!r}") from error

    def _pool(self, url: str) -> Pool:
        if url not in self._pools:
            settings = PoolSettings(max_connections=CONNECTIONS, max_waiting=CONNECTIONS, redial=False)
            self._pools[url] = Pool(Origin.of(url), settings)
        return self._pools[url]


class _Page:
    """A sink that gathers a whole answer."""

    __slots__ = ("_pieces", "body")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def on_head(self, status: int, headers: Headers) -> None:
        """The books come with 200 only; anything else does not decode."""

    def on_data(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_end(self) -> None:
        if not self.body.done():
            self.body.set_result(b"".join(self._pieces))

    def on_error(self, error: UpstreamError) -> None:
        if not self.body.done():
            self.body.set_exception(error)
