"""Servers that say how many requests they work on and how many tokens they have generated: llama.cpp, vLLM, SGLang.

Names as their documentation has them: llama.cpp tools/server/README.md (`GET /slots`, unless started with `--no-slots`;
`GET /metrics` with `--metrics`), docs.vllm.ai usage/metrics, docs.sglang.io references/production_metrics (with
`--enable-metrics`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from hedgerow.probe.witness import HALF, TOO_LATE, Cancelled, Get, Said, Ticks, Witness

QUIET = 3.0
"""Seconds to wait for others to be done, before an attempt."""
SETTLED = 1.0
"""Seconds without work after which the upstream has stopped, and does not just take its time to begin."""
MARGIN = 2.0
"""Seconds past the end of the whole answer until its tokens must be counted."""
PATIENCE = 30.0
"""Seconds past it that an answer is waited for which takes longer than it should and goes on."""
_STEP = 0.05
_FEW = 8
_TENTH = 0.1


class Look(msgspec.Struct, frozen=True):
    """What a server says now: requests that it works on or has waiting, and tokens generated so far in all."""

    busy: int
    tokens: int | None


Looker = Callable[[], Awaitable[Look | None]]
"""None: the server does not say."""


class GaugeWitness(Witness):
    """Judges by the requests under way, which must be ours alone, and the tokens generated.

    `live`: tokens are counted while they are generated; else when their answer is whole, and never those of one that
    was stopped.
    """

    def __init__(self, name: str, look: Looker, *, live: bool) -> None:
        self.name = name
        self._look = look
        self._live = live
        self._tokens: int | None = None
        self._made = 0
        """Tokens of the attempt by the first look after its cancel: of a whole answer nothing had come."""
        self._ours_until = 0.0
        """By when an answer of ours that went on is done."""
        self._clock = asyncio.get_running_loop().time

    async def before(self) -> str | None:
        """Wait until it is idle."""
        look: Look | None = None
        async for _ in Ticks(_STEP, max(self._clock() + QUIET, self._ours_until)):
            look = await self._look()
            if look is not None and look.busy == 0:
                self._tokens = look.tokens
                return None
        return "it says no more what it does" if look is None else f"it works on {look.busy} requests of others"

    async def after(self, cancelled: Cancelled) -> Said:
        """Look until it is idle, or has generated what was cancelled."""
        idle_since: float | None = None
        still_since, more, self._made = cancelled.at, 0, -1
        look: Look | None = None
        ticks = Ticks(_STEP, cancelled.ends_at + MARGIN)
        async for now in ticks:
            look = await self._look() or look
            if look is None:
                continue
            if look.busy > 1:
                return Said(None, f"it works on {look.busy} requests, so on others' too")
            before, more = more, self._more(look, cancelled)
            if more != before:
                still_since = now
                ticks.until = max(ticks.until, min(now + SETTLED + _STEP, cancelled.ends_at + PATIENCE))
            if more >= self._too_many(cancelled):
                self._ours_until = cancelled.ends_at + PATIENCE
                return Said(False, "", None, more)
            idle_since = None if look.busy else (now if idle_since is None else idle_since)
            if idle_since is not None and now - idle_since >= SETTLED:
                if cancelled.nearly_whole(self._made):
                    return Said(None, TOO_LATE)
                return Said(True, "", idle_since, more if self._live else None)
        return self._at_the_end(look, still=self._clock() - still_since, more=more)

    def _at_the_end(self, look: Look | None, *, still: float, more: int) -> Said:
        """It has been busy for as long as the whole answer would have taken."""
        if look is None:
            return Said(None, "it did not say what it does")
        if look.tokens is None:
            return Said(False, "it was busy for as long as the whole answer takes")
        if self._live and still >= SETTLED:
            return Said(True, "it says that it is busy, but generates nothing", None, more)
        return Said(None, "it says that it is busy, and has not counted the tokens")

    def _more(self, look: Look, cancelled: Cancelled) -> int:
        """Tokens generated since the cancel."""
        if look.tokens is None or self._tokens is None:
            return 0
        made = look.tokens - self._tokens
        if self._made < 0:
            self._made = max(made if self._live else 0, cancelled.tokens)
        return max(0, made - self._made)

    def _too_many(self, cancelled: Cancelled) -> float:
        """Tokens after the cancel that tell that it went on: nearly any, where only whole answers are counted."""
        rest = cancelled.rest(self._made)
        return HALF * rest if self._live else max(_FEW, _TENTH * rest)


_SAMPLE = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^\n]*\})? +([0-9.eE+-]+)(?: |$)", re.MULTILINE)


def samples(text: bytes) -> dict[bytes, float]:
    """A Prometheus page: the sum of each metric over its labels."""
    sums: dict[bytes, float] = {}
    for name, value in _SAMPLE.findall(text):
        sums[name] = sums.get(name, 0.0) + float(value)
    return sums


class Names(msgspec.Struct, frozen=True):
    """Which metrics of a server say what. `live` as in `GaugeWitness`."""

    server: str
    busy: tuple[bytes, ...]
    tokens: bytes
    live: bool


PAGES: Sequence[Names] = (
    Names(
        "vLLM's /metrics",
        (b"vllm:num_requests_running", b"vllm:num_requests_waiting"),
        b"vllm:generation_tokens_total",
        live=True,
    ),
    Names(
        "SGLang's /metrics",
        (b"sglang:num_running_reqs", b"sglang:num_queue_reqs"),
        b"sglang:generation_tokens_total",
        live=False,
    ),
    Names(
        "llama.cpp's /metrics",
        (b"llamacpp:requests_processing", b"llamacpp:requests_deferred"),
        b"llamacpp:tokens_predicted_total",
        live=False,
    ),
)


def page(get: Get, names: Names) -> Looker:
    """Looks at `GET /metrics`."""

    async def look() -> Look | None:
        text = await get("/metrics")
        found = {} if text is None else samples(text)
        if names.busy[0] not in found:
            return None
        tokens = found.get(names.tokens)
        busy = sum(found.get(name, 0.0) for name in names.busy)
        return Look(round(busy), None if tokens is None else round(tokens))

    return look


class _NextToken(msgspec.Struct):
    n_decoded: int = 0


class _Slot(msgspec.Struct):
    is_processing: bool
    id_task: int = -1
    next_token: list[_NextToken] | _NextToken | None = None


def slots(get: Get) -> Looker:
    """Looks at llama.cpp's `GET /slots`. The tokens of each task are added up as they come."""
    decoded: dict[int, int] = {}

    async def look() -> Look | None:
        body = await get("/slots")
        if body is None:
            return None
        try:
            found = msgspec.json.decode(body, type=list[_Slot])
        except msgspec.DecodeError:
            return None
        for slot in found:
            tokens = slot.next_token
            count = max((each.n_decoded for each in tokens), default=0) if isinstance(tokens, list) else 0
            count = tokens.n_decoded if isinstance(tokens, _NextToken) else count
            decoded[slot.id_task] = max(decoded.get(slot.id_task, 0), count)
        return Look(sum(slot.is_processing for slot in found), sum(decoded.values()))

    return look


async def gauges(get: Get) -> GaugeWitness | None:
    """The witness of a server that publishes such numbers; None where none does."""
    for names in PAGES:
        look = page(get, names)
        if await look() is not None:
            return GaugeWitness(names.server, look, live=names.live)
    look = slots(get)
    return None if await look() is None else GaugeWitness("llama.cpp's /slots", look, live=True)
