"""`hedgerow plan`: what hedging would buy, from a log of latencies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli import asked
from hedgerow.cli.ahead import Progress, progress
from hedgerow.cli.making import FORMAT, OUTPUT, Format, format_of, make, need
from hedgerow.cli.plan_options import (
    ALL,
    Backups,
    Budgets,
    Columns,
    Configs,
    Jobs,
    Logs,
    Names,
    Percentile,
    Prices,
    Primaries,
    Seed,
    WriteConfig,
    Zone,
)
from hedgerow.cli.words import Examples
from hedgerow.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from hedgerow.planner.log import Log
    from hedgerow.planner.plan import Plan, Source
    from hedgerow.planner.search import Options

EXAMPLES: Examples = (
    ("Is it worth it? From any CSV, JSON lines or Parquet with a latency in each row", "hedgerow plan requests.csv"),
    ("From hedgerow's own ledger", "hedgerow plan sqlite:///hedgerow-ledger.db"),
    (
        "Columns that are not found by their names",
        "hedgerow plan requests.csv --map ttft=first_byte:ms --map target=endpoint",
    ),
    ("As a page with plots, and the configuration to go with it",
     "hedgerow plan requests.csv --output plan.html --write-config plan.yaml"),
    ("With a budget in money: dollars per 1,000 requests",
     "hedgerow plan requests.csv --budget 0.5usd --price openai=0.25/2 --price azure=0.25/2"),
    ("Which of two configurations would have served this log better",
     "hedgerow plan requests.csv --compare now.yaml new.yaml"),
)  # fmt: skip


def plan(
    logs: Logs,
    map_: Columns = None,
    timezone: Zone = "UTC",
    budget: Budgets = None,
    primary: Primaries = None,
    backup: Backups = None,
    target_quantile: Percentile = "p99",
    price: Prices = None,
    compare: Configs = None,
    as_: Names = None,
    seed: Seed = 1,
    jobs: Jobs = None,
    format: Annotated[Format | None, FORMAT] = None,  # noqa: A002  # the option's name
    output: Annotated[Path | None, OUTPUT] = None,
    write_config: WriteConfig = None,
) -> None:
    """Say what hedging would buy on the traffic of a log: how much shorter p99 becomes, for how many extra attempts.

    For each budget the best way to hedge is chosen on the first part of the log and judged on the rest, by the engine
    that serves, in virtual time, with attempts taken from those near in time: what is slow together stays so. Says when
    not to hedge. Which columns were taken for what is shown; --map takes others.
    """
    made = format_of(format, output)
    need("the planner", "planner", made, "numpy", "duckdb")
    logs, configs = _apart(logs, compare or [])
    looked_for = {"--budget": budget, "--primary": primary, "--backup": backup}
    _refuse(write_config, as_, [option for option, said in looked_for.items() if said], comparing=bool(configs))
    _spare([*logs, *configs], output, write_config)
    options = _options(budget, primary, backup, target_quantile, price, seed, jobs)
    reading = partial(_read, logs, map_ or [], timezone)
    if configs:
        _compare(reading, configs, asked.pairs(as_ or []), options, made, output)
    else:
        _make(_plan(reading, options), made, output, write_config)


def _refuse(write_config: Path | None, names: list[str] | None, looked_for: Sequence[str], *, comparing: bool) -> None:
    """What cannot be, before anything is done. Raises `ConfigError`."""
    if looked_for and comparing:
        what = " and ".join(looked_for)
        raise ConfigError([f"{what}: not with --compare, which judges configurations as they are"])
    if write_config is not None and comparing:
        raise ConfigError(["--write-config goes with no --compare, which judges configurations that are there"])
    if write_config is not None and write_config.exists():
        raise ConfigError([f"--write-config {write_config}: is there already; name another file"])
    if names and not comparing:
        raise ConfigError(["--as goes with --compare: it says which of the configurations' targets is meant"])


def _spare(read: Sequence[str | Path], output: Path | None, write_config: Path | None) -> None:
    """Nothing that is read is written over. Raises `ConfigError`."""
    if output is None:
        return
    if write_config is not None and output.absolute() == write_config.absolute():
        raise ConfigError([f"--output and --write-config both say {output}; name two files"])
    if output.exists() and any(os.path.exists(each) and output.samefile(each) for each in read):
        raise ConfigError([f"--output {output}: that is read from; name another file"])


def _apart(files: Sequence[str], compare: Sequence[Path]) -> tuple[list[str], list[Path]]:
    """Logs and configurations: of `--compare a.yaml b.yaml` the second is taken for one more log."""
    configs = [*compare, *(Path(each) for each in files if each.endswith((".yaml", ".yml")))]
    if configs and not compare:
        raise ConfigError([f"{configs[0]} is no log; to judge configurations: --compare {' '.join(map(str, configs))}"])
    logs = [each for each in files if not each.endswith((".yaml", ".yml"))]
    if not logs:
        raise ConfigError(["--compare judges configurations on a log: name one before it"])
    return logs, configs


def _options(
    budgets: list[str] | None,
    primaries: list[str] | None,
    backups: list[str] | None,
    quantile: str,
    prices: list[str] | None,
    seed: int,
    jobs: int | None,
) -> Options:
    from hedgerow.planner.search import Options

    return Options(
        budgets=asked.budgets(budgets or asked.BUDGETS),
        target=asked.quantile(quantile),
        seed=seed,
        jobs=jobs or os.cpu_count() or 1,
        primaries=() if primaries in (None, [ALL]) else primaries,
        every=primaries == [ALL],
        backups=backups or (),
        prices=asked.prices(prices or []),
    )


def _read(logs: Sequence[str], said: Sequence[str], timezone: str, tell: Progress) -> tuple[Log, Source]:
    from hedgerow.planner.read import read

    def told(words: str, share: float) -> None:
        tell(round(share * 100), 100, words)

    return read(logs, said, timezone=timezone, progress=told)


def _plan(reading: Callable[[Progress], tuple[Log, Source]], options: Options) -> Plan:
    from hedgerow.planner.search import plan

    with progress() as tell:
        return plan(*reading(tell), options, tell)


def _make(found: Plan, made: Format, output: Path | None, write_config: Path | None) -> None:
    if write_config is not None:
        _write(found, write_config)

    def show(console: Console) -> None:
        from hedgerow.planner import terminal

        terminal.show(found, console, None if write_config is None else str(write_config))

    def page() -> str:
        from hedgerow.planner.page import render

        return render(found)

    make(made, output, data=found, show=show, page=page)


def _compare(
    reading: Callable[[Progress], tuple[Log, Source]],
    configs: Sequence[Path],
    names: Mapping[str, str],
    options: Options,
    made: Format,
    output: Path | None,
) -> None:
    from hedgerow.planner import compared
    from hedgerow.planner.compare import compare

    with progress() as tell:
        found = compare(*reading(tell), configs, names, options, tell)
    make(made, output, data=found, show=partial(compared.show, found), page=partial(compared.render, found))


def _write(found: Plan, path: Path) -> None:
    from hedgerow.planner.fragment import fragment

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(fragment(found))
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror}"]) from None
    typer.echo(f"wrote {path}", err=True)
