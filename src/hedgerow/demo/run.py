"""One demo run: both phases on the same draws, the checks, the result."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable

import msgspec

from hedgerow.demo.children import while_alive
from hedgerow.demo.client import Client
from hedgerow.demo.formula import Law
from hedgerow.demo.load import Load, arrivals, drive
from hedgerow.demo.options import DemoOptions
from hedgerow.demo.result import Check, Formula, Result, Spread, spread
from hedgerow.demo.source import Source, source
from hedgerow.demo.stage import HEDGED, PLAIN, Stage, stage
from hedgerow.demo.verify import CANCELLED, Books, added, cancel_latency, inconsistencies, losses, other_draws
from hedgerow.demo.view import View
from hedgerow.lab.accounts import Ending


class Phase(msgspec.Struct, frozen=True):
    """What one phase gave: the client's answers, the labs' books, and what does not add up."""

    load: Load
    books: list[Books]
    problems: list[str]


def run(options: DemoOptions, view: View, on_result: Callable[[Result, str], None]) -> int:
    """Run the demo; `on_result` gets the result and the gateway's URL. Returns the exit code.

    With `options.stay` the processes then run until SIGINT or SIGTERM. Raises `ConfigError`, `ChildFailed`.
    """
    times = source(options)
    try:
        return asyncio.run(_run(options, times, view, on_result))
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


async def _run(options: DemoOptions, times: Source, view: View, on_result: Callable[[Result, str], None]) -> int:
    loop = asyncio.get_running_loop()
    if (this := asyncio.current_task()) is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, this.cancel)
    began = loop.time()
    view.say("starting two simulated providers and the gateway ...")
    async with stage(options, delay=times.delay) as scene:
        with view:
            without, hedged = await while_alive(scene.children, _phases(options, times.delay, scene, view))
        result = _result(options, times, without, hedged, seconds=loop.time() - began)
        on_result(result, scene.gateway.url)
        if options.stay:
            await while_alive(scene.children, _until_told_to_stop(loop))
    return 0 if result.ok else 1


async def _phases(options: DemoOptions, delay: float, scene: Stage, view: View) -> tuple[Phase, Phase]:
    times = arrivals(options.requests, rate=options.rate, seed=options.seed)
    keys = [str(number) for number in range(options.requests)]
    real_delay = delay / options.speed
    async with Client() as client:
        phases = []
        for route, name, hedge in ((PLAIN, "without hedging", None), (HEDGED, "with hedging", real_delay)):
            meter = view.phase(name, options.requests)
            for lab in scene.labs.values():
                await client.reset(lab.url)
            load = await drive(times, client.sender(scene.gateway.url, route), meter.answered)
            books = [await client.books(target, lab.url) for target, lab in scene.labs.items()]
            phases.append(Phase(load, books, inconsistencies(name, keys, load.answers, books, delay=hedge)))
    return phases[0], phases[1]


async def _until_told_to_stop(loop: asyncio.AbstractEventLoop) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()


def _result(options: DemoOptions, times: Source, without: Phase, hedged: Phase, *, seconds: float) -> Result:
    answers, records = hedged.load.answers, [record for one in hedged.books for record in one.log]
    lost = [record for record in records if record.ending in CANCELLED]
    delivered = [record for record in records if record.ending is Ending.COMPLETED]
    bill = sum(record.billed_nano_usd for record in delivered)
    hedges = sum(answer.hedged for answer in answers)
    before, after = (spread(phase.load.answers, speed=options.speed) for phase in (without, hedged))
    return Result(
        source=times.about,
        requests=options.requests,
        rate=options.rate,
        seed=options.seed,
        speed=options.speed,
        delay=times.delay,
        without=before,
        hedged=after,
        hedges=hedges,
        extra_fraction=hedges / options.requests,
        tokens_delivered=sum(record.tokens for record in delivered),
        tokens_wasted=sum(record.tokens for record in lost),
        prompt_tokens_wasted=sum(record.input_tokens for record in lost),
        wasted_cost_fraction=sum(record.billed_nano_usd for record in lost) / bill if bill else 0.0,
        cancel=cancel_latency(losses(answers, hedged.books)),
        added=added(without.load.answers, without.books),
        held_back=without.load.held_back + hedged.load.held_back,
        real_seconds=seconds,
        reproduce=options.reproduce,
        formula=_formula(times, options.requests, before, after),
        skipped=dict(Counter(answer.skipped for answer in answers if answer.skipped).most_common()),
        problems=without.problems + hedged.problems + other_draws(without.books, hedged.books),
    )


def _formula(times: Source, requests: int, before: Spread, after: Spread) -> Formula:
    hedging = Law(times.samples, delay=times.delay)
    return Formula(
        samples=len(times.samples),
        hedged_fraction=hedging.hedged_fraction(),
        without=_check(Law(times.samples, delay=None), requests, before.p99),
        hedged=_check(hedging, requests, after.p99),
    )


def _check(law: Law, requests: int, measured: float) -> Check:
    low, high = law.quantile_interval(0.99, requests)
    inside = low <= measured <= high
    return Check(measured=measured, formula=law.quantile(0.99), low=low, high=high, inside=inside)
