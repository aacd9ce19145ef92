"""The table, and whether hedgerow is what it must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.machine import Machine

HEAD = ("way", "version", "µs over bare", "p50 ms", "p99 ms", "extra attempts", "orphans", "unclosed", "wrong")
NOTES = """\
- *µs over bare*: CPU of a call whose first attempt answers at once, hedge armed and not launched, less that of the same
  call without hedging (for packages that hedge HTTP: an httpx client with the same transport; for LiteLLM: its router's
  own `acompletion`). The least of all rounds.
- *p50, p99, extra attempts*: on one script of latencies (lognormal, median 16 ms; one in twenty ten times slower), 16
  calls at a time. Fixed delays are the script's 90th percentile; hedge-python, httpx-hedged and `auto` learn theirs,
  with a budget of 10 %. A race and LiteLLM launch every backup.
- *orphans*: attempts, of 40, that still ran 50 ms after 20 callers were cancelled. *unclosed*: answers, of 20, that
  nobody closed where both attempts answered in one turn of the loop. *wrong*: calls, of 20, that ended with the hedge's
  error although the primary's good answer was 45 ms away.
"""
PEERS = ("asynchedging", "nopanic", "grit-toolkit", "hedge-python", "httpx-hedged", "LiteLLM fastest_response")
SLACK = 1.05
"""Within a run, medians of two equal ways differ by as much."""


@dataclass(frozen=True)
class Row:
    """What one way came to."""

    name: str
    version: str
    bare: float
    us: float | None
    p50: float | None
    p99: float | None
    extra: float | None
    orphans: float | None
    unclosed: float | None
    wrong: float | None

    @property
    def over(self) -> float:
        """Microseconds over the same call without hedging."""
        return (self.us or 0.0) - self.bare

    def cells(self) -> list[str]:
        counts = ["-" if each is None else f"{each:g}" for each in (self.orphans, self.unclosed, self.wrong)]
        share = "-" if self.extra is None else f"{self.extra:.1%}"
        return [self.name, self.version, f"{self.over:,.1f}", f"{self.p50:.1f}", f"{self.p99:.1f}", share, *counts]


def verdicts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """What is required, and `ok`, `short` or `not measured`."""
    named = {row.name: row for row in rows}
    ours, peers = named.get("hedgerow Hedger"), [named[name] for name in PEERS if name in named]
    if ours is None:
        return [("hedgerow is measured", "short")]
    own = [row for row in rows if row.name.startswith("hedgerow")]
    left = sum((row.orphans or 0) + (row.unclosed or 0) + (row.wrong or 0) for row in own)
    like = [row for row in peers if row.extra is not None and abs(row.extra - (ours.extra or 0.0)) < 0.03]
    found = [
        ("no orphan, nothing unclosed, no wrong winner", left == 0),
        ("less than 40 µs over the bare call", ours.over < 40.0),
    ]
    if peers:
        least = min(peers, key=lambda row: row.over)
        found.append((f"less than every peer ({least.name}: {least.over:.1f} µs)", ours.over < least.over))
    if like:
        best = min(like, key=lambda row: row.p99 or 0.0)
        good = (ours.p99 or 0.0) <= (best.p99 or 0.0) * SLACK
        found.append((f"p99 of the best peer at as many attempts ({best.name}: {best.p99:.1f} ms), within 5 %", good))
    return [(what, "ok" if good else "short") for what, good in found]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, in columns."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in (lines[0], rule, *lines[1:]))


def report(machine: Machine, rounds: int, rows: Sequence[Row], missing: Mapping[str, str]) -> str:
    """All of it, as Markdown."""
    where = f"{machine.cpu}, {machine.cores} cores, {machine.python}, {machine.system}, load {machine.load:.1f}"
    parts = [f"Hedging in process: {where}; {rounds} rounds\n", table(HEAD, [row.cells() for row in rows]), "", NOTES]
    parts += [f"- not measured: {name}: {reason}" for name, reason in missing.items()]
    parts += [f"- required: {what}: {said}" for what, said in verdicts(rows)]
    return "\n".join(parts)
