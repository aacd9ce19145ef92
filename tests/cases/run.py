"""Runs cases: in parallel, on as few gateways as give the same results, and each that differs once more, alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import UnsetType

from tests.cases import answers, waiting
from tests.cases.bench import Bench, GatewayDown
from tests.cases.case import NAMES, Case, Expected, Request, Step
from tests.cases.check import check
from tests.cases.client import Got, ask
from tests.cases.seen import Run, StepSeen
from tests.cases.upstream import Seen

SETTLES = 3.0
"""Seconds within which the gateway must have written down how a request ended."""
LINGERS = 0.3
"""Seconds for which connections may go on after a step, where their number is asked for."""


@dataclass
class Result:
    """What came of a case: it is ok when nothing differs and nothing waits."""

    case: Case
    differences: list[str] = field(default_factory=list)
    waits_for: dict[str, str] = field(default_factory=dict)
    """Keys that could not be checked (or "the case": it was not run), with the missing feature."""
    first_try: list[str] = field(default_factory=list)
    """What differed at a first try that is not counted: on a busy machine times are not what they should be."""
    steps: list[tuple[Expected, StepSeen]] = field(default_factory=list)
    """What was seen, with what was expected and can be checked now."""

    @property
    def verdict(self) -> str:
        """`ok`, `differs` or `waiting`."""
        if self.differences:
            return "differs"
        return "waiting" if self.waits_for else "ok"

    def __str__(self) -> str:
        lines = f"{self.verdict:8} {self.case.id}"
        if self.differences:
            lines += ": " + "; ".join(self.differences[:6])
            lines += f"; and {more} more" if (more := len(self.differences) - 6) > 0 else ""
        elif self.waits_for:
            features: dict[str, list[str]] = {}
            for key, feature in self.waits_for.items():
                features.setdefault(feature, []).append(key)
            lines += ": " + "; ".join(f"{feature} ({', '.join(keys)})" for feature, keys in features.items())
        return lines + (f" (at the second try; at the first: {'; '.join(self.first_try)})" if self.first_try else "")


async def run_cases(
    cases: Sequence[Case], *, jobs: int = 4, fresh: bool = False, said: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Run all, `jobs` at once; results in the order of `cases`.

    With `fresh` each has a gateway of its own. `said` is told of each result as it comes.
    """
    pending = [case for case in cases if not waiting.needed_to_run(case)]
    results = {case.id: _not_run(case) for case in cases if waiting.needed_to_run(case)}
    for result in results.values():
        said(result)
    again: list[Result] = []

    def done(result: Result) -> None:
        if result.differences:
            again.append(result)
        else:
            results[result.case.id] = result
            said(result)

    starting = asyncio.Lock()
    await asyncio.gather(*(_work(pending, done, fresh=fresh, starting=starting) for _ in range(jobs)))
    for first in again:
        (second,) = await _on_one_gateway(first.case, [], fresh=True, starting=starting)
        second.first_try = [] if second.differences else first.differences
        results[second.case.id] = second
        said(second)
    return [results[case.id] for case in cases]


def _not_run(case: Case) -> Result:
    return Result(case, waits_for=waiting.needed_to_run(case))


async def _work(pending: list[Case], done: Callable[[Result], None], *, fresh: bool, starting: asyncio.Lock) -> None:
    while pending:
        for result in await _on_one_gateway(pending.pop(0), pending, fresh=fresh, starting=starting):
            done(result)


async def _on_one_gateway(first: Case, pending: list[Case], *, fresh: bool, starting: asyncio.Lock) -> list[Result]:
    """Run a case, and then those of `pending` that can run on the same gateway."""
    results: list[Result] = []
    case: Case | None = first
    bench = Bench(first, starting=starting)
    try:
        async with bench:
            while case is not None:
                results.append(await run_case(bench, case))
                bench.spoiled = bench.spoiled or fresh or not case.sim or bool(results[-1].differences)
                case = next((each for each in pending if bench.fits(each)), None)
                if case is not None:
                    pending.remove(case)
    except GatewayDown as down:
        results.append(Result(first, [f"the gateway did not start: {down}"]))
    if bench.faults:
        results[-1].differences.append(f"the gateway process: {bench.faults}")
    return results


