"""The processes of a demo run: two simulated providers and the gateway in front of them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from hedgerow.demo.children import Child, child
from hedgerow.demo.options import DemoOptions

LABS = ("alpha", "beta")
"""The simulated providers; also the names of the gateway's targets, in the order it tries them."""

PLAIN = "plain"
HEDGED = "hedged"
"""The gateway's routes: the same targets without and with a hedge."""

LONGEST = 3_600.0
"""Simulated seconds an answer may take; recorded times hold hangs of minutes, and no timeout shall cut them short."""

LOOPBACK = "127.0.0.1:0"


class Stage(msgspec.Struct, frozen=True):
    """Everything is up and ready."""

    labs: dict[str, Child]
    gateway: Child

    @property
    def children(self) -> list[Child]:
        return [*self.labs.values(), self.gateway]


@contextlib.asynccontextmanager
async def stage(options: DemoOptions, *, delay: float) -> AsyncIterator[Stage]:
    """Start everything, and stop it at the end of the block. `delay` is in simulated seconds."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hedgerow-demo-")))
        labs = {name: await stack.enter_async_context(child(f"lab {name}", *_lab(name, options))) for name in LABS}
        config = folder / "hedgerow.yaml"
        urls = {name: lab.url for name, lab in labs.items()}
        config.write_bytes(msgspec.json.format(msgspec.json.encode(_config(urls, options.speed, delay=delay))))
        serve = ("serve", "--config", str(config), "--listen", LOOPBACK, "--json-ready")
        yield Stage(labs, await stack.enter_async_context(child("gateway", *serve)))


def _lab(name: str, options: DemoOptions) -> Sequence[str]:
    arguments = ["lab", "--name", name, "--listen", LOOPBACK]
    arguments += ["--seed", str(options.seed), "--speed", str(options.speed), "--preset", options.preset]
    if options.latencies is not None:
        arguments += ["--latencies", str(options.latencies), "--column", options.column]
        arguments += [part for condition in options.where for part in ("--where", condition)]
    return arguments


def _config(urls: dict[str, str], speed: float, *, delay: float) -> dict[str, object]:
    """The gateway's configuration; JSON is YAML, so it is written as JSON."""
    longest = max(1.0, LONGEST / speed)
    timeouts = {"first_token": longest, "stall": longest, "total": longest}
    connections = {"max": 4096, "queue": 4096}
    targets = {
        name: {"protocol": "openai", "base_url": f"{url}/v1", "connections": connections, "proxy": "off"}
        for name, url in urls.items()
    }
    routes = {
        PLAIN: {"targets": list(urls), "hedge": {"delay": "off"}, "timeouts": timeouts},
        HEDGED: {"targets": list(urls), "hedge": {"delay": delay / speed, "budget": "off"}, "timeouts": timeouts},
    }
    return {"targets": targets, "routes": routes, "server": {"log_level": "warning", "timeouts": {"drain": 1}}}
