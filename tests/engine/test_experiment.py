"""The experiment finds what hedging does, and nothing where it does nothing, through the gateway's own hedger.

`python -m bench.experiment` does the same a hundred times over; docs/experiment.md has what came of it.
"""

from __future__ import annotations

from collections import Counter
from math import comb

import pytest
from bench.experiment import DELAY, experiment, hedged_survival, simulate, survival, truth

from hedgerow.events import Arm, Role
from hedgerow.policy.guards import place

RUNS, REQUESTS, HOLDOUT = 10, 5_000, 0.25
LEAST = 7
"""Of ten intervals at 95 %. Such as hold one time in four pass one time in three hundred."""


def test_the_bound_is_one_that_luck_does_not_pass() -> None:
    def passes(p: float) -> float:
        return sum(comb(RUNS, held) * p**held * (1 - p) ** (RUNS - held) for held in range(LEAST, RUNS + 1))

    assert passes(0.25) < 0.004
    assert passes(0.95) > 0.998


@pytest.mark.parametrize("shadow", [False, True], ids=["on", "shadow"])
def test_intervals_hold_what_is_true_and_the_verdict_follows(shadow: bool) -> None:
    held: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for seed in range(RUNS):
        found = experiment(REQUESTS, HOLDOUT, seed, shadow=shadow)
        held.update(name for name, yes in found.held.items() if yes)
        verdicts[found.verdict] += 1
    assert set(held) == {"p50", "p90", "p95", "p99"}
    assert min(held.values()) >= LEAST, held
    if shadow:
        assert verdicts["pays"] <= 1, verdicts
    else:
        assert verdicts["pays"] >= LEAST, verdicts


def test_there_is_something_to_be_found() -> None:
    assert truth(99.0, shadow=False).change == pytest.approx(-0.4707, abs=1e-4)
    assert truth(99.0, shadow=True).change == 0.0


def test_the_closed_form_is_what_the_race_does() -> None:
    """A share of 4,000 has a standard error of at most 0.8 percent."""
    requests = simulate(8_000, 0.5, 3, shadow=False)
    for arm, law in ((Arm.HEDGED, hedged_survival), (Arm.HOLDOUT, survival)):
        times = [(each.first_token_at or 0.0) - each.started_at for each in requests if each.arm is arm]
        for t in (0.5, 1.0, 2.0, DELAY, 5.0, 6.0, 8.0, 12.0):
            assert sum(time > t for time in times) / len(times) == pytest.approx(law(t), abs=0.025)


def test_nobody_who_is_held_out_is_hedged_and_everybody_is_somewhere() -> None:
    requests = simulate(5_000, 0.2, 4, shadow=False)
    arms = [Arm.HOLDOUT if place(f"seed-4-{i}", b"holdout") < 200_000 else Arm.HEDGED for i in range(5_000)]
    assert [each.arm for each in requests] == arms
    assert {each.arm for each in requests if any(one.role is Role.HEDGE for one in each.attempts)} == {Arm.HEDGED}