async def run_case(bench: Bench, case: Case) -> Result:
    """All steps of a case; what goes wrong in the runner itself is said like any difference."""
    result = Result(case)
    try:
        await _run_steps(bench, case, result)
    except Exception as error:
        result.differences.append(f"the run broke off: {error!r}")
    return result


async def _run_steps(bench: Bench, case: Case, result: Result) -> None:
    before: list[Run] = []
    known = len(bench.events())
    for number, step in enumerate(case.steps, 1):
        if isinstance(step.wait_ms, float | int):
            await asyncio.sleep(step.wait_ms / 1000)
        if isinstance(step.expect, UnsetType):
            continue
        expected = step.expect
        seen = await _run_step(bench, case, step, number, before)
        seen.changed = [event for event in bench.events()[known:] if event["event"] == "breaker_changed"]
        result.steps.append((expected, seen))
        name = f"step {number}, " if len(case.steps) > 1 else ""
        result.differences += [f"{name}{difference}" for difference in check(expected, seen)]
        before += seen.runs
        bench.spoiled = bench.spoiled or bool(seen.taken_out or seen.changed)


async def _run_step(bench: Bench, case: Case, step: Step, number: int, before: list[Run]) -> StepSeen:
    assert isinstance(step.request, Request)
    for name, script in step.upstreams.items():
        await bench.upstreams[name].begin(script)
        bench.spoiled = bench.spoiled or isinstance(script.connect, str)
    known, breakers_before = len(bench.events()), await bench.breakers()
    await bench.learn()
    names = [f"{case.id}-{number}-{index}" for index in range(step.repeat)]
    leave = None if isinstance(step.client, UnsetType) else step.client.disconnect_at_ms / 1000
    gate = asyncio.Semaphore(step.concurrency)

    async def one(name: str) -> Got:
        async with gate:
            assert isinstance(step.request, Request)
            return await ask(bench.gateway.address, step.request, name, leave_after=leave)

    gots = await asyncio.gather(*map(one, names))
    await _closed(bench, step, gots[-1].sent_at)
    runs = [
        Run(got, answers.read(case.protocol, got), {each: _seen(bench, each, name) for each in NAMES})
        for name, got in zip(names, gots, strict=True)
    ]
    await _told(bench, runs, known)
    taken_out = [event for event in bench.events()[known:] if event["event"] == "target_taken_out"]
    breakers = await bench.breakers()
    return StepSeen(
        runs, list(before), taken_out, [], breakers_before, breakers, await _sockets(bench, step), bench.log
    )


def _seen(bench: Bench, upstream: str, run: str) -> list[Seen]:
    return [seen for name, each in bench.upstreams.items() if name == upstream for seen in each.seen if seen.run == run]


async def _closed(bench: Bench, step: Step, sent_at: float) -> None:
    """Wait until the last time at which an upstream's connection may still be closed."""
    assert isinstance(step.expect, Expected)
    limits = step.expect.upstream_closed_by_ms
    if isinstance(limits, dict) and limits:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, sent_at + max(limits.values()) / 1000 - now))


async def _told(bench: Bench, runs: list[Run], known: int) -> None:
    """Give each run its events, once all of them are written down."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLES
    # A request that was refused without an attempt has no events; of one that left early the client knows no id.
    wanted = sum(any(run.seen.values()) or (run.got.status or 200) < 400 for run in runs)
    while loop.time() < deadline:
        new = bench.events()[known:]
        if sum(event["event"] == "request_billed" for event in new) >= wanted:
            break
        await asyncio.sleep(0.01)
    by_id: dict[str, list[dict[str, object]]] = {}
    for event in bench.events()[known:]:
        if "request_id" in event:
            by_id.setdefault(event["request_id"], []).append(event)
    for run in runs:
        if (told := run.got.headers.get("x-hedgerow-request-id")) is not None:
            run.events = by_id.pop(told, [])
    nameless = iter(by_id.values())  # in the order in which they began
    for run in runs:
        if "x-hedgerow-request-id" not in run.got.headers and (any(run.seen.values()) or run.got.left):
            run.events = next(nameless, [])


async def _sockets(bench: Bench, step: Step) -> int:
    assert isinstance(step.expect, Expected)
    if isinstance(step.expect.open_upstream_sockets_max, int):
        await asyncio.sleep(LINGERS)
    return bench.open_sockets
