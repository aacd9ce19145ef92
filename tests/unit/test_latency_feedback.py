"""The model inside its loop: the delay it advises decides what it sees next. Simulated request by request."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

import pytest

from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.latency.distribution import straggles

REQUESTS, WARM = 20_000, 100
Draw = Callable[[Random], float]


class Loop:
    """One request after the other: a primary, a hedge after `delay`, the loser of a race broken off."""

    def __init__(
        self, primary: Draw, *, p: float, record_losers: bool = True, most: float = inf, seed: int = 1
    ) -> None:
        self.random, self.primary = Random(seed), primary
        self.p, self.most, self.record_losers = p, most, record_losers
        self.model = LatencyModel()
        self.now = 0.0
        self.hedges = 0
        self.took: list[float] = []
        self.delays: list[float] = []
        self.straggled = 0

    def run(self, requests: int = REQUESTS) -> Loop:
        for _ in range(requests):
            self.now += 0.1
            self.request(self.delay())
        return self

    def delay(self) -> float:
        known = self.model.first_token("primary", True, 500, self.now)
        if known is None:
            return inf
        self.straggled += straggles(known, self.p, self.most)
        return min(known.quantile(self.p), self.most)

    def request(self, delay: float) -> None:
        primary = self.primary(self.random)
        if primary <= delay:
            self.learn("primary", primary, False)
            self.took.append(primary)
            return
        self.hedges += 1
        self.delays.append(delay)
        hedge = self.random.lognormvariate(0, 1)
        took = min(primary, delay + hedge)
        self.took.append(took)
        self.learn("primary", took, took < primary)
        self.learn("backup", took - delay, took < delay + hedge)

    def learn(self, target: str, seconds: float, censored: bool) -> None:
        if self.record_losers or not censored:
            self.model.observe(target, True, 500, seconds, censored, self.now)


def lognormal(random: Random) -> float:
    return random.lognormvariate(0, 1)


def hanging(share: float) -> Draw:
    return lambda random: inf if random.random() < share else random.lognormvariate(0, 1)


@pytest.mark.parametrize("hang", [0.0, 0.02])
@pytest.mark.parametrize("p", [0.95, 0.9])
def test_a_setting_of_5_percent_hedges_5_percent(p: float, hang: float) -> None:
    loop = Loop(hanging(hang), p=p).run()
    assert loop.hedges / REQUESTS == pytest.approx(1 - p, abs=0.005)


@pytest.mark.parametrize(("hang", "hedges"), [(0.0, 0.107), (0.02, 0.128), (0.1, 0.197)])
def test_without_the_losers_it_would_hedge_11_to_20_percent(hang: float, hedges: float) -> None:
    """Why losers are recorded: the contrast, so that the test above is known to notice."""
    loop = Loop(hanging(hang), p=0.95, record_losers=False).run()
    assert loop.hedges / REQUESTS == pytest.approx(hedges, abs=0.005)


def test_the_backup_is_learned_without_bias_from_the_few_that_won_and_the_many_broken_off() -> None:
    known, winners = (
        loop.model.first_token("backup", True, 500, loop.now)
        for loop in (Loop(lognormal, p=0.8).run(), Loop(lognormal, p=0.8, record_losers=False).run())
    )
    assert known is not None
    assert winners is not None
    assert known.events < 0.6 * known.n
    assert known.quantile(0.5) == pytest.approx(1.0, rel=0.1)  # the median of what backups are drawn from
    assert winners.quantile(0.5) < 0.7


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_when_primaries_hang_it_says_so_and_the_delay_never_ratchets_up(share: float) -> None:
    loop = Loop(hanging(share), p=0.95, most=8.0).run()
    asked = REQUESTS - WARM
    assert loop.straggled > 0.99 * asked
    assert max(loop.delays) <= 8.0
    assert loop.hedges / REQUESTS == pytest.approx(share + (1 - share) * 0.0188, abs=0.01)  # P(lognormal > 8) = 0.0188
    known = loop.model.first_token("primary", True, 500, loop.now)
    assert known is not None
    assert known.quantile(0.5) < 2.5  # what is not a straggler is known as well as ever


def test_the_99th_percentile_stays_bounded_when_30_percent_hang() -> None:
    took = sorted(Loop(hanging(0.3), p=0.95, most=8.0).run().took[1000:])
    assert took[int(0.99 * len(took))] < 16.0  # 14.1 = 8 and what 1 in 30 backups exceeds


def test_straggling_ends_when_the_hanging_ends() -> None:
    loop = Loop(hanging(0.3), p=0.95, most=8.0).run(5_000)
    loop.primary = lognormal
    loop.run(1_500)
    loop.straggled = loop.hedges = 0
    loop.run(5_000)
    assert loop.straggled == 0
    assert loop.hedges / 5_000 == pytest.approx(0.05, abs=0.01)
