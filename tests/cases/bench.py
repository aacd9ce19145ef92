"""A gateway process between two scripted upstreams, set up by a case's policy, and what it says of itself: the events
it writes down, and its admin API.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.cases.case import NAMES, Adaptive, Case, Name, Policy, Request
from tests.cases.client import ask
from tests.cases.seen import Breakers, Event
from tests.cases.upstream import Upstream
from tests.e2e.support import Config, GatewayProcess

_BASES = {"gemini": "/v1beta"}
_NEVER_HEDGED = ("/v1/batches", "/v1/files", "/v1/fine_tuning", "/v1/uploads")
_TOKEN = "the-token-of-the-case-runner"  # of a gateway that lives for seconds


class GatewayDown(Exception):
    """It did not start; what it said."""


def settings(policy: Policy, family: str, endpoints: tuple[str, ...], ports: dict[Name, int], log: Path) -> Config:
    """The configuration that a policy comes to: one route for every model, to `primary` and `backup`.

    Caps, breakers and what stops hedges in an outage are far away where the policy does not set them.
    """
    base = _BASES.get(family, "/v1")
    speaks = ["openai", "http"] if endpoints else [family]
    pool = {} if policy.pool_max_connections is msgspec.UNSET else {"max": policy.pool_max_connections}
    targets = {
        name: {
            "base_url": f"http://127.0.0.1:{port}{base}",
            "protocol": speaks,
            "connections": pool,
            "breaker": _breaker(policy),
            "price": {"input": 1, "output": 10},
            "proxy": "off",
        }
        for name, port in ports.items()
    }
    route = {
        "targets": list(NAMES),
        "hedge": {**_delay(policy), **_budget(policy), "outage": _outage(policy)},
        "failover": {"budget": "off"},
        "max_attempts": policy.max_attempts,
        "timeouts": {
            "total": _seconds(policy.total_timeout_ms),
            "first_token": _seconds(min(policy.ttft_timeout_ms, policy.total_timeout_ms)),
            "stall": _seconds(min(policy.idle_timeout_ms, policy.total_timeout_ms)),
        },
        "reasoning_counts": policy.reasoning_counts,
        **({"endpoints": list(endpoints)} if endpoints else {}),
    }
    server = {
        "listen": "127.0.0.1:0",
        "event_log": str(log),
        "log_level": "debug",
        "admin": {"token": _TOKEN},
    }
    return {"targets": targets, "routes": {"*": route}, "server": server}


def _seconds(milliseconds: float) -> str:
    return f"{float(milliseconds):g}ms"


def _delay(policy: Policy) -> Config:
    if policy.hedge_after_ms != "adaptive":
        return {"delay": _seconds(policy.hedge_after_ms)}
    adaptive = Adaptive() if isinstance(policy.adaptive, msgspec.UnsetType) else policy.adaptive
    return {
        "delay": "p95",
        "min_delay": _seconds(adaptive.min_ms),
        "warmup": {"samples": 1, "delay": _seconds(adaptive.initial_ms)},
    }


def _budget(policy: Policy) -> Config:
    """A number of tokens, once and for all: what a thousandth of an attempt per request adds is no whole one."""
    if isinstance(policy.hedge_budget_tokens, msgspec.UnsetType):
        return {"budget": "off"}
    return {"budget": "0.1%", "burst": policy.hedge_budget_tokens, "per_minute": 0}


def _breaker(policy: Policy) -> Config:
    """One that counts failures in a row, and nothing else."""
    breaker = policy.breaker
    keys: Config = {"failure_ratio": "off", "window": "1d"}
    if not isinstance(breaker, msgspec.UnsetType):
        keys["failures"] = breaker.failures
        if not isinstance(breaker.open_ms, msgspec.UnsetType):
            keys["open_for"] = _seconds(breaker.open_ms)
    return keys


def _outage(policy: Policy) -> Config:
    if isinstance(policy.throttle, msgspec.UnsetType):
        return {"max_tokens": 1000, "token_ratio": 1, "both_slow": "off"}
    throttle = policy.throttle
    return {"max_tokens": throttle.max_tokens, "token_ratio": throttle.token_ratio, "both_slow": "off"}


def setting_of(case: Case) -> tuple[bytes, str, tuple[str, ...]]:
    """What makes two cases need the same gateway: policy, API family, paths of a route's own."""
    family = case.protocol.partition(".")[0]
    endpoints: tuple[str, ...] = ()
    if family == "http":
        family = "openai"
        requests = [step.request for step in case.steps if not isinstance(step.request, msgspec.UnsetType)]
        paths = {request.path.partition("?")[0] for request in requests}
        endpoints = tuple(sorted(path for path in paths if not path.startswith(_NEVER_HEDGED)))
    return msgspec.json.encode(case.policy), family, endpoints


