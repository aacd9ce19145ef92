"""What a simulation comes to, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hedgerow.lab.latency import HeavyTail
from hedgerow.lab.presets import PRESETS
from hedgerow.planner.simulation.result import Capped, Numbers, Phase, Verdict, Word
from hedgerow.planner.simulation.scenario import Law, Scenario
from hedgerow.planner.simulation.staging import Staged
from hedgerow.planner.simulation.world import rho_of, work_of
from hedgerow.policy.settings import Policy
from hedgerow.report.words import change, percent, seconds
from hedgerow.units import show_percent

PAYS, HURTS = 0.1, 0.05
"""By how much p99 must fall for hedging to pay, and rise for it to hurt."""
_FAILURES, _SOME = 0.001, 5
"""Requests that fail, more or less, which matter as well: that share of all, and at least so many."""
_ENOUGH = 1_000
"""Requests that a p99 should rest on."""


def verdict_of(
    policy: Policy,
    total: Phase,
    phases: Sequence[Phase],
    trouble: Phase | None,
    hedges: Capped | None,
    failovers: Capped | None,
) -> Verdict:
    """Of the trouble, or of the whole where there is none, and what to know of single phases."""
    if not total.hedged.hedges and not policy.chain:
        return Verdict("off", _why_none(total.hedged))
    judged, where = (total, "here") if trouble is None else (trouble, f"in '{trouble.name}'")
    word = _judged(judged)
    begins: dict[Word, str] = {
        "pays": f"Hedging pays {where}",
        "little": f"Hedging buys little {where}",
        "hurts": f"Hedging hurts {where}",
    }
    cap = failovers if policy.chain else hedges
    capped = "no cap on their number" if cap is None else f"cap: {cap.words}"
    text = f"{begins[word]}: {_changes(judged)}; it takes {_launched(policy, judged)} more attempts ({capped})."
    if trouble is not None:
        text += f" In all phases together {_changes(total)}, with {_launched(policy, total)} more attempts."
    return Verdict(word, " ".join([text, *_more(judged, total, phases, word)]))


def _launched(policy: Policy, phase: Phase) -> str:
    hedged = phase.hedged
    return percent((hedged.failovers if policy.chain else hedged.hedges) / max(hedged.requests, 1))


def _why_none(hedged: Numbers) -> str:
    if not hedged.skipped:
        return "This route started no hedge, and none was due: see its hedge.delay and hedge.mode."
    reason, count = next(iter(hedged.skipped.items()))
    due = sum(hedged.skipped.values())
    return f"This route started no hedge: {due:,} were due, and {reason} held {count:,} of them back."


def _judged(phase: Phase) -> Word:
    without, hedged = phase.without, phase.hedged
    more, some = hedged.failed - without.failed, max(_FAILURES * without.requests, _SOME)
    if more >= some or (hedged.p99 is None and without.p99 is not None):
        return "hurts"
    if more <= -some or (without.p99 is None and hedged.p99 is not None):
        return "pays"
    if without.p99 is None or hedged.p99 is None:
        return "little"
    fall = 1.0 - hedged.p99 / without.p99
    return "pays" if fall >= PAYS else "hurts" if fall < -HURTS else "little"


def _changes(phase: Phase) -> str:
    return ", ".join(filter(None, [_failures(phase), _p99(phase)]))


def _failures(phase: Phase) -> str:
    """Where hedging makes a difference to them."""
    before, after = (percent(each.failed / max(each.requests, 1)) for each in (phase.without, phase.hedged))
    return f"failures go from {before} to {after}" if before != after else ""


def _p99(phase: Phase) -> str:
    before, after = phase.without.p99, phase.hedged.p99
    if before is None and after is None:
        return "more than 1 % fail with hedging and without it, so that there is no p99"
    if before is None:
        return f"p99 is {seconds(after)}, where without hedging more than 1 % fail"
    if after is None:
        return f"more than 1 % fail, where without hedging p99 is {seconds(before)}"
    return f"p99 goes from {seconds(before)} to {seconds(after)} ({change(after / before - 1.0)})"


def _more(judged: Phase, total: Phase, phases: Sequence[Phase], word: Word) -> Iterator[str]:
    before, after = total.without, total.hedged
    if before.load is not None and after.load is not None:
        yield f"The servers' load goes from {percent(before.load)} to {percent(after.load)}."
    if len(phases) > 1 and word != "hurts":
        for phase in phases:
            if phase.name != judged.name and phase.hedged.requests >= _ENOUGH and _judged(phase) == "hurts":
                yield f"Not in '{phase.name}': there {_changes(phase)}."
    limited = after.limited.get("hedge", 0)
    if limited:
        yield f"{limited:,} hedges met a rate limit."


def hedging_of(policy: Policy) -> str:
    """When the route hedges, as its config says it."""
    if policy.chain:
        return "mode chain"
    return f"race of {policy.width}" if policy.width > 1 else f"delay {policy.delay}"


def law_of(scenario: Scenario, staged: Staged, rate: float) -> str:
    """What times to the first token are drawn from."""
    queue = scenario.queue
    if queue is not None:
        work = f"work is exponential with mean {seconds(work_of(queue, rate))}, load {show_percent(queue.load)}"
        return f"{queue.servers} servers with a queue each; {work} at the usual rate, without hedges"
    law, other = _law(scenario.law), scenario.backups_law
    laws = law if other is None else f"{staged.primary} {law}; backups {_law(other)}"
    return f"{laws}; correlation {rho_of(scenario, staged):g}"


def _law(law: Law) -> str:
    if law.p50 is None or law.p95 is None:
        return f"preset {law.preset}, {PRESETS[law.preset].about}"
    shape = HeavyTail(law.p50, law.p95, law.p99)
    return f"p50 {seconds(law.p50)}, p95 {seconds(law.p95)}, tail index {shape.index:.3g}"


def notes_of(staged: Staged, scenario: Scenario, without: Numbers) -> tuple[str, ...]:
    """What of this route is not simulated, or hardly."""
    policy, conditions = staged.policy, staged.policy.conditions
    notes = []
    if policy.gates is not None:
        notes.append("gates: every answer is good enough here, since none goes on after its first token")
    if policy.sticky is not None:
        notes.append("sticky: requests belong to no session here")
    if conditions.traits or conditions.max_tokens_below is not None or conditions.streaming is False:
        notes.append("hedge.only_if: requests are streamed, without max_tokens and header fields, and held back for it")
    if scenario.queue is not None and len(staged.targets) > 1:
        notes.append("all targets are the same servers in this scenario")
    if scenario.limits is not None and len(staged.targets) == 1:
        notes.append("there is one target, and so one rate limit, that of the primary")
    if scenario.limits is not None and not without.limited:
        notes.append("no request met a rate limit, with so few of them: take more (--requests)")
    if without.requests < _ENOUGH:
        notes.append(f"a p99 of {without.requests:,} requests says little: take more (--requests)")
    return tuple(notes)
