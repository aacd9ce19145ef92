"""From what was gathered to what is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

import hedgerow
from hedgerow.events import Arm as Which
from hedgerow.report import comparing
from hedgerow.report import statistics as stats
from hedgerow.report.advice import Configured, advise
from hedgerow.report.comparing import Dice, shown
from hedgerow.report.facts import Request
from hedgerow.report.gathering import RouteTally, Side, TargetTally, gather
from hedgerow.report.result import SCHEMA, Arm, Estimated, Moment, Percentile, Pooled, Report, Route, Target
from hedgerow.report.verdict import verdict
from hedgerow.report.words import pnn

MOMENTS = 60
"""Points in time, at most."""
_STEPS = (60, 300, 900, 3_600, 14_400, 86_400, 604_800)
"""Seconds between two of them."""


class Analysis(msgspec.Struct, frozen=True):
    """The report, and by route what its plots are drawn from."""

    report: Report
    tallies: Mapping[str, RouteTally]


def analyse(
    requests: Iterable[Request],
    seed: int,
    *,
    configured: Mapping[str, Configured] | None = None,
    since: float | None = None,
    until: float | None = None,
) -> Analysis:
    """Of requests that are over. `configured`: what routes say now, where a configuration is known."""
    tallies = gather(requests)
    routes = [_route(name, tally, seed, (configured or {}).get(name)) for name, tally in tallies.items()]
    report = Report(
        schema=SCHEMA,
        hedgerow=hedgerow.__version__,
        seed=seed,
        level=stats.LEVEL,
        since=since,
        until=until,
        routes=routes,
        pooled=_pooled(tallies, routes, seed),
    )
    return Analysis(report, tallies)


def sides_of(tally: RouteTally) -> tuple[Side, Side | None]:
    """Those that are hedged, and those held out. Without an experiment all requests are the former."""
    holdout = tally.sides.get(Which.HOLDOUT)
    if holdout is None and Which.HEDGED not in tally.sides:
        return tally.sides[None], None
    return tally.sides.get(Which.HEDGED) or Side(), holdout


def _route(name: str, tally: RouteTally, seed: int, configured: Configured | None) -> Route:
    hedged, holdout = sides_of(tally)
    dice = Dice(seed, name)
    first = comparing.percentiles("first_token", hedged, holdout, dice)
    cost = comparing.cost(hedged, holdout, dice)
    counts = hedged.requests, 0 if holdout is None else holdout.requests
    share = None if configured is None or not configured.holdout else configured.holdout
    mismatch = None if share is None or holdout is None else stats.mismatch(counts, share)
    return Route(
        name=name,
        verdict=verdict(first, cost, counts, mismatch),
        advice=advise(tally, hedged, first, cost, configured, mismatch),
        since=tally.since,
        until=tally.until,
        holdout_share=share,
        mismatch=mismatch,
        hedged=_arm(hedged),
        holdout=None if holdout is None else _arm(holdout),
        not_taking_part=tally.sides[None].requests if None in tally.sides and tally.sides[None] is not hedged else 0,
        first_token=first,
        total=comparing.percentiles("total", hedged, holdout, dice),
        hedge_rate=hedged.hedges / max(hedged.requests, 1),
        win_rate=hedged.wins / hedged.hedges if hedged.hedges else None,
        cost=cost,
        targets=[_target(each, told) for each, told in sorted(tally.targets.items())],
        timeline=_timeline(hedged),
    )


def _arm(side: Side) -> Arm:
    share = Estimated(side.failed / max(side.requests, 1), shown(stats.wilson(side.failed, side.requests)))
    return Arm(
        requests=side.requests,
        failed=side.failed,
        failed_share=share,
        refused=side.refused,
        left=side.left,
        hedges=side.hedges,
        hedge_wins=side.wins,
        failovers=side.failovers,
        skipped=dict(sorted(side.skipped.items())),
    )


def _target(name: str, told: TargetTally) -> Target:
    times = told.first_token
    return Target(
        name=name,
        attempts=dict(sorted(told.roles.items())),
        outcomes=dict(sorted(told.outcomes.items())),
        hedges_won=sum(count for role, count in told.won_as.items() if role in ("hedge", "racer")),
        first_token_p50=stats.quantile(times, 0.5) if len(times) else None,
        first_token_p99=stats.quantile(times, 0.99) if len(times) else None,
        nanousd=told.nanousd,
        nanousd_lost=told.wasted,
    )


def _timeline(side: Side) -> Sequence[Moment]:
    """Even steps of a round length, those without requests left out."""
    if not side.requests:
        return []
    at = np.frombuffer(side.at, np.float64)
    launched, won = (np.frombuffer(each, np.uint16) for each in (side.launched, side.won))
    span = float(at.max() - at.min())
    step = next((each for each in _STEPS if span / each < MOMENTS), _STEPS[-1])
    place = np.floor_divide(at, step).astype(np.int64)
    moments = []
    for one in np.unique(place):
        which = place == one
        requests, hedges, wins = int(which.sum()), int(launched[which].sum()), int(won[which].sum())
        moments.append(Moment(float(one * step), requests, hedges / requests, wins / hedges if hedges else None))
    return moments


def _pooled(tallies: Mapping[str, RouteTally], routes: Sequence[Route], seed: int) -> Pooled | None:
    those = [each for each in routes if each.holdout is not None and each.hedged.requests]
    if len(those) < 2:
        return None
    return Pooled(
        routes=[each.name for each in those],
        first_token=_together("first_token", tallies, those, seed),
        total=_together("total", tallies, those, seed),
    )


def _together(
    what: str, tallies: Mapping[str, RouteTally], routes: Sequence[Route], seed: int
) -> Mapping[str, Estimated]:
    """The mean change of each percentile that all of the routes have an interval for."""
    weights = np.array([tallies[each.name].sides[Which.HEDGED].requests for each in routes], np.float64)
    weights /= weights.sum()
    found = {}
    for place, q in enumerate(comparing.QUANTILES):
        each: list[Percentile] = [getattr(route, what)[place] for route in routes]
        known = [one.change.value for one in each if one.change is not None and one.change.interval is not None]
        if len(known) < len(routes):
            continue
        drawn = np.zeros(stats.REPLICATES)
        for weight, route in zip(weights, routes, strict=True):
            hedged, holdout = (tallies[route.name].sides[which] for which in (Which.HEDGED, Which.HOLDOUT))
            drawn += weight * comparing.replicates(what, q, hedged, holdout, Dice(seed, route.name))
        mean = float(np.dot(weights, known))
        found[pnn(each[0].percentile)] = Estimated(mean, shown(stats.interval(drawn)))
    return found
