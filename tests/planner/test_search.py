"""The search on small logs whose answer is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hedgerow.planner.config import policy_of
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.plan import Budget, Option, Outcome, Plan, Source
from hedgerow.planner.scene import places_of
from hedgerow.planner.search import Options, judge, plan

SOURCE = Source(
    files=("log.csv",),
    format="csv",
    columns=(),
    read=0,
    used=0,
    bad=(),
    notes=(),
    started_at=None,
    seconds=0.0,
    of_first_token=True,
)
FIVE = (Budget(share=0.05),)


def log_of(*ttft: Floats, names: Sequence[str] = ("one", "two"), tokens: Sequence[int] = (0,)) -> Log:
    """Ten requests a second, each asked of every target at once; inf has failed."""
    count, of = len(ttft[0]), len(ttft)
    took = np.stack(ttft, axis=1).ravel()
    return Log(
        at=np.repeat(np.arange(count) * 0.1, of),
        ttft=np.where(np.isfinite(took), took, np.nan),
        failed=~np.isfinite(took),
        input_tokens=np.resize(np.repeat(tokens, of), count * of),
        target=np.tile(np.arange(of), count),
        request=np.repeat(np.arange(count), of),
        targets=names[:of],
        timed=True,
        of_first_token=True,
    )


def lognormal(seed: int, count: int = 2_400) -> Floats:
    return np.random.default_rng(seed).lognormal(0.0, 1.0, count)


def planned(log: Log, budgets: Sequence[Budget] = FIVE, **options: object) -> Plan:
    return plan(log, SOURCE, Options(budgets=budgets, **options))  # type: ignore[arg-type]


def p99(outcome: Outcome) -> float:
    return next(each.value for each in outcome.quantiles if each.p == 0.99)


def only(found: Plan) -> Option:
    (option,) = found.routes[0].options
    return option


def test_a_heavy_tail_of_independent_attempts_pays_and_comes_near_the_arithmetic() -> None:
    found = planned(log_of(lognormal(1)))
    option = only(found)
    assert (option.choice.relation, found.routes[0].recommended) == ("same target", 0)
    assert option.pays
    assert p99(option.expected) == pytest.approx(p99(option.independent), rel=0.1)
    assert p99(option.expected) < 0.8 * p99(found.routes[0].without)
    assert option.oracle_p99 < p99(option.expected)
    assert option.expected.extra == pytest.approx(0.05, abs=0.01)


def test_what_is_tried_is_what_the_config_says() -> None:
    """The recommended config, judged like somebody's own, comes to what the plan expects."""
    log = log_of(lognormal(1))
    found = planned(log)
    option = only(found)
    again = judge(log, "one", places_of(["one", "one"]), policy_of(option.choice), Options())
    assert again == option.expected
