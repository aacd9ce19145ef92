"""Files as tables: whatever is in a file becomes columns of text, of which DuckDB is asked only for those needed.

A table's `rows` are SQL with these columns and `torn`, which says of a row that nothing can be read of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from hedgerow.errors import ConfigError
from hedgerow.planner.read_files import File

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SAMPLE = 200
"""Rows of JSON whose keys are looked at."""
DEPTH = 3
OBJECT = 16 << 20
"""Bytes that one row of JSON may have; more where a file is one document."""
LARGEST = 4 << 30
UNPACKED = 20
"""How many times as large a packed document may be."""
DATED = ("TIMESTAMP", "DATE")
"""How the names of types of points in time begin."""
Way = tuple[str, ...]
"""The keys that lead into a row of JSON."""


@dataclass(frozen=True)
class Table:
    """`columns`: their types in DuckDB. `rows(names)`: SQL of a query of these columns."""

    columns: Mapping[str, str]
    rows: Callable[[Sequence[str]], str]


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """An SQL string."""
    return "'" + value.replace("'", "''") + "'"


def table(database: DuckDBPyConnection, file: File) -> Table:
    """What is in a file that is no ledger. Raises `ConfigError`."""
    import duckdb

    try:
        match file.kind:
            case "CSV":
                return _csv(database, file)
            case "Parquet":
                return _parquet(database, file)
            case _:
                return _json(database, file)
    except duckdb.Error as error:
        raise unreadable(file, error) from None


def unreadable(file: File, error: Exception) -> ConfigError:
    """What is said of a file that DuckDB cannot read."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException) and file.kind in ("JSON", "JSON array"):
        return ConfigError([f"{file.name}: is too large for one document; an object a line (JSON lines) can be read"])
    return ConfigError([f"{file.name}: cannot be read as {file.kind}: {str(error).splitlines()[0]}"])


def _csv(database: DuckDBPyConnection, file: File) -> Table:
    options = f"{text(str(file.path))}, header=true, all_varchar=true, compression={text(file.packing)}"
    lenient = f"read_csv({options}, ignore_errors=true)"
    strict = f"read_csv({options}, store_rejects=true, rejects_limit=0)"
    columns = _described(database, f"select * from {lenient}")
    return Table(columns, lambda names: f"select {_listed(names)}, false as torn from {strict}")


def _parquet(database: DuckDBPyConnection, file: File) -> Table:
    source = f"read_parquet({text(str(file.path))})"
    columns = _described(database, f"select * from {source}")

    def rows(names: Sequence[str]) -> str:
        shown = [
            f"{quoted(name)}::timestamptz as {quoted(name)}" if columns[name].startswith(DATED) else quoted(name)
            for name in names
        ]
        return f"select {', '.join([*shown, 'false as torn'])} from {source}"

    return Table(columns, rows)


def _described(database: DuckDBPyConnection, query: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in database.execute(f"describe {query}").fetchall()}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names)) or "null"


def _json(database: DuckDBPyConnection, file: File) -> Table:
    options = _options(file)
    source = f"select json from read_json_objects({options})"
    sample = _sampled(database, source)
    wrapped = _wrapped(sample[0]) if len(sample) == 1 else None
    if wrapped:
        source = f"select unnest(json_extract(json, {text(_path((wrapped,)) + '[*]')})) as json from ({source})"
        sample = _sampled(database, source)
    if any("resourceSpans" in each for each in sample):
        from hedgerow.planner.read_spans import spans

        return spans(source)
    if any(isinstance(each.get("ttfts"), list) for each in sample):
        return _benchmark(source)
    paths = {".".join(path): path for each in sample for path in _paths(each, DEPTH)}
    return _unwrapped(source, paths) if wrapped else _records(options, paths)


