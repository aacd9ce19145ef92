"""Reload: the configuration is read again and takes the place of the old one between two requests.

A faulty file changes nothing. Requests under way keep their routes to the end; connections, statistics and balances of
what stays are kept. `needs_restart` names what a running process cannot change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hedgerow.errors import ConfigError
from hedgerow.gateway import logs
from hedgerow.gateway.blueprint import Blueprint, ServerBlueprint, Source, TargetBlueprint
from hedgerow.gateway.reload_pools import Retirement
from hedgerow.gateway.reload_prices import PriceUpdates, Read, repriced
from hedgerow.gateway.reload_read import read_again
from hedgerow.gateway.reload_watch import FileWatch
from hedgerow.http.client import Pool

if TYPE_CHECKING:
    from hedgerow.gateway.build import Builder
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.parts import Parts

log = logging.getLogger("hedgerow.gateway")


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What came of it. With `problems` nothing has changed; `needs_restart` are keys whose change waits for one."""

    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
    needs_restart: Sequence[str] = ()


class Reloader:
    """Reads the configuration of one gateway again. One reading at a time; who asks meanwhile gets the next one."""

    def __init__(
        self, gateway: Gateway, parts: Parts, builder: Builder, source: Source | None, *, read: Read = read_again
    ) -> None:
        """Without a `source` there is nothing to read."""
        self.gateway = gateway
        self._builder = builder
        self._source = source
        self._read = read
        self.parts = parts
        """What is in force."""
        self.counts = {"ok": 0, "failed": 0}
        """Reloads so far."""
        self.sound = True
        """The last one was."""
        self.loaded_at = gateway.loop.time()
        """When what is in force was read."""
        self._started_with = parts.blueprint.server
        self._running: asyncio.Task[Outcome] | None = None
        self._next: asyncio.Task[Outcome] | None = None
        self._retirement = Retirement(gateway)
        self._watches: list[FileWatch] = []
        self._prices: PriceUpdates | None = None
        if source is not None:
            self._prices = PriceUpdates(gateway.loop, source, read, self._reprice)
            self._prices.obey(parts.blueprint.server.prices_every)
            files = [(source.file, source.stamp), *([] if source.beside is None else [source.beside])]
            self._watches = [
                FileWatch(file, seen, partial(self._file_changed, file), gateway.loop) for file, seen in files
            ]
            self._watch_if_asked()

    @property
    def file(self) -> str | None:
        """What is read."""
        return None if self._source is None else self._source.file

    def refusal(self) -> str | None:
        """Why nothing can be reloaded; None when it can."""
        if self._source is None:
            return "there is no file to reload: this gateway was started from the API keys in its environment"
        if self.parts.blueprint.server.reload == "off":
            return "server.reload is off: changes take effect at a restart"
        return None

    def ask(self, why: str) -> asyncio.Task[Outcome]:
        """Read the file after now, and use it if it is sound."""
        if self._next is None:
            self._next = self.gateway.loop.create_task(self._take_turn(self._running, why), name="reload")
        return self._next

    def signalled(self) -> None:
        """SIGHUP has come."""
        if (refusal := self.refusal()) is not None:
            log.error("SIGHUP: %s", refusal)
        else:
            self.ask("SIGHUP")

    async def stop(self) -> None:
        """Reload no more; what is under way is given up."""
        for watch in self._watches:
            watch.stop()
        if self._prices is not None:
            await self._prices.stop()
        tasks = [task for task in (self._running, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop, and close every pool, in use or not."""
        await self.stop()
        await asyncio.gather(self._retirement.close(), *(pooled.pool.close() for pooled in self.parts.pools.values()))

    def _file_changed(self, file: str) -> None:
        self.ask(f"{file} has changed")

    async def _take_turn(self, before: asyncio.Task[Outcome] | None, why: str) -> Outcome:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        try:
            outcome = await self._reload(why)
        except ConfigError as error:
            outcome = Outcome(problems=tuple(error.problems))
        except Exception:
            log.exception("a reload failed by a fault of our own")
            outcome = Outcome(problems=("hedgerow failed at it; its log says where",))
        finally:
            self._running = None
        self._count(outcome)
        self._tell(why, outcome)
        return outcome

    async def _reload(self, why: str) -> Outcome:
        source = self._source
        if source is None:
            raise ConfigError([self.refusal() or "there is no file"])
        log.info("reload: %s; reading %s", why, source.file)
        for watch in self._watches:
            watch.read()
        blueprint, warnings = await self._read(source)
        self._install(self._builder.parts(blueprint, self.gateway.loop.time(), self.parts))
        self._obey(blueprint)
        changed = needs_restart(self._started_with, blueprint.server)
        return Outcome(warnings=tuple(warnings), needs_restart=tuple(changed))

    def _count(self, outcome: Outcome) -> None:
        self.sound = not outcome.problems
        self.counts["ok" if self.sound else "failed"] += 1
        if self.sound:
            self.loaded_at = self.gateway.loop.time()

    def _install(self, parts: Parts) -> None:
        old, self.parts = self.parts, parts
        kept = {pooled.pool for pooled in parts.pools.values()}
        self.gateway.install(parts)
        self._retirement.add(_unused(old, kept))

    def _reprice(self, targets: Mapping[str, TargetBlueprint]) -> None:
        before = self.parts.blueprint
        blueprint = msgspec.structs.replace(before, targets=repriced(before.targets, targets))
        if blueprint != before:
            self.parts = self.gateway.parts = self.parts._replace(blueprint=blueprint)
            self._builder.reprice(blueprint)
            log.info("prices: there are new ones")

    def _obey(self, blueprint: Blueprint) -> None:
        """What holds for the process, and not for requests."""
        self._watch_if_asked()
        if self._prices is not None:
            self._prices.obey(blueprint.server.prices_every)
        logs.obey(blueprint)
        self.gateway.debug = log.isEnabledFor(logging.DEBUG)

    def _watch_if_asked(self) -> None:
        for watch in self._watches:
            (watch.start if self.parts.blueprint.server.reload == "watch" else watch.stop)()

    def _tell(self, why: str, outcome: Outcome) -> None:
        for problem in outcome.problems:
            log.error("reload: %s", problem)
        for warning in outcome.warnings:
            log.warning("reload: %s", warning)
        for key in outcome.needs_restart:
            log.warning("reload: %s is not applied: its change takes effect at a restart", key)
        if outcome.problems:
            log.error("reload: nothing was changed; what was in force stays in force (%s)", why)
        else:
            routes, targets = len(self.parts.blueprint.routes), len(self.parts.blueprint.targets)
            log.info("reload: done, routes: %d, targets: %d (%s)", routes, targets, why)


def _unused(old: Parts, kept: set[Pool]) -> list[Pool]:
    return [pooled.pool for pooled in old.pools.values() if pooled.pool not in kept]


def needs_restart(old: ServerBlueprint, new: ServerBlueprint) -> Iterator[str]:
    """The keys that differ and cannot be changed while the process runs."""
    if (old.host, old.port) != (new.host, new.port):
        yield "server.listen"
    for field, key in _FIXED.items():
        if getattr(old, field) != getattr(new, field):
            yield key
    for field, key in _FIXED_HTTP.items():
        if getattr(old.http, field) != getattr(new.http, field):
            yield key


_FIXED = {
    "certificate": "server.tls",
    "reuse_port": "server.reuse_port",
    "event_log": "server.event_log",
    "metrics": "server.metrics.enabled",
    "metrics_shared": "server.metrics.shared",
    "redis": "server.redis",
    "ledger": "server.ledger",
    "traces": "server.traces",
    "log_format": "server.log_format",
    "access_log": "server.access_log",
}
_FIXED_HTTP = {
    "header_bytes": "server.limits.header_bytes",
    "body_bytes": "server.limits.body_bytes",
    "header_timeout": "server.timeouts.header",
    "body_timeout": "server.timeouts.body",
    "idle_timeout": "server.timeouts.idle",
}
