"""`hedgerow demo`: seeing hedging at work without a provider."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.words import Examples
from hedgerow.demo.options import MOST_REQUESTS, PRESET, RATE, REQUESTS, SEED, SPEED, DemoOptions
from hedgerow.lab.recorded import COLUMN

if TYPE_CHECKING:
    from hedgerow.demo.result import Result

EXAMPLES: Examples = (
    ("400 requests, twice, in about half a minute", "hedgerow demo"),
    ("Another provider's published latencies, a delay of your own", "hedgerow demo --preset anthropic --delay 3s"),
    ("Your own recorded times", "hedgerow demo --latencies log.csv --column ttft_ms --where model=gpt-4o"),
    ("Keep everything running afterwards, and try it with curl", "hedgerow demo --stay"),
)


def demo(
    requests: Annotated[
        int, typer.Option(min=1, max=MOST_REQUESTS, metavar="N", help="Requests in each of the two phases.")
    ] = REQUESTS,
    rate: Annotated[
        float, typer.Option(min=0.1, max=1000.0, metavar="X", help="Requests per second; they arrive at random.")
    ] = RATE,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same arrivals and same draws.")] = SEED,
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long to wait before hedging, such as 2s. Left out: the p95."),
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Whose published latencies to simulate; an unknown name lists them.")
    ] = PRESET,
    speed: Annotated[
        float,
        typer.Option(min=0.01, max=1000.0, metavar="X", help="How much faster than life; shown times are scaled back."),
    ] = SPEED,
    latencies: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Replay recorded times to first token instead of a preset.")
    ] = None,
    column: Annotated[
        str, typer.Option(metavar="NAME", help="The file's column; in seconds if its name ends in _s, else ms.")
    ] = COLUMN,
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Use only these rows. May be repeated.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON on stdout, times in seconds.")
    ] = False,
    stay: Annotated[bool, typer.Option("--stay", help="Keep serving afterwards, until Ctrl-C.")] = False,
) -> None:
    """Watch p99 fall: two simulated providers and a gateway on this machine, without and with hedging.

    Every request is sent twice, first to a route without and then to one with hedging, and meets the same latency of
    the first provider both times. Afterwards the books of client, gateway and providers are compared; exit code 1 if
    anything does not add up.
    """
    options = DemoOptions(
        requests=requests,
        rate=rate,
        seed=seed,
        speed=speed,
        preset=preset,
        delay=None if delay is None else _seconds(delay),
        latencies=latencies,
        column=column,
        where=tuple(where or ()),
        stay=stay,
        called_as=os.environ.get("HEDGEROW_CALLED_AS", "hedgerow demo {}"),  # `make demo` sets it
    )
    raise typer.Exit(_demo(options, as_json=as_json))


def _demo(options: DemoOptions, *, as_json: bool) -> int:
    from rich.console import Console

    from hedgerow.demo import report
    from hedgerow.demo.run import run
    from hedgerow.demo.view import View

    def on_result(result: Result, url: str) -> None:
        if as_json:
            typer.echo(report.as_json(result))
        else:
            report.show(result, Console())
        if options.stay:
            typer.echo(_stays(url, options, result.delay), err=True)

    return run(options, View(Console(stderr=True), speed=options.speed), on_result)


def _stays(url: str, options: DemoOptions, delay: float) -> str:
    """What to try while everything keeps running."""
    from hedgerow.cli.asking import chat
    from hedgerow.demo.report import seconds
    from hedgerow.demo.stage import HEDGED, LABS

    slow = f'x-lab-script-{LABS[0]}: {{"ttft_ms": {round(delay * 3000)}}}'
    pace = "" if options.speed == 1.0 else f" {options.speed:g}x faster than life, so a hedge starts"
    after = f"{seconds(delay / options.speed)} of real time"
    return f"""
still serving until Ctrl-C,{pace} after {after}; try:
  {chat(url, HEDGED)}
the same with a first token that is too late at the first provider, so that it is hedged (-i shows x-hedgerow-hedged):
  {chat(url, HEDGED, options=f"-i -H '{slow}'")}"""


def _seconds(text: str) -> float:
    from hedgerow.units import parse_duration

    seconds = parse_duration(text)
    if seconds is None or seconds <= 0:
        raise typer.BadParameter(f"{text!r}: expected a duration such as 2s or 800ms", param_hint="--delay")
    return seconds