def _records(options: str, paths: Mapping[str, Way]) -> Table:
    """A table of a file of JSON objects, of which no more than the wanted keys is ever in memory."""

    def rows(names: Sequence[str]) -> str:
        keys = dict.fromkeys(paths[name][0] for name in names)
        plain = {key for key in keys if all(len(path) == 1 for path in paths.values() if path[0] == key)}
        kinds = ", ".join(f"{text(key)}: '{'VARCHAR' if key in plain else 'JSON'}'" for key in keys)
        shown = [f"{quoted(name) if name in plain else _inside(paths[name])} as {quoted(name)}" for name in names]
        torn = " and ".join(f"{quoted(key)} is null" for key in keys)
        return f"select {', '.join([*shown, f'{torn} as torn'])} from read_json({options}, columns={{{kinds}}})"

    return Table(dict.fromkeys(paths, "VARCHAR"), rows)


def _inside(path: Way) -> str:
    return f"json_extract_string({quoted(path[0])}, {text(_path(path[1:]))})"


def _unwrapped(source: str, paths: Mapping[str, Way]) -> Table:
    """A table of JSON objects that come out of another."""

    def rows(names: Sequence[str]) -> str:
        wanted = ", ".join(text(_path(paths[name])) for name in names)
        shown = [f"found[{place}] as {quoted(name)}" for place, name in enumerate(names, 1)]
        torn = "not starts_with(json::varchar, '{')"
        return (
            f"select {', '.join([*shown, 'torn'])} from (select {torn} as torn, "
            f"json_extract_string(json, [{wanted}]::varchar[]) as found from ({source}))"
        )

    return Table(dict.fromkeys(paths, "VARCHAR"), rows)


def _options(file: File) -> str:
    """How DuckDB is to read its objects."""
    options = f"{text(str(file.path))}, compression={text(file.packing)}"
    match file.kind:
        case "JSON lines":
            return f"{options}, format='newline_delimited', ignore_errors=true, maximum_object_size={OBJECT}"
        case "JSON array":
            return f"{options}, format='array', maximum_object_size={OBJECT}"
    size = file.path.stat().st_size * (1 if file.packing == "none" else UNPACKED)
    return f"{options}, format='unstructured', maximum_object_size={min(max(size, OBJECT), LARGEST)}"


def _sampled(database: DuckDBPyConnection, source: str) -> list[dict[str, Any]]:
    """The first rows that are objects."""
    rows = database.execute(f"select json from ({source}) where json is not null limit {SAMPLE}").fetchall()
    return [row for row in (msgspec.json.decode(row) for (row,) in rows) if isinstance(row, dict)]


def _wrapped(document: Mapping[str, Any]) -> str | None:
    """The key of what is a list of objects in a document that is nothing else, as many APIs answer."""
    lists = [key for key, value in document.items() if isinstance(value, list) and value and isinstance(value[0], dict)]
    lists = [key for key in lists if key != "resourceSpans"]
    return lists[0] if len(lists) == 1 else None


def _paths(document: Mapping[str, Any], depth: int) -> Iterator[Way]:
    for key, value in document.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from ((key, *path) for path in _paths(value, depth - 1))
        elif '"' not in key and "\\" not in key:
            yield (key,)


def _path(keys: Way) -> str:
    return "$" + "".join(f'."{key}"' for key in keys)


_BENCHMARK = {
    "ttfts": "ttfts[*]",
    "start_times": "start_times[*]",
    "input_lens": "input_lens[*]",
    "output_lens": "output_lens[*]",
    "errors": "errors[*]",
}


def _benchmark(source: str) -> Table:
    """`vllm bench serve --save-detailed`: a document with a list for each quantity, the n-th of each of one request."""

    def rows(names: Sequence[str]) -> str:
        lists = {**_BENCHMARK, "model_id": "model_id"}
        shown = [
            f"unnest(json_extract_string(json, '$.{lists[name]}')) as {quoted(name)}"
            if name in _BENCHMARK
            else f"json_extract_string(json, '$.{lists[name]}') as {quoted(name)}"
            for name in names
        ]
        return f"select {', '.join(shown)}, false as torn from ({source})"

    return Table(dict.fromkeys((*_BENCHMARK, "model_id"), "VARCHAR"), rows)
