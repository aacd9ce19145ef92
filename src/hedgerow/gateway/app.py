"""`hedgerow serve`: listen, answer, and on SIGTERM finish what is under way.

SIGHUP reads the configuration again, SIGUSR1 toggles the kill switch of all routes. A SIGHUP because the terminal was
closed is a SIGTERM.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable

from hedgerow.gateway import access_log, logs
from hedgerow.gateway.admin_controls import toggle_kill_switch
from hedgerow.gateway.blueprint import Blueprint, ServerBlueprint, Source
from hedgerow.gateway.build import Builder
from hedgerow.gateway.listening import listeners_of
from hedgerow.gateway.reload import Reloader
from hedgerow.http.server import Server, server_ssl_context
from hedgerow.wire import lookup

log = logging.getLogger("hedgerow.gateway")


def run(blueprint: Blueprint, *, on_ready: Callable[[str], None], source: Source | None = None) -> int:
    """Serve until SIGTERM or SIGINT; `on_ready` is told the URL. Returns the process's exit code.

    `source` is where the blueprint came from and can be read again.

    0: everything under way was finished; 1: the drain timeout cut something off.
    Raises `OSError` when the address cannot be listened on or the event log cannot be opened.
    """
    writer = logs.begin(blueprint)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(blueprint, on_ready, source))
    finally:
        logs.end(writer)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(blueprint: Blueprint, on_ready: Callable[[str], None], source: Source | None) -> int:
    loop = asyncio.get_running_loop()
    settings = blueprint.server
    hearing = listeners_of(settings, loop)
    builder = Builder(hearing.listeners)
    gateway, parts = builder.gateway(blueprint, loop)
    reloader = gateway.reloader = Reloader(gateway, parts, builder, source)
    server = Server(
        access_log.handler_of(gateway),
        limits=settings.http,
        ssl=None if (tls := settings.certificate) is None else server_ssl_context(tls.cert, tls.key),
        error_body=_error_body,
    )
    stop, at_once = _obey_signals(loop, reloader)
    await hearing.ready()
    await server.start(settings.host or "", settings.port, reuse_port=settings.reuse_port)
    _calm_collector()
    on_ready(_url(settings, server.port))
    await stop.wait()
    gateway.draining = True
    await reloader.stop()
    limit = reloader.parts.blueprint.server.drain
    what = _requests(gateway.in_flight)
    log.info("draining: %s under way, for %g s at most; signal again to stop at once", what, limit)
    whole = await _drain(server, limit, at_once)
    await reloader.close()
    gateway.close()
    await gateway.keeping.closed()
    await hearing.close()
    return 0 if whole else 1


def _obey_signals(loop: asyncio.AbstractEventLoop, reloader: Reloader) -> tuple[asyncio.Event, asyncio.Event]:
    """Events that are set when the process is to stop, and when it is to stop at once."""
    stop, at_once = asyncio.Event(), asyncio.Event()
    has_terminal = sys.stdin is not None and sys.stdin.isatty()

    def end() -> None:
        (at_once if stop.is_set() else stop).set()

    def hang_up() -> None:
        # Whoever closes a terminal means to end what runs in it; the descriptor is then no terminal's any more.
        # It may tell us twice, as the leader of its session and as what ran in front: that is no one in a hurry.
        if has_terminal and not sys.stdin.isatty():
            stop.set()
        else:
            reloader.signalled()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    loop.add_signal_handler(signal.SIGUSR1, lambda: toggle_kill_switch(reloader.gateway, reloader.parts, "SIGUSR1"))
    return stop, at_once


async def _drain(server: Server, limit: float, at_once: asyncio.Event) -> bool:
    """Let requests under way end; False when some were cut off, by the timeout or by a second signal."""
    drain, hurry = asyncio.ensure_future(server.drain(limit)), asyncio.ensure_future(at_once.wait())
    await asyncio.wait((drain, hurry), return_when=asyncio.FIRST_COMPLETED)
    if drain.done():
        hurry.cancel()
        if not drain.result():
            log.warning("the drain timeout cut off requests under way (server.timeouts.drain)")
        return drain.result()
    log.warning("stopped at once, with %s under way", _requests(server.in_flight))
    drain.cancel()
    await asyncio.gather(drain, return_exceptions=True)
    await server.close()
    return False


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


def _calm_collector() -> None:
    """Requests leave no cycles behind, so the collector need not look often, nor ever at what start-up made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _url(server: ServerBlueprint, port: int) -> str:
    host = server.host or "0.0.0.0"
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if server.certificate else 'http'}://{shown}:{port}"


def _error_body(status: int, message: str) -> tuple[bytes, bytes]:
    protocol = lookup(b"POST", b"/v1/chat/completions")
    return b"application/json", protocol.error_body(status, message, kind="invalid_request_error")
