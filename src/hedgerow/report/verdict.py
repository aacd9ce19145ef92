"""Whether hedging pays, in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log

from hedgerow.report import statistics as stats
from hedgerow.report.result import Cost, Percentile, Range, Verdict
from hedgerow.report.words import about, between, money, percent, pnn, seconds

JUDGED = 99.0
"""The percentile of the time to the first token that is judged."""
WORTH = 0.05
"""Hedging that cuts it by less is not worth its trouble."""
UNLIKELY = 0.001
"""Sides whose numbers are less likely than this are not what was asked for, and no fair comparison."""


def verdict(percentiles: Sequence[Percentile], cost: Cost, counts: tuple[int, int], mismatch: float | None) -> Verdict:
    """`counts`: requests hedged and held out. `mismatch`: how likely those numbers are."""
    if not counts[0]:
        return Verdict(word="no_verdict", text="no verdict: all requests were held out, or none could be hedged")
    if not counts[1]:
        text = "no verdict: there is no experiment (experiment.holdout), so nothing tells what would have been without"
        return Verdict(word="no_verdict", text=text)
    if mismatch is not None and mismatch < UNLIKELY:
        text = "no verdict: the sides are not as large as configured, so something else than chance made them"
        return Verdict(word="no_verdict", text=text)
    judged = next(each for each in percentiles if each.percentile == JUDGED)
    if judged.change is None or judged.change.interval is None:
        return _too_few(judged, counts)
    found, interval = judged.change.value, judged.change.interval
    what = f"{pnn(judged.percentile)} of the first token is {seconds(judged.hedged)} with hedging"
    what += f" and {seconds(judged.holdout)} without, {_cut(found)} ({_cuts(interval)})"
    if interval.low is not None and interval.low > -WORTH:
        slower = interval.low >= 0.0
        why = "so it is slower" if slower else f"so it is not {percent(WORTH)} shorter"
        return Verdict(word="does_not_pay", text=f"does not pay: {what}, {why}{_price(cost, None)}")
    if interval.high is not None and interval.high < 0.0:
        return Verdict(word="pays", text=f"pays: {what}{_price(cost, found)}")
    more = more_requests(found, interval, sum(counts))
    text = f"not enough data: {what}, which may be chance"
    if more is not None:
        text += f"; about {more:,} more requests should tell"
    return Verdict(word="not_enough_data", text=text, more_requests=more)


def _too_few(judged: Percentile, counts: tuple[int, int]) -> Verdict:
    which, share = pnn(judged.percentile), counts[1] / sum(counts)
    if judged.change is None:  # either side has none
        lacking = percent(1.0 - judged.percentile / 100.0)
        text = f"not enough data: more than {lacking} of the requests have no first token, so there is no {which}"
        return Verdict(word="not_enough_data", text=text)
    more = about(max(judged.more_holdout, 1) / share)
    text = f"not enough data: about {more:,} more requests until {which} of those held out can be told from chance"
    return Verdict(word="not_enough_data", text=text, more_requests=more)


def more_requests(found: float, interval: Range, requests: int) -> int | None:
    """How many more it takes, with the same shares, to say "pays" or "does not" in four cases of five.

    That is if what was found is so. Standard errors shrink with the root of the number of requests. None where the
    interval has no end.
    """
    if interval.low is None or interval.high is None or min(interval.low, found) <= -1.0:
        return None
    error = (log(1.0 + interval.high) - log(1.0 + interval.low)) / (2.0 * stats.Z)
    effect = log(1.0 + found)
    far = max(-effect, effect - log(1.0 - WORTH))  # from no effect, or from one that is worth its trouble
    needed = requests * (error * (stats.Z + stats.POWER) / far) ** 2
    return about(max(ceil(needed) - requests, 1))


def _cut(change: float) -> str:
    return f"{percent(abs(change))} {'shorter' if change <= 0 else 'longer'}"


def _cuts(interval: Range | None) -> str:
    return f"{percent(stats.LEVEL)} interval {between(interval)}"


def _price(cost: Cost, found: float | None) -> str:
    """What it cost, where that is known: as the sides differ, whoever won, else what the losers came to."""
    more = cost.measured_change
    if more is None:
        return "" if cost.share is None else f", for {percent(cost.share)} on top of the bill by attempts that lost"
    words = (
        f", for {percent(abs(more.value))} {'more' if more.value >= 0 else 'less'} per request ({_cuts(more.interval)})"
    )
    if found is not None and (price := cost.measured_per_second) is not None and price.value > 0.0:
        words += f", {money(price.value)} for each second saved"
    return words
