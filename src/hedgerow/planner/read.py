"""Reads what people have: CSV, JSON lines and Parquet, with DuckDB, whatever their columns are called.

Bad rows are counted by reason and never silently dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.errors import ConfigError
from hedgerow.planner.columns import DURATIONS, FIELDS, TIMES, Column, Mapped, guessed
from hedgerow.planner.log import Log
from hedgerow.planner.plan import Source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_READERS = {
    ".csv": "read_csv(?, sample_size=20000, store_rejects=true, rejects_limit=0)",
    ".tsv": "read_csv(?, sample_size=20000, store_rejects=true, rejects_limit=0)",
    ".jsonl": "read_json_auto(?, format='newline_delimited', ignore_errors=true)",
    ".ndjson": "read_json_auto(?, format='newline_delimited', ignore_errors=true)",
    ".json": "read_json_auto(?)",
    ".parquet": "read_parquet(?)",
}
_DATES = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DATE", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S")
_MINUTE = 60.0
_EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
LONGEST = 86_400.0
"""Seconds; what took longer is no latency."""
_GOOD = r"(?i)^(ok|success|succeeded|completed?|won|stop|length|2\d\d|200.*|null|superseded)?$"


def read(paths: Sequence[Path], said: Sequence[str] = ()) -> tuple[Log, Source]:
    """One log from these files, and what was taken for what; `said` as in `columns.guessed`.

    Raises `ConfigError`, which says what is missing.
    """
    try:
        import duckdb
    except ImportError:
        raise ConfigError(["reading logs needs DuckDB: pip install 'hedgerow[planner]'"]) from None
    with duckdb.connect() as database:
        mapped: Mapped = {}
        for number, path in enumerate(paths):
            mapped = _load(database, path, number, said)
        union = " union all ".join(f"select * from log{number}" for number in range(len(paths)))
        log, started_at = _log(database, f"({union})")
    return log, _source(log, paths, mapped, started_at)


def _source(log: Log, paths: Sequence[Path], mapped: Mapped, started_at: float | None) -> Source:
    return Source(
        files=tuple(str(path) for path in paths),
        format="/".join(sorted({path.suffix[1:] for path in paths})),
        columns=tuple((field, column.name, column.words) for field, column in mapped.items()),
        read=log.read,
        used=len(log),
        bad=tuple(log.bad.items()),
        notes=tuple(log.notes),
        started_at=started_at,
        seconds=float(log.at[-1]) if log.timed and len(log) else 0.0,
        of_first_token=log.of_first_token,
    )


def _load(database: DuckDBPyConnection, path: Path, number: int, said: Sequence[str]) -> Mapped:
    import duckdb

    suffix = next((each for each in path.suffixes[::-1] if each in _READERS), None)
    if suffix is None:
        raise ConfigError([f"{path}: what kind of log is this? Known are {', '.join(_READERS)}"])
    if not path.is_file():
        raise ConfigError([f"{path}: there is no such file"])
    try:
        database.execute(f"create table raw{number} as select * from {_READERS[suffix]}", [str(path)])
    except duckdb.Error as error:
        raise ConfigError([f"{path}: cannot be read as {suffix[1:]}: {str(error).splitlines()[0]}"]) from None
    kinds = {name: kind for name, kind, *_ in database.execute(f"describe raw{number}").fetchall()}
    mapped = guessed(list(kinds), said)
    if "target" not in mapped and "ttft" not in mapped and "total" not in mapped and "first" not in mapped:
        raise ConfigError(
            [f"{path}: no column of it is a latency; it has {', '.join(kinds)}. Say which: --map ttft=COLUMN:ms"]
        )
    mapped = {field: _with_unit(database, f"raw{number}", field, column, kinds) for field, column in mapped.items()}
    shown = ", ".join(f"{_select(field, mapped.get(field), kinds)} as f_{field}" for field in FIELDS)
    database.execute(f"create view log{number} as select {shown} from raw{number}")
    return mapped


def _with_unit(
    database: DuckDBPyConnection, table: str, field: str, column: Column, kinds: Mapping[str, str]
) -> Column:
    """The column with its unit told by the size of its numbers, where neither its name nor its owner says one.

    A median latency above a minute is one of milliseconds; a point in time is seconds, or a thousandth of these and so
    on, by its distance from 1970.
    """
    if column.unit is not None or field not in (*TIMES, *DURATIONS) or kinds[column.name] in _DATES:
        return column
    asked = f"select median(abs(try_cast({_quoted(column.name)} as double))) from {table}"
    median = (database.execute(asked).fetchone() or (None,))[0] or 0.0
    if field in DURATIONS:
        return Column(column.name, 1e-3 if median > _MINUTE else 1.0)
    return Column(column.name, next((unit for least, unit in _EPOCHS if median > least), 1.0))


def _select(field: str, column: Column | None, kinds: Mapping[str, str]) -> str:
    """The SQL of a field, in seconds where it is a time."""
    if column is None:
        return "null::varchar" if field in ("target", "model", "status", "request") else "null::double"
    name, kind = _quoted(column.name), kinds[column.name]
    if field in TIMES and kind.startswith(_DATES):
        return f"epoch({name})"
    if field in TIMES and kind == "VARCHAR":
        return f"coalesce(epoch(try_cast({name} as timestamptz)), try_cast({name} as double) * {column.unit})"
    if field in (*TIMES, *DURATIONS):
        return f"try_cast({name} as double) * {column.unit}"
    if field in ("input_tokens", "output_tokens", "cost"):
        return f"try_cast({name} as double)"
    return f"cast({name} as varchar)"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_TIDY = """
