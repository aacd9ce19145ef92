"""What became of forecasts, in words and tables: Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite

from bench.eval_forecast import NEAR, NOTHING, SLOW, Figure, Forecast
from bench.eval_report import percent, table
from bench.eval_rounds import LATE, PUBLISHED, Rounds
from hedgerow.demo.report import seconds

Show = Callable[[float], str]

_HEAD = (
    *("stream", "records", "budget", "hedged after", "pays", "p99 alone", "p99 forecast", "came", "ratio"),
    *("extra forecast", "came", "ratio", "verdict", "if independent", "other neighbours"),
)
_COUNT_HEAD = ("of the rows", "all", "within 10 %", "by chance", "off")
_ROUNDS_HEAD = ("hedged", "p50", "p95", f"over {LATE:g} s", "hedges", "published")


def report(rows: Sequence[Forecast], rounds: Mapping[str, Rounds] | None) -> str:
    """All tables, and what they mean."""
    parts = [f"# A plan of the first half, and what came of it in the second\n\n{_ABOUT}"]
    for at_length, title in ((True, "At length"), (False, "As recorded")):
        those = [one for one in rows if one.at_length is at_length]
        if those:
            idle = list(dict.fromkeys(one.stream for one in those if _idle(one)))
            said = f"\n\nNobody hedges there, as forecast: {', '.join(idle)}." if idle else ""
            busy = table(_HEAD, (_row(one) for one in those if not _idle(one)))
            parts.append(f"## {title}\n\n{table(_COUNT_HEAD, _counts(those))}\n\n{busy}{said}")
    if rounds is not None:
        parts.append(f"## The rounds of gpuhedge\n\n{table(_ROUNDS_HEAD, map(_round, rounds.items()))}")
    return "\n\n".join(parts)


_ABOUT = f"""Forecast: what `hedgerow plan` expects, of the first half of the log. Came: the engine with the same
configuration on the second half, and between what that is in 95 % of the resamples, in blocks.

- kept: within {100 * NEAR:g} %; of extra attempts, or within {100 * NOTHING:g} % of the requests.
- chance: further away, but no further than two such stretches of one log may be.
- off: further than that.
- changed: the log itself differs by more than {100 * NEAR:g} % in its p50, p90, p95 or p99 without hedges.
- few: fewer than {SLOW} requests are slower than the p99.

Promised is what is neither changed nor few, and of extra attempts only where the plan says that hedging pays.
If independent: the p99 that arithmetic promises where attempts know nothing of each other. Other neighbours: the p99
that comes where any of the ten nearest records with the same length stands for a hedge, not mostly the very nearest."""


def _idle(one: Forecast) -> bool:
    """Nothing is forecast and nothing comes, and nothing changes."""
    extra = max(one.extra.said, one.extra.came)
    return not one.changed and extra <= NOTHING and one.verdicts == ("kept", "kept")


def _row(one: Forecast) -> tuple[str, ...]:
    alone, later = map(seconds, one.alone)
    return (
        one.stream,
        str(one.records),
        f"{100 * one.budget:g} %",
        one.delay if one.probability >= 1.0 else f"{one.delay}, {percent(one.probability)} of them",
        "yes" if one.pays else "no",
        alone if alone == later else f"{alone}, then {later}",
        *_cells(one.p99, seconds),
        *_cells(one.extra, percent),
        _verdict(one),
        seconds(one.independent),
        "-" if one.near_by is None else seconds(one.near_by),
    )


def _cells(figure: Figure, show: Show) -> tuple[str, ...]:
    ratio = f"{figure.ratio:.2f}" if isfinite(figure.ratio) else "-"
    low, high = show(figure.low), show(figure.high)
    return show(figure.said), f"{show(figure.came)} ({low} to {high})" if low != high else show(figure.came), ratio


def _verdict(one: Forecast) -> str:
    p99, extra = one.verdicts
    found = "kept" if p99 == extra == "kept" else f"p99 {p99}, extra {extra}"
    notes = [word for word, holds in (("changed", one.changed), ("few", not one.known)) if holds]
    return f"{found} ({', '.join(notes)})" if notes else found


def _counts(rows: Sequence[Forecast]) -> Iterable[tuple[str, ...]]:
    promised = [one for one in rows if one.promised]
    kinds = {
        "p99, promised": [one.verdicts[0] for one in promised],
        "extra attempts, promised": [one.verdicts[1] for one in promised if one.pays],
        "extra attempts, where hedging does not pay": [one.verdicts[1] for one in promised if not one.pays],
        "p99 where the log changed or is short": [one.verdicts[0] for one in rows if not one.promised],
        "extra attempts there": [one.verdicts[1] for one in rows if not one.promised],
        "p99, if with other neighbours": [one.otherwise for one in promised if one.near_by is not None],
    }
    for name, verdicts in kinds.items():
        if verdicts:
            yield (name, str(len(verdicts)), *(str(verdicts.count(word)) for word in ("kept", "chance", "off")))


def _round(item: tuple[str, Rounds]) -> tuple[str, ...]:
    words, found = item
    exactly = "the same" if found == PUBLISHED[words] else str(PUBLISHED[words])
    return (words, f"{found.p50:.1f} s", f"{found.p95:.1f} s", str(found.late), str(found.hedged), exactly)
