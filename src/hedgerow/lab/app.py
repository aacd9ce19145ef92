"""Serve a lab: `serve_lab` on a running loop, `run` as a whole process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable

from hedgerow.http.server import Server
from hedgerow.lab.options import LabOptions
from hedgerow.lab.routes import LabApp


async def serve_lab(options: LabOptions, *, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then requests under way are broken off.

    `on_ready` is called with the base of all URLs, e.g. "http://127.0.0.1:40123", once the lab listens. Raises
    ConfigError before that when the options cannot work together, OSError when the address cannot be had.
    """
    loop = asyncio.get_running_loop()
    server = Server(LabApp(options, loop))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await server.start(options.host, options.port)
    try:
        host = f"[{options.host}]" if ":" in options.host else options.host
        on_ready(f"http://{host}:{server.port}")
        await stop.wait()
    finally:
        await server.close()


def run(options: LabOptions) -> None:
    """Serve a lab as a process, on uvloop where there is one.

    Once it listens it prints one line of JSON on stdout: {"ready": true, "name": ..., "url": ..., "pid": ...}.
    Returns after SIGTERM or SIGINT. Raises as `serve_lab` does.
    """

    def announce(url: str) -> None:
        ready = {"ready": True, "name": options.name, "url": url, "pid": os.getpid()}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve_lab(options, on_ready=announce))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
