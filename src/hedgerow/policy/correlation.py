"""How much the times of two attempts of one request go together, learned from hedges that have run.

A hedged request shows one of its two times only: the winner cancels the other, which is then "at least that long".
Kendall's or Spearman's statistics of such pairs are far off, as each pair is cut where the other half of it ended, and
all of them begin with a slow primary. What each pair says for sure is a conditional probability, that the loser took
longer than it ran, given the winner's time. With normal scores z of ranks, and correlation r,

    P(loser longer | winner) = Phi((r * z(winner) - z(loser so far)) / sqrt(1 - r^2))

The r under which these are most probable together is the maximum likelihood estimate, and that only hedged requests
are seen does not bias it, since how long a primary takes at all does not depend on r. Both times known: the density of
the pair. Robust: each pair may be a stranger with a small probability, so that none counts without bound.
"""

from __future__ import annotations

from math import erfc, exp, log, sqrt

from hedgerow.policy.copula import STRONGEST, score

SAME_PROVIDER = 0.3
OTHER_PROVIDER = 0.15
"""What is assumed before any pair is known: attempts at one provider share more of what makes them slow."""

WINDOW = 500.0
"""Pairs that are remembered: an older one counts less by a factor of 1 - 1/WINDOW for each that came since."""

_STEP = 0.05
_GRID = tuple(_STEP * node for node in range(round(STRONGEST / _STEP) + 1))
_SPREADS = tuple(sqrt(1.0 - r * r) for r in _GRID)
_DOUBT = 0.15
"""How far from the assumed correlation a real one usually is; how much the pairs must say against it."""
_AGAINST = 2.0
"""How much less probable than the best one (a logarithm) a correlation is spoken against: two standard deviations."""
_STRANGER = 0.02
"""How many pairs are taken to be what no correlation explains."""
_TELLS = 0.02
"""A loser that was cancelled before this share of its like had answered tells nothing."""
_EXTREME = 3.0
"""Scores are kept within this, about one in a thousand: windows know no more of their tails."""


def assumed(*, same_provider: bool) -> float:
    """The correlation to start from."""
    return SAME_PROVIDER if same_provider else OTHER_PROVIDER


class Pairs:
    """The correlation of a primary target and a backup, as the parameter of a Gaussian copula.

    Constant memory: how probable the pairs are under each of 20 correlations. An observation takes some 10 us.
    """

    __slots__ = ("_keeps", "_likelihoods", "_prior", "count")

    def __init__(self, prior: float, window: float = WINDOW) -> None:
        """`prior` in [0, `STRONGEST`], `window` at least 1; raises `ValueError` for others."""
        if not 0.0 <= prior <= STRONGEST:
            raise ValueError(f"prior must be in [0, {STRONGEST}]")
        if not window >= 1.0:
            raise ValueError("window must be at least 1")
        self._prior = prior
        self._keeps = 1.0 - 1.0 / window
        self._likelihoods = [0.0] * len(_GRID)
        self.count = 0.0
        """Pairs that told something, the older ones counting less."""

    def observe(self, primary: float, hedge: float, *, primary_done: bool, hedge_done: bool) -> bool:
        """Learn from a hedged request; whether it told anything.

        `primary` and `hedge`: the shares of such attempts that take no longer than these two did, each from its own
        start (`Law.cdf` of the elapsed time). `done`: a first token came. Not done: cancelled then, being slower.
        Attempts that failed are no pairs.
        """
        if not (primary_done or hedge_done) or not (0.0 <= primary <= 1.0 and 0.0 <= hedge <= 1.0):
            return False
        if (not hedge_done and hedge < _TELLS) or (not primary_done and primary < _TELLS):
            return False
        a, b = _bounded(score(primary)), _bounded(score(hedge))
        if primary_done and hedge_done:
            found = [_log_density(a, b, r, s) for r, s in zip(_GRID, _SPREADS, strict=True)]
        else:
            winner, loser = (a, b) if primary_done else (b, a)
            found = [_log_longer(winner, loser, r, s) for r, s in zip(_GRID, _SPREADS, strict=True)]
        keeps = self._keeps
        self._likelihoods = [keeps * known + new for known, new in zip(self._likelihoods, found, strict=True)]
        self.count = keeps * self.count + 1.0
        return True

    def estimate(self) -> float:
        """The most probable correlation in [0, `STRONGEST`]; the prior as long as no pair has told anything.

        The prior is a normal distribution, so pairs outweigh it as they become more, and the sooner the more they tell.
        """
        values = self._values()
        top = max(range(len(values)), key=values.__getitem__)
        inner = min(max(top, 1), len(values) - 2)
        below, here, above = values[inner - 1 : inner + 2]
        bend = below - 2.0 * here + above
        peak = _GRID[inner] + (_STEP * (below - above) / (2.0 * bend) if bend < 0.0 else _STEP * (top - inner))
        return min(max(peak, 0.0), STRONGEST)

    def least(self) -> float:
        """The smallest correlation that the pairs, and what was assumed before any, do not speak against."""
        values = self._values()
        bound = max(values) - _AGAINST
        return next(r for r, value in zip(_GRID, values, strict=True) if value >= bound)

    def _values(self) -> list[float]:
        """How probable each of the grid's correlations is: the logarithm, less a number that is the same for all."""
        scale = 2.0 * _DOUBT * _DOUBT
        return [known - (r - self._prior) ** 2 / scale for r, known in zip(_GRID, self._likelihoods, strict=True)]


def _bounded(z: float) -> float:
    return min(max(z, -_EXTREME), _EXTREME)


def _log_longer(winner: float, loser: float, r: float, spread: float) -> float:
    longer = erfc((loser - r * winner) / (spread * sqrt(2.0))) / 2.0
    stranger = erfc(loser / sqrt(2.0)) / 2.0
    return log((1.0 - _STRANGER) * longer + _STRANGER * stranger)


def _log_density(a: float, b: float, r: float, spread: float) -> float:
    together = exp((2.0 * r * a * b - r * r * (a * a + b * b)) / (2.0 * spread * spread)) / spread
    return log((1.0 - _STRANGER) * together + _STRANGER)
