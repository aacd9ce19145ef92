"""The delay for an objective: hedge as late as the backup can still be expected to make it.

With X the primary's time and Y the backup's, s the objective and k the share of requests that should meet it,

    P(T <= s) = P(X <= s) + q * P(X > s) * P(Y <= s - delay | X > s)

A delay of s minus some fixed quantile of Y hedges too early where nearly all primaries make it anyway, and too late
where few do. Here that quantile is the one needed for k, but no less than the median: a hedge that is launched should
rather make it than not. Each prompt size is to reach k. Where the budget does not allow that, the sizes that need many
hedges all have to make do with the same share of their own, and use it as well as they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from hedgerow.policy.auto import Kind, hedged_by, shares_of
from hedgerow.policy.reissue import NEVER, Aim, Curve, Look, Reissue, Steps

_WORTH = 0.5
"""The least share of the late requests that hedging must bring in on time, where the budget allows it."""
_HALVINGS = 7
"""How closely the share that all have to make do with is looked for."""


def in_time(kinds: Sequence[Kind], correlation: float, seconds: float, aim: Aim) -> Steps[Sequence[Reissue]]:
    """How to have the share `aim.target` of requests answered within `seconds`, with hedges for `aim.budget` of them.

    Never, when the primary alone does, and when no backup could. `quantile` is `seconds` where it can be done, else
    `inf`.
    """
    weights = shares_of(kinds)
    known = []
    for kind in kinds:
        curve = Curve(kind.primary, kind.backup, correlation, aim)
        known.append((curve, curve.look(seconds)))
        yield
    low, high = aim.budget, 1.0
    found = [_best(curve, look, high, seconds, aim) for curve, look in known]
    if hedged_by(kinds, weights, found) <= aim.budget:
        return found
    for _ in range(_HALVINGS):
        yield
        middle = (low + high) / 2.0
        found = [_best(curve, look, middle, seconds, aim) for curve, look in known]
        low, high = (middle, high) if hedged_by(kinds, weights, found) <= aim.budget else (low, middle)
    return [_best(curve, look, low, seconds, aim) for curve, look in known]


def _best(curve: Curve, look: Look, share: float, seconds: float, aim: Aim) -> Reissue:
    needed = aim.target - look.answered
    if needed <= 0.0:
        return Reissue(*NEVER, seconds)
    gain, choice = curve.best(share, look, True, max(needed, _WORTH * (1.0 - look.answered)))
    return Reissue(*choice, seconds if gain >= needed else inf)
