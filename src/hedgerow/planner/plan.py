"""What `hedgerow plan` has found out: plain data, from which the terminal, the page and the JSON are made.

Times are seconds, shares are of requests, money is US dollars. None: not known, or not worked out.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hedgerow.planner.quantiles import Quantile
from hedgerow.planner.statistics import Pairing, TargetStatistics

Relation = Literal["same target", "other target", "other tier"]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. `columns`: each field with the column that was taken for it, and its unit in words.

    `started_at`: Unix time of the first request, None where the log has no times; `seconds`: from first to last.
    `bad`: rows that could not be used, by reason. `notes`: what its reader has assumed.
    """

    files: tuple[str, ...]
    format: str
    columns: tuple[tuple[str, str, str], ...]
    read: int
    used: int
    bad: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]
    started_at: float | None
    seconds: float
    of_first_token: bool


class Finding(msgspec.Struct, frozen=True):
    """Something to know before one hedges. `name` is for scripts: `small_tail`, `few_samples`, `correlated`, ..."""

    name: str
    severity: Literal["note", "warning", "stop"]
    target: str | None
    text: str
    """One or two sentences, with the numbers."""


class Budget(msgspec.Struct, frozen=True):
    """Extra attempts as a share of requests, or extra dollars per 1,000 requests: one of them."""

    share: float | None = None
    usd_per_1000: float | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A way to hedge. `delay` as a config writes it: `1.25s`, `p95`, `auto`, `off`.

    `probability`: that a request still without an answer then is hedged. `by_size`: of each prompt size its smallest
    number of tokens, the delay there and the probability (empty: the same for all); where a rule learns, what it had
    come to at the end of the log. `config`: the route's keys that are to differ from their defaults, and how their
    values are written, such as `hedge.delay` and `auto`, `hedge.budget` and `5%`, `timeouts.first_token` and `2m`.
    """

    primary: str
    backup: str
    relation: Relation
    delay: str
    probability: float = 1.0
    by_size: tuple[tuple[int, float, float], ...] = ()
    config: tuple[tuple[str, str], ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of requests. `extra`: hedges per request; `usd_per_1000`: of hedges, more than without.

    `quantiles` are of requests that are answered. `of_all`: the target quantile of all of them, a failure slower than
    any answer; without bound where it falls on one.
    """

    requests: int
    failed: float
    quantiles: tuple[Quantile, ...]
    of_all: float
    extra: float
    failovers: float = 0.0
    usd_per_1000: float | None = None


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """The best way to hedge within a budget, fitted on the first part of the log and judged on the rest.

    `fitted`: the engine on the part it was chosen by; `expected`: the engine on the rest; `independent`: arithmetic
    there, with hedges that know nothing of the slow spell (optimistic); `oracle_p99`: of who knows all times
    beforehand, a bound that no way to spend as many hedges can beat.
    `stale_p99`: on the rest, by arithmetic within the budget, of the fixed delay that the first part set and nobody
    renewed.
    """

    budget: Budget
    choice: Choice
    fitted: Outcome
    expected: Outcome
    independent: Outcome
    oracle_p99: float
    stale_p99: float | None = None
    pays: bool
    why: str


class Cell(msgspec.Struct, frozen=True):
    """One field of the heat map: a fixed delay within a budget, by the fast estimate."""

    delay: float
    budget: float
    p99: float
    extra: float


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the log under the recommended option, for the timeline. Seconds from its start."""

    start: float
    seconds: float
    requests: int
    hedges: int
    failed: int
    p99_before: float
    p99_after: float


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A primary, and what hedging would do for its requests. `without`: the engine with hedging off, on the same part.

    `recommended`: an index into `options`; None: do not hedge, and `verdict` says why.
    `curves`: of each of `primary` and backups, and of the recommended option, points (seconds, share that is slower).
    """

    primary: str
    requests: int
    fitted_on: int
    judged_on: int
    without: Outcome
    options: tuple[Option, ...]
    recommended: int | None
    verdict: str
    heat: tuple[Cell, ...]
    timeline: tuple[Span, ...]
    curves: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="hedgerow.plan/1"):
    """All of it. Same log, seed and version: the same bytes. A number that is not known, or without bound, is null.

    `schema`: changes where a field is taken away or means another thing; one more field is no change.
    """

    version: str
    seed: int
    target_quantile: float
    source: Source
    targets: tuple[TargetStatistics, ...]
    pairings: tuple[Pairing, ...]
    findings: tuple[Finding, ...]
    routes: tuple[Route, ...]
