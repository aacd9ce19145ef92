"""A lab within this process, in a thread with an event loop of its own: there in milliseconds, for tests."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from hedgerow.http.server import Server
from hedgerow.lab.control import LabControl
from hedgerow.lab.options import LabOptions
from hedgerow.lab.routes import LabApp


class LabThread(LabControl):
    """A running lab. Use as a context manager, or call `stop`."""

    def __init__(self, options: LabOptions) -> None:
        """Returns once the lab listens. Raises ConfigError, and OSError where the address cannot be had."""
        self.name = options.name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"lab {self.name}", daemon=True)
        self._thread.start()
        try:
            self._server, port = asyncio.run_coroutine_threadsafe(self._serve(options), self._loop).result(self.timeout)
        except BaseException:
            self._end()
            raise
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"http://{host}:{port}"

    async def _serve(self, options: LabOptions) -> tuple[Server, int]:
        server = Server(LabApp(options, self._loop))
        await server.start(options.host, options.port)
        return server, server.port

    def stop(self) -> None:
        """End it; requests under way are broken off. May be called again."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(self.timeout)
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(self.timeout)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
