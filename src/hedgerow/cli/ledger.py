"""`hedgerow ledger`: what the ledger knows, on the terminal and as files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hedgerow.cli.console import console
from hedgerow.cli.file import written
from hedgerow.cli.finding import ledger_of, settings_in
from hedgerow.cli.moment import WHEN, microseconds, moment, now
from hedgerow.cli.words import Examples
from hedgerow.errors import ConfigError, LedgerError
from hedgerow.units import parse_duration

if TYPE_CHECKING:
    from hedgerow.ledger.summary import RouteSummary

SUMMARY_EXAMPLES: Examples = (
    ("The last day", "hedgerow ledger summary"),
    ("November", "hedgerow ledger summary --since 2026-11-01 --until 2026-12-01"),
)
SHOW_EXAMPLES: Examples = (
    ("What became of a request (x-hedgerow-request-id)", "hedgerow ledger show hr-3f-17"),
    ("What was asked and answered, where that is kept", "hedgerow ledger show hr-3f-17 --content"),
)
EXPORT_EXAMPLES: Examples = (
    ("The requests of the last day as CSV", "hedgerow ledger export --since 24h > requests.csv"),
    (
        "All attempts, for DuckDB or pandas",
        "hedgerow ledger export --what attempts -o attempts.parquet",
    ),
    ("Hourly sums, which are kept for longer", "hedgerow ledger export --what request-hours -o hours.jsonl"),
)
PRUNE_EXAMPLES: Examples = (
    ("Make room now: requests and attempts older than a week", "hedgerow ledger prune --older-than 7d"),
)

Url = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="The database. Left out: that of the configuration, else ./hedgerow-ledger.db.",
    ),
]
Config = Annotated[Path | None, typer.Option("--config", "-c", help="The configuration. Left out: ./hedgerow.yaml.")]
Since = Annotated[str | None, typer.Option(metavar="WHEN", help=f"From then on: {WHEN}.")]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Before then.")]
What = Literal["requests", "attempts", "contents", "request-hours", "attempt-hours"]
Format = Literal["csv", "jsonl", "parquet"]


def summary(since: Since = "24h", until: Until = None, ledger: Url = None, config: Config = None) -> None:
    """Show each route's requests, hedges, time to first token and cost.

    Wins are the share of hedges that were faster; extra is what attempts cost that lost to others, on top of the
    rest.
    """
    from hedgerow.ledger import read
    from hedgerow.ledger.summary import summarise

    begin, end = moment(since, "--since"), moment(until, "--until")
    with read.ledger(_url(ledger, config)) as found:
        routes = summarise(found, begin, end)
    if not routes:
        typer.echo("no requests in that time")
        return
    console().print(_table(routes))
    for name, row in routes.items():
        for note in row.notes():
            typer.echo(f"{name}: {note}")


def show(
    request: Annotated[str, typer.Argument(metavar="ID", help="Its name: the header x-hedgerow-request-id.")],
    content: Annotated[
        bool, typer.Option("--content", help="Show what was asked and answered, too (server.ledger.content).")
    ] = False,
    ledger: Url = None,
    config: Config = None,
) -> None:
    """Show one request: what happened when, who won, why there was no hedge, what it cost."""
    from hedgerow.ledger import read, schema
    from hedgerow.ledger.timeline import outcome, said, timeline

    with read.ledger(_url(ledger, config)) as found:
        rows = [row for page in found.requests(where=[schema.requests.c.request_id == request]) for row in page]
        if not rows:
            raise LedgerError(f"there is no request {request} in the ledger (it may not be written yet, or be too old)")
        same = [schema.requests.c.request_id == request]
        tried = [row for page in found.attempts(where=same) for row in page]
        kept = [row for page in found.contents(where=same) for row in page] if content else []
    for row in rows:
        typer.echo(f"{row.request_id}  {_shown(row.started_at)}")
        own = [each for each in tried if (each.process, each.number) == (row.process, row.number)]
        for line in timeline(row, own):
            typer.echo(f"{line.after / 1_000:>12.3f} ms  {line.who:<10} {line.what}")
        for sentence in outcome(row):
            typer.echo(f"{'':16} {sentence}")
        for each in kept:
            if (each.process, each.number) == (row.process, row.number):
                typer.echo(said(each))
    if content and not kept:
        typer.echo("what was asked and answered is not kept (server.ledger.content)")


def export(
    what: Annotated[What, typer.Option(help="Which rows.")] = "requests",
    since: Since = None,
    until: Until = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here in place of standard output.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Left out: by the ending of the file, else csv.")
    ] = None,
    ledger: Url = None,
    config: Config = None,
) -> None:
    """Write rows as CSV, lines of JSON, or Parquet.

    Columns are those of the database: times in Unix microseconds, money in nano-dollars. A gateway may go on writing.
    """
    from hedgerow.ledger import read
    from hedgerow.ledger.export import export, need, pages

    chosen = form or _by_ending(output)
    begin, end = moment(since, "--since"), moment(until, "--until")
    if output is None and chosen == "parquet":
        raise ConfigError(["Parquet goes into a file: --output FILE.parquet"])
    need(chosen)
    with ExitStack() as stack:
        found = stack.enter_context(read.ledger(_url(ledger, config)))
        out = sys.stdout.buffer if output is None else stack.enter_context(written(output))
        count = export(pages(found, what, begin, end), what, chosen, out, _progress())
        out.flush()
    typer.echo(f"\r{count} {what}", err=True)


def prune(
    older_than: Annotated[str, typer.Option(metavar="DURATION", help="At least so old, such as 7d.")],
    ledger: Url = None,
    config: Config = None,
) -> None:
    """Delete requests and attempts of hours that ended so long ago, once they are summed up; hourly sums stay.

    A gateway does this by itself (server.ledger.keep). SQLite reuses the room; the file does not shrink.
    """
    from hedgerow.ledger.store import asked, check, open_store
    from hedgerow.ledger.upkeep import Upkeep

    age = parse_duration(older_than)
    if age is None:
        raise ConfigError([f"--older-than {older_than}: expected a duration such as 7d or 12h"])
    url = _url(ledger, config)
    at = microseconds(now())
    with ExitStack() as stack:
        stack.enter_context(asked("pruned"))
        reader, engine = open_store(url), open_store(url, writes=True)
        stack.callback(reader.dispose)
        stack.callback(engine.dispose)
        check(reader)
        keeper = Upkeep(engine, reader)
        keeper.sum_up(at)
        count = keeper.prune(at - round(age * 1_000_000))
    typer.echo(f"deleted {count} requests and their attempts")


def _url(given: str | None, config: Path | None) -> str:
    return ledger_of(settings_in(config), config) if given is None else given


def _shown(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(" ", "milliseconds")


def _by_ending(output: Path | None) -> Format:
    endings: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
    return "csv" if output is None else endings.get(output.suffix, "csv")


def _progress() -> Callable[[int], None]:
    """On a terminal's standard error; otherwise nothing."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda count: typer.echo(f"\r{count} rows", err=True, nl=False)


def _table(routes: dict[str, RouteSummary]) -> object:
    from rich.box import SIMPLE
    from rich.table import Table

    from hedgerow.ledger.summary import share
    from hedgerow.ledger.timeline import usd

    table = Table(box=SIMPLE)
    numbers = "requests", "won", "hedged", "wins", "p50", "p99", "cost", "extra"
    table.add_column("route")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in routes.items():
        times = (_seconds(row.seconds(q)) for q in (0.5, 0.99))
        money = usd(row.cost), share(row.extra, row.cost - row.extra)
        counts = share(row.won, row.requests), share(row.hedged, row.requests), share(row.hedge_wins, row.hedges)
        table.add_row(name, str(row.requests), *counts, *times, *money)
    return table


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3g}s"