@dataclass
class Events:
    """Reads the event log as it grows."""

    path: Path
    all: list[Event] = field(default_factory=list)
    _read: int = 0

    def __call__(self) -> list[Event]:
        """Everything that has been written."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        self.all += map(json.loads, whole.splitlines())
        return self.all


class Bench:
    """One gateway and its two upstreams. An async context manager.

    `faults` tells, at the end, what the gateway process itself did wrong: a traceback in its log, a bad exit.
    """

    def __init__(self, case: Case, *, starting: asyncio.Lock) -> None:
        self._starting = (
            starting  # one gateway at a time: that takes a core, and cases that run meanwhile measure times
        )
        self.setting = setting_of(case)
        self._policy = case.policy
        self.upstreams: dict[Name, Upstream] = {name: Upstream(name) for name in NAMES}
        self.spoiled = False
        """It must not be used for another case."""
        self.faults = ""

    def fits(self, case: Case) -> bool:
        """Whether the case can run here: its expectation must follow from its bytes and the rules alone."""
        return case.sim and not self.spoiled and setting_of(case) == self.setting

    @property
    def open_sockets(self) -> int:
        """Connections from the gateway to its upstreams."""
        return sum(len(upstream.open) for upstream in self.upstreams.values())

    @property
    def log(self) -> str:
        """All that the gateway has written: its log and its events."""
        return self.gateway.log + self.events.path.read_text()

    async def breakers(self) -> Breakers:
        """Every breaker that has heard of an attempt, as the gateway's admin API shows it."""
        targets = (await self._operate("GET", "/targets"))["targets"]
        return {(target["name"], breaker["model"]): breaker for target in targets for breaker in target["breakers"]}

    async def learn(self) -> None:
        """Have a delay that is learned chosen anew: otherwise that is done every few seconds, which no case takes."""
        if self._policy.hedge_after_ms == "adaptive":
            for delay in ("off", None):  # None: as configured
                await self._operate("PATCH", "/routes/*", body={"delay": delay})

    async def _operate(self, method: str, path: str, **body: Any) -> Any:
        request = Request(
            method=method, path=f"/admin/api{path}", headers=[("authorization", f"Bearer {_TOKEN}")], **body
        )
        got = await ask(self.gateway.address, request, "", leave_after=None)
        assert got.status == 200, got.text
        return json.loads(got.body)

    async def __aenter__(self) -> Self:
        self._folder = await asyncio.to_thread(tempfile.TemporaryDirectory)
        self.events = Events(Path(self._folder.name) / "events.jsonl")
        for upstream in self.upstreams.values():
            await upstream.begin(upstream.script)
        ports = {name: upstream.port for name, upstream in self.upstreams.items()}
        config = settings(self._policy, self.setting[1], self.setting[2], ports, self.events.path)
        async with self._starting:
            try:
                self.gateway = await asyncio.to_thread(GatewayProcess, config)
            except AssertionError as error:
                await self._close()
                raise GatewayDown(str(error)) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.to_thread(self.gateway.__exit__, None, None, None)
        except AssertionError as fault:
            self.faults = str(fault)
        await self._close()

    async def _close(self) -> None:
        for upstream in self.upstreams.values():
            await upstream.close()
        await asyncio.to_thread(self._folder.cleanup)