select
    coalesce(f_at, f_end - f_total, f_first - f_ttft) as sent,
    coalesce(f_ttft, f_first - f_at) as ttft,
    coalesce(f_total, f_end - f_at) as total,
    coalesce(f_input_tokens, 0) as input_tokens,
    concat_ws(' ', nullif(f_target, ''), nullif(f_model, '')) as target,
    coalesce(not regexp_matches(f_status, $good), false) as failed,
    f_request as request
from {source}
"""
_REASONS = """
case
    when failed then null
    when coalesce(ttft, total) is null then 'no latency, or none that is a number'
    when isnan(coalesce(ttft, total)) or isinf(coalesce(ttft, total)) then 'a latency that is no number'
    when coalesce(ttft, total) < 0 then 'a negative latency'
    when coalesce(ttft, total) > $longest then 'a latency of more than a day'
    when ttft > total * 1.001 + 0.001 then 'a first token after the end'
    when $timed and sent is null then 'no time'
    else null
end
"""


def _log(database: DuckDBPyConnection, source: str) -> tuple[Log, float | None]:
    tidy = f"({_TIDY.format(source=source)})"
    good = {"good": _GOOD}
    torn = _torn(database)
    counts = f"select count(*), count(sent), count(ttft) filter (not failed), count(*) filter (not failed) from {tidy}"
    read, with_time, with_first, fine = database.execute(counts, good).fetchone() or (0, 0, 0, 0)
    timed, of_first = with_time * 2 > read, with_first * 2 > fine
    told = good | {"longest": LONGEST, "timed": timed}
    database.execute(f"create table tidy as select *, {_REASONS} as bad from {tidy}", told)
    bad = dict(
        database.execute("select bad, count(*) from tidy where bad is not null group by 1 order by 1").fetchall()
    )
    if torn:
        bad["a line that is not like the others"] = torn
    value = "ttft" if of_first else "total"
    if of_first and (rest := with_time and _count(database, "bad is null and not failed and ttft is null")):
        bad["no time to the first token, where most rows have one"] = rest
    wanted = f"bad is null and (failed or {value} is not null)"
    names = [
        name for (name,) in database.execute(f"select distinct target from tidy where {wanted} order by 1").fetchall()
    ]
    order = "sent, rowid" if timed else "rowid"
    columns = database.execute(
        f"select sent, {value} as took, failed, input_tokens, dense_rank() over (order by target) - 1 as target, "
        f"case when request is null then -1 else dense_rank() over (order by request) end as request "
        f"from tidy where {wanted} order by {order}"
    ).fetchnumpy()
    started_at = float(columns["sent"][0]) if timed and len(columns["sent"]) else None
    return _arrays(columns, names, read + torn, bad, timed=timed, of_first=of_first), started_at


def _torn(database: DuckDBPyConnection) -> int:
    """Lines of CSV files that DuckDB could not make a row of, its own record of them."""
    import duckdb

    try:
        found = database.execute(
            "select count(*) from (select distinct scan_id, file_id, line from reject_errors)"
        ).fetchone()
    except duckdb.CatalogException:  # no CSV was read
        return 0
    return 0 if found is None else int(found[0])


def _count(database: DuckDBPyConnection, which: str) -> int:
    found = database.execute(f"select count(*) from tidy where {which}").fetchone()
    return 0 if found is None else int(found[0])


def _arrays(
    columns: dict[str, Any], names: list[str], read: int, bad: dict[str, int], *, timed: bool, of_first: bool
) -> Log:
    count = len(columns["took"])
    at = np.ma.filled(columns["sent"], np.nan) if timed else np.arange(count, dtype=np.float64)
    failed = np.ma.filled(columns["failed"], False).astype(bool)
    took = np.where(failed, np.nan, np.ma.filled(columns["took"], np.nan))
    return Log(
        at=at - at[0] if count else at,
        ttft=took,
        failed=failed,
        input_tokens=np.ma.filled(columns["input_tokens"], 0).astype(np.int64),
        target=columns["target"].astype(np.int64),
        request=columns["request"].astype(np.int64),
        targets=[name or "all" for name in names],
        timed=timed,
        of_first_token=of_first,
        read=read,
        bad=bad,
    )
