"""`hedgerow lab`: a simulated provider. What is not given is left to the defaults of `LabOptions`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.listen import address
from hedgerow.cli.words import Examples

EXAMPLES: Examples = (
    ("Published latencies of OpenAI's endpoints", "hedgerow lab --preset openai --listen 127.0.0.1:9001"),
    ("Latencies of your own, ten times faster than life", "hedgerow lab --p50-ms 400 --p95-ms 900 --speed 10"),
    ("A bad day", "hedgerow lab --fault 429:0.05,cut:0.01,stall:0.01"),
    ("Recorded latencies", "hedgerow lab --latencies log.csv --column ttft_ms"),
)

TIMES = "Time to first token"
ANSWERS = "Answers, faults, prices"


def lab(
    name: Annotated[str | None, typer.Option(help="The provider's name, part of its draws. \\[default: lab]")] = None,
    listen: Annotated[str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Port 0: any free one.")] = (
        "127.0.0.1:0"
    ),
    seed: Annotated[int | None, typer.Option(help="Same seed, name and request: same draw. \\[default: 1]")] = None,
    speed: Annotated[float | None, typer.Option(help="Divide all simulated times by this. \\[default: 1]")] = None,
    preset: Annotated[
        str | None,
        typer.Option(rich_help_panel=TIMES, help="Ready-made times; an unknown name lists them. \\[default: steady]"),
    ] = None,
    p50_ms: Annotated[
        float | None, typer.Option(rich_help_panel=TIMES, help="Median; with --p95-ms, in place of a preset's times.")
    ] = None,
    p95_ms: Annotated[float | None, typer.Option(rich_help_panel=TIMES, help="95th percentile.")] = None,
    p99_ms: Annotated[
        float | None, typer.Option(rich_help_panel=TIMES, help="99th percentile. Left out: as --tail says.")
    ] = None,
    tail: Annotated[
        float | None, typer.Option(rich_help_panel=TIMES, help="Pareto index above p95; smaller is heavier.")
    ] = None,
    latencies: Annotated[
        Path | None, typer.Option(rich_help_panel=TIMES, metavar="FILE.csv", help="Recorded times, drawn at random.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(rich_help_panel=TIMES, help="The file's column. \\[default: ttft_ms]")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=TIMES, metavar="COLUMN=VALUE", help="Use only these rows. May be repeated."),
    ] = None,
    order: Annotated[
        str | None, typer.Option(rich_help_panel=TIMES, metavar="sampled|sequence", help="Draw, or walk in file order.")
    ] = None,
    rho: Annotated[
        float | None, typer.Option(rich_help_panel=TIMES, help="Correlation with labs of the same seed, 0 to 1.")
    ] = None,
    slow: Annotated[
        str | None,
        typer.Option(rich_help_panel=TIMES, metavar="FACTOR:SHARE:SECONDS", help="Slow regimes, such as 3:0.1:20."),
    ] = None,
    prefill_ms: Annotated[
        float | None, typer.Option(rich_help_panel=TIMES, help="Added per 1,000 prompt tokens.")
    ] = None,
    gap_ms: Annotated[float | None, typer.Option(rich_help_panel=ANSWERS, help="Median time between tokens.")] = None,
    jitter: Annotated[
        float | None, typer.Option(rich_help_panel=ANSWERS, help="Log standard deviation of that time.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(rich_help_panel=ANSWERS, help="Length of an answer when the request sets no limit.")
    ] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=ANSWERS, metavar="MIX", help="Faults by probability: 429:0.01,cut:0.005,stall:0.01"
        ),
    ] = None,
    ignore_cancel: Annotated[
        bool,
        typer.Option(
            "--ignore-cancel", rich_help_panel=ANSWERS, help="Generate and bill to the end when a client leaves."
        ),
    ] = False,
    billed_on_cancel: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=ANSWERS,
            metavar="full|generated|input|none",
            help="What an answer costs whose client has left. \\[default: generated]",
        ),
    ] = None,
    cached: Annotated[
        float | None,
        typer.Option(rich_help_panel=ANSWERS, help="Share of each prompt that is said to come from a cache, 0 to 1."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(rich_help_panel=ANSWERS, help="What /v1/models lists. May be repeated.")
    ] = None,
    input_price: Annotated[
        float | None, typer.Option(rich_help_panel=ANSWERS, help="Dollars per million prompt tokens.")
    ] = None,
    output_price: Annotated[
        float | None, typer.Option(rich_help_panel=ANSWERS, help="Dollars per million generated tokens.")
    ] = None,
    cached_price: Annotated[
        float | None, typer.Option(rich_help_panel=ANSWERS, help="Dollars per million prompt tokens from the cache.")
    ] = None,
) -> None:
    """Run a simulated provider that speaks OpenAI's, Anthropic's and Gemini's APIs, with latencies of your choice.

    Prints one line of JSON with its URL once it listens, and runs until SIGTERM or Ctrl-C. /lab/stats and /lab/log tell
    what it generated and when it saw a cancel. Scripts for single requests go in the header x-lab-script.
    """
    given = {key: value for key, value in locals().items() if value is not None and key not in ("listen", "model")}
    at = address(listen)
    raise typer.Exit(_run({**given, "host": at.host or "0.0.0.0", "port": at.port}, where=where, models=model))


def _run(given: dict[str, Any], *, where: list[str] | None, models: list[str] | None) -> int:
    from hedgerow.lab.app import run
    from hedgerow.lab.options import LabOptions

    for name, several in (("where", where), ("models", models)):
        if several is not None:
            given[name] = tuple(several)
    run(LabOptions(**given))
    return 0
