"""`hedgerow report`: whether hedging pays, from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.finding import ledger_of, settings_in
from hedgerow.cli.making import FORMAT, OUTPUT, Format, format_of, make, need
from hedgerow.cli.moment import WHEN, moment
from hedgerow.cli.words import Examples

if TYPE_CHECKING:
    from rich.console import Console

    from hedgerow.config import Settings
    from hedgerow.report.advice import Configured
    from hedgerow.report.analysis import Analysis

EXAMPLES: Examples = (
    ("Of the last 30 days, from the ledger that ./hedgerow.yaml names", "hedgerow report"),
    (
        "One route since a day, as a page with plots",
        "hedgerow report --route fast --since 2026-11-01 --output report.html",
    ),
    ("From another ledger, for a script", "hedgerow report --ledger sqlite:///hedgerow-ledger.db --format json"),
)


def report(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="The configuration that names the ledger, shares held out and budgets.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="URL", help="The ledger, in place of the configuration's.")
    ] = None,
    since: Annotated[
        str,
        typer.Option(metavar="WHEN", help=f"From then on: {WHEN}."),
    ] = "30d",
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Before then, in the same words. Left out: now.")
    ] = None,
    route: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this route. May be repeated.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Of the resampling: same requests and seed, same report.")
    ] = 1,
    format: Annotated[Format | None, FORMAT] = None,  # noqa: A002  # the option's name
    output: Annotated[Path | None, OUTPUT] = None,
) -> None:
    """Say whether hedging pays: requests that were hedged beside those held out (`experiment.holdout`), with intervals.

    Percentiles of the time to the first token and to the last byte, failures, extra cost and its price per second
    saved, rates over time and a table of targets; a verdict in words, and advice. Without an experiment it says what
    the latency model believes.
    """
    made = format_of(format, output)
    need("the report", "report", made, "numpy")
    settings = settings_in(config)
    url = ledger or ledger_of(settings, config)
    analysis = _analysis(url, settings, _seconds(since, "--since"), _seconds(until, "--until"), route or [], seed)

    def show(console: Console) -> None:
        from hedgerow.report import terminal

        terminal.show(analysis.report, console)

    def page() -> str:
        from hedgerow.report.page import render

        return render(analysis)

    make(made, output, data=analysis.report, show=show, page=page)


def _analysis(
    url: str, settings: Settings | None, since: float | None, until: float | None, routes: Sequence[str], seed: int
) -> Analysis:
    from hedgerow.ledger.read import ledger
    from hedgerow.report.analysis import analyse
    from hedgerow.report.source import requests_in

    with ledger(url) as opened:
        requests = requests_in(opened, since, until, routes)
        return analyse(requests, seed, configured=_configured(settings), since=since, until=until)


def _configured(settings: Settings | None) -> Mapping[str, Configured]:
    from hedgerow.report.advice import Configured

    routes = {} if settings is None else settings.routes
    return {
        name: Configured(route.experiment.holdout, route.hedge.cap, route.hedge.burst) for name, route in routes.items()
    }


def _seconds(text: str | None, option: str) -> float | None:
    """Unix seconds."""
    at = moment(text, option)
    return None if at is None else at / 1_000_000
