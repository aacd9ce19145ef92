"""One probe of one target: a call that is finished, some that are cancelled in each phase, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import msgspec

from hedgerow.gateway.blueprint import TargetBlueprint
from hedgerow.gateway.build import Site
from hedgerow.gateway.parts import Pooled
from hedgerow.http.client_settings import Origin
from hedgerow.probe.asking import Asking
from hedgerow.probe.attempts import Attempts
from hedgerow.probe.calling import WatchedPool
from hedgerow.probe.result import Finding, Level, Phase, Result
from hedgerow.probe.side import witness_of
from hedgerow.probe.witness import Cancelled, Said, Witness
from hedgerow.wire.base import Family


class Job(msgspec.Struct, frozen=True):
    """What is to be probed: a target as the gateway knows it, the API and the model to use.

    `calls` are cancelled in each phase, with answers of at most `tokens` tokens.
    """

    name: str
    target: TargetBlueprint
    family: Family
    model: str
    calls: int = 1
    tokens: int = 400


Say = Callable[[str], None]
"""Told of each step, in words."""


async def run(job: Job, at: datetime, say: Say) -> Result:
    """Probe, at this time. Raises `ProbeFailed` when the target does not answer as it should."""
    origin, settings = Origin.of(job.target.base_url), job.target.pool
    pool = WatchedPool(origin, settings, asyncio.get_running_loop())
    try:
        site = Site(job.name, job.target, Pooled(pool, origin, settings, None))
        attempts = Attempts(job.name, Asking(job.target, site, job.family, job.model), pool)
        pace = await attempts.finish()
        witness = await witness_of(job.target, pool, job.family)
        who = "nobody upstream can tell" if witness is None else f"{witness.name} can tell"
        say(f"first token after {pace.first_token:.2f} s; {who} whether it stops")
        findings = []
        for phase in Phase:
            for _ in range(job.calls):
                findings.append(await _try(attempts, phase, job.tokens, witness))
                say(_told(findings[-1]))
    finally:
        await pool.close()
    return Result(
        at=at,
        base_url=job.target.base_url,
        model=job.model,
        protocol=job.family,
        witness=None if witness is None else witness.name,
        first_token=round(pace.first_token, 4),
        token_gap=round(pace.gap, 5),
        findings=findings,
    )


async def _try(attempts: Attempts, phase: Phase, tokens: int, witness: Witness | None) -> Finding:
    blind = None if witness is None else await witness.before()
    cancelled = await attempts.cancel(phase, tokens)
    if isinstance(cancelled, str):
        return Finding(phase=phase, level=Level.UNKNOWN, note=cancelled)
    said = Said(None)
    if witness is not None:
        said = Said(None, blind) if blind is not None else await witness.after(cancelled)
    return _finding(phase, cancelled, said)


def _finding(phase: Phase, cancelled: Cancelled, said: Said) -> Finding:
    closed = cancelled.closed_after is not None
    level = Level.CONFIRMED if said.stopped is not None else Level.CLOSED if closed else Level.UNKNOWN
    sent = cancelled.heard.sent_at
    noticed = None if said.noticed_at is None else max(0.0, said.noticed_at - cancelled.at)
    return Finding(
        phase=phase,
        level=level,
        stopped=said.stopped,
        cancelled_after=None if sent is None else _brief(cancelled.at - sent),
        closed_after=_brief(cancelled.closed_after),
        noticed_after=_brief(noticed),
        tokens_before=cancelled.tokens,
        tokens_after=said.tokens_after,
        note=said.note,
    )


def _brief(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _told(finding: Finding) -> str:
    what = {True: "it stopped", False: "it went on", None: "it is not known whether it stopped"}[finding.stopped]
    return f"{finding.phase}: {finding.level}, {what}" + (f" ({finding.note})" if finding.note else "")
