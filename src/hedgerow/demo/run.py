"""One demo run: both phases on the same draws, the checks, the result."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from statistics import NormalDist

import msgspec

from hedgerow.demo.children import while_alive
from hedgerow.demo.client import Client
from hedgerow.demo.formula import Law, percentile
from hedgerow.demo.load import Load, arrivals, drive
from hedgerow.demo.options import DemoOptions
from hedgerow.demo.result import Check, Formula, Result, Spread, spread
from hedgerow.demo.stage import HEDGED, LABS, PLAIN, Stage, stage
from hedgerow.demo.verify import CANCELLED, Books, cancel_latency, inconsistencies, losses, other_draws
from hedgerow.demo.view import View
from hedgerow.lab.presets import preset
from hedgerow.lab.recorded import read_times

_P95 = NormalDist().inv_cdf(0.95 - 1e-9)


class Phase(msgspec.Struct, frozen=True):
    """What one phase gave: the client's answers, the labs' books, and what does not add up."""

    load: Load
    books: list[Books]
    problems: list[str]


def run(options: DemoOptions, view: View, on_result: Callable[[Result, str], None]) -> int:
    """Run the demo; `on_result` gets the result and the gateway's URL. Returns the exit code.

    With `options.stay` the processes then run until SIGINT or SIGTERM. Raises `ConfigError`, `ChildFailed`.
    """
    samples = None
    if options.latencies is not None:
        samples = read_times(options.latencies, options.column, options.where)
    try:
        return asyncio.run(_run(options, samples, view, on_result))
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


async def _run(
    options: DemoOptions, samples: list[float] | None, view: View, on_result: Callable[[Result, str], None]
) -> int:
    loop = asyncio.get_running_loop()
    if (this := asyncio.current_task()) is not None:
        loop.add_signal_handler(signal.SIGTERM, this.cancel)
    began = loop.time()
    delay = _delay(options, samples)
    view.say("starting two simulated providers and the gateway ...")
    async with stage(options, delay=delay) as scene:
        with view:
            without, hedged = await while_alive(scene.children, _phases(options, scene, view))
        law = None if samples is None else _formula(samples, delay, options, without=without, hedged=hedged)
        result = _result(options, delay, without, hedged, formula=law, seconds=loop.time() - began)
        on_result(result, scene.gateway.url)
        if options.stay:
            await while_alive(scene.children, _until_told_to_stop(loop))
    return 0 if result.ok else 1


async def _phases(options: DemoOptions, scene: Stage, view: View) -> tuple[Phase, Phase]:
    times = arrivals(options.requests, rate=options.rate, seed=options.seed)
    async with Client() as client:
        phases = []
        for route, name in ((PLAIN, "without hedging"), (HEDGED, "with hedging")):
            meter = view.phase(name, options.requests)
            for lab in scene.labs.values():
                await client.reset(lab.url)
            load = await drive(times, client.sender(scene.gateway.url, route), meter.answered)
            books = [await client.books(name, lab.url) for name, lab in scene.labs.items()]
            keys = [str(number) for number in range(options.requests)]
            phases.append(Phase(load, books, inconsistencies(name, keys, load.answers, books)))
    return phases[0], phases[1]


async def _until_told_to_stop(loop: asyncio.AbstractEventLoop) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()


def _delay(options: DemoOptions, samples: Sequence[float] | None) -> float:
    """The hedge delay in simulated seconds: as asked, or the p95 of the times that are replayed."""
    if options.delay is not None:
        return options.delay
    p95 = percentile(sorted(samples), 0.95) if samples else preset(options.preset).shape.at(_P95)
    return round(p95, 3)


def _formula(samples: Sequence[float], delay: float, options: DemoOptions, *, without: Phase, hedged: Phase) -> Formula:
    alone, both = Law(samples, delay=None), Law(samples, delay=delay)

    def check(law: Law, measured: Spread) -> Check:
        low, high = law.quantile_interval(0.99, options.requests)
        inside = low <= measured.p99 <= high
        return Check(measured=measured.p99, formula=law.quantile(0.99), low=low, high=high, inside=inside)

    return Formula(
        samples=len(samples),
        hedged_fraction=both.hedged_fraction(),
        without=check(alone, spread(without.load.answers, speed=options.speed)),
        hedged=check(both, spread(hedged.load.answers, speed=options.speed)),
    )


def _result(
    options: DemoOptions, delay: float, without: Phase, hedged: Phase, *, formula: Formula | None, seconds: float
) -> Result:
    answers, records = hedged.load.answers, [record for one in hedged.books for record in one.log]
    hedges = sum(answer.attempts - 1 for answer in answers if answer.hedged)
    wasted = sum(record.tokens for record in records if record.ending in CANCELLED)
    return Result(
        source=_source(options, formula),
        requests=options.requests,
        rate=options.rate,
        seed=options.seed,
        speed=options.speed,
        delay=delay,
        without=spread(without.load.answers, speed=options.speed),
        hedged=spread(answers, speed=options.speed),
        hedges=hedges,
        extra_fraction=hedges / options.requests,
        tokens_delivered=sum(record.tokens for record in records) - wasted,
        tokens_wasted=wasted,
        cancel=cancel_latency(losses(answers, hedged.books)),
        held_back=without.load.held_back + hedged.load.held_back,
        real_seconds=seconds,
        reproduce=options.reproduce,
        formula=formula,
        problems=without.problems + hedged.problems + other_draws(without.books, hedged.books),
    )


def _source(options: DemoOptions, formula: Formula | None) -> str:
    if options.latencies is None or formula is None:
        return f"preset {options.preset} at {LABS[0]} and {LABS[1]}, {preset(options.preset).about}"
    rows = f" where {' and '.join(options.where)}" if options.where else ""
    return f"{formula.samples} recorded times from {options.latencies.name}, column {options.column}{rows}"
