"""What can be said to `hedgerow plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ALL = "all"
_WHAT = "What is looked for"

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="Files of attempts (CSV, JSON, Parquet, a ledger, exports of other systems), folders of them, URLs of "
        "ledgers, or - for standard input.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="FIELD=COLUMN[:UNIT]", help="What a column says. May be repeated."),
]
Zone = Annotated[str, typer.Option(metavar="ZONE", help="Where times without a zone are from, such as Europe/Berlin.")]
Budgets = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=_WHAT,
        metavar="5%|2usd",
        help="Extra attempts as a share of requests, or extra dollars per 1,000. May be repeated. "
        "\\[default: 2%, 5%, 10%, 20%]",
    ),
]
Primaries = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=_WHAT,
        metavar="TARGET",
        help=f"Whose requests to hedge; `{ALL}` of them. May be repeated. \\[default: the target with most]",
    ),
]
Backups = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=_WHAT,
        metavar="TARGET",
        help="Where hedges may go. May be repeated. Left out: all targets, the primary too.",
    ),
]
Percentile = Annotated[
    str, typer.Option(rich_help_panel=_WHAT, metavar="P99", help="The percentile that is to be made short.")
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=_WHAT,
        metavar="TARGET=IN/OUT",
        help="Dollars per million tokens of prompt and of answer. May be repeated.",
    ),
]
Configs = Annotated[
    list[Path] | None,
    typer.Option(
        rich_help_panel=_WHAT,
        metavar="YAML...",
        help="Judge the routes of these configurations on the log instead of looking for the best.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        rich_help_panel=_WHAT,
        metavar="NAME=TARGET",
        help="With --compare: the log's NAME is the configurations' TARGET. May be repeated.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Same log, seed and version: same bytes.")]
Jobs = Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes. \\[default: one for each core]")]
WriteConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write what is recommended as a hedgerow.yaml to fill in.")
]
