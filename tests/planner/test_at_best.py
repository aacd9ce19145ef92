"""The bound that a plan calls *at best*: no way to hedge does better, whatever happens to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.planner.config import policy_from, watches_of
from hedgerow.planner.judging import at_best
from hedgerow.planner.log import Log
from hedgerow.planner.scene import Backup, Scene, scene_of
from hedgerow.planner.trial import Flown, Trial, fly, outcome_of
from hedgerow.planner.verdict import value_at
from hedgerow.policy.settings import Policy
from hedgerow.units import show_percent

COUNT = 300


def scene(seed: int, failing: float) -> Scene:
    """Two targets that fail now and then, each failure after 10 s; one is out for a while."""
    chance = np.random.default_rng(seed)
    took = chance.lognormal(0.0, 1.0, 2 * COUNT)
    failed = chance.random(2 * COUNT) < failing
    failed[400:480:2] = True
    log = Log(
        at=np.arange(2.0 * COUNT) // 2 * 0.1,
        ttft=np.where(failed, np.nan, took),
        failed=failed,
        input_tokens=np.zeros(2 * COUNT, dtype=np.int64),
        target=np.arange(2 * COUNT) % 2,
        request=np.full(2 * COUNT, -1),
        targets=["one", "two"],
        timed=True,
        of_first_token=True,
        failed_after=np.where(failed, 10.0, np.nan),
    )
    found = scene_of(log, 0, seed=seed, draws=2)
    assert found is not None
    return found


def flights(of: Scene, backup: Backup, policy: Policy) -> Sequence[Flown]:
    places, watches = of.places(backup), watches_of(["one", "two"])
    return [
        fly(
            Trial(
                policy,
                places,
                (of.own, near),
                (of.failing, backup.failing),
                of.primary.at,
                of.primary.input_tokens,
                number,
                watches=watches,
            )
        )
        for number, near in enumerate(backup.near)
    ]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1_000),
    delay=st.sampled_from(["0s", "0.5s", "2s", "p90", "p50", "auto", "off"]),
    share=st.sampled_from([0.01, 0.05, 0.2, 1.0]),
    burst=st.sampled_from(["1", "50"]),
    failing=st.sampled_from([0.0, 0.05, 0.5]),
    target=st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_no_way_does_better(seed: int, delay: str, share: float, burst: str, failing: float, target: float) -> None:
    keys = {"hedge.delay": delay, "hedge.budget": show_percent(share), "hedge.per_minute": "0", "hedge.burst": burst}
    there = scene(seed, failing)
    for backup in there.backups:
        flown = flights(there, backup, policy_from(keys))
        judged = outcome_of([each.part(slice(there.split, None)) for each in flown], target)
        assert at_best(there, backup, flown, share, target) <= value_at(judged, target) * (1.0 + 1e-9)


def test_hedges_beyond_the_budget_are_counted() -> None:
    """A way may begin with as many hedges as may start at once: here 30 of the 150 that are judged, for 1 %."""
    there = scene(2, 0.0)
    backup, rest = there.backups[1], slice(there.split, None)
    plain, flown = [], []
    for near in backup.near:
        first = there.with_failover(near)
        slowest = there.split + np.argsort(-first[rest], kind="stable")[:30]
        none = np.zeros(COUNT, dtype=np.int64)
        hedges = none.copy()
        hedges[slowest] = 1
        plain.append(Flown(first, none, none, none, ()))
        flown.append(Flown(np.where(hedges > 0, np.minimum(first, near), first), hedges, none, none, ()))
    reached = value_at(outcome_of([each.part(rest) for each in flown], 0.9), 0.9)
    assert at_best(there, backup, flown, 0.01, 0.9) == at_best(there, backup, flown, 0.2, 0.9) <= reached
    assert at_best(there, backup, plain, 0.01, 0.9) > reached


def test_it_is_reached_where_all_may_be_hedged_at_once() -> None:
    there = scene(1, 0.0)
    keys = {"hedge.delay": "0s", "hedge.min_delay": "0s", "hedge.budget": "100%", "hedge.burst": "500"}
    (backup,) = (each for each in there.backups if each.name == "two")
    flown = flights(there, backup, policy_from(keys))
    took = [np.minimum(there.own, near)[there.split :] for near in backup.near]
    every = np.sort(np.concatenate(took))
    assert at_best(there, backup, flown, 1.0, 0.9) == every[int(np.ceil(len(every) * 0.9)) - 1] < inf
