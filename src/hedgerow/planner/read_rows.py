"""The SQL that makes rows of one kind of all tables: when, how long, where to, what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hedgerow.planner.columns import DURATIONS, FIELDS, TIMES, Column
from hedgerow.planner.log import CANCELLED, OPEN, REFUSED, SUPERSEDED, TORN
from hedgerow.planner.read_shapes import Shape, named
from hedgerow.planner.read_tables import DATED, Table, quoted, text

ROWS = """
create table rows (
    sent double, ttft double, total double, input_tokens bigint, output_tokens bigint, usd double,
    target varchar, endpoint varchar, request ubigint, state varchar, word varchar, unread varchar, odd varchar
)
"""
"""`state`: ok, failed, or the reason why a row says nothing. `word`: for a failure, its own. `unread`: what a row
says in place of a time, `odd`: in place of a latency.
"""
OK, FAILED = "ok", "failed"
_GOOD = (
    r"(?i)^\s*(ok|true|success|succeeded|successful|completed?|done|finished|default|debug|info|warning|won|kept|"
    r"rejected|failed_after_commit|stop|eos|length|end_turn|max_tokens|stop_sequence|tool_use|tool_calls|function_call|"
    r"null|none|1(\.0)?|(http[ _-]?)?2\d\d(\.0|\D.*)?)?\s*$"
)
_REFUSED = r"(?i)^\s*(http[ _-]?)?4(0[0-79]|1\d|2[0-46-8]|31|51)(\.0|\D.*)?$"
_CANCELLED = r"(?i)^\s*(499.*|client_gone|cancell?ed|aborted|client_closed.*)\s*$"
_STATES = ((_REFUSED, REFUSED), (_CANCELLED, CANCELLED), ("^superseded$", SUPERSEDED), ("^(open|lost)$", OPEN))
_NOTHING = r"(?i)^\s*(0|none|null|false|\{\}|\[\])?\s*$"
_WEB_SERVER = "%d/%b/%Y:%H:%M:%S %z"
_NOT_SAID = r"(?i)^\s*(nan|nat|none|null|n/?a|-)?\s*$"
_WITH_UNIT = r"^\s*\+?([0-9.]+)\s*(ns|us|µs|ms|s|sec|m|min)\s*$"


def late(first: str, whole: str) -> str:
    """SQL of a first token after the end; clocks are not exact."""
    return f"{first} > {whole} * 1.001 + 0.001"


@dataclass(frozen=True)
class Taken:
    """A table, and what of it is taken for what."""

    table: Table
    shape: Shape
    columns: Mapping[str, Column]
    fallback: str
    """What is called the target of rows where no column names one."""

    def query(self) -> str:
        """SQL of its rows, in the order of `ROWS`."""
        wanted = {column.name for column in self.columns.values()} | named(self.shape.where)
        for sql in (*self.shape.instead.values(), *(sql for sql, _ in self.shape.unusable)):
            wanted |= named(sql)
        fields = ", ".join(f"{self._field(name)} as f_{name}" for name in FIELDS)
        # rows that are torn have no columns to be told by
        those = f"torn or ({self.shape.where})"
        source = self.table.rows([name for name in self.table.columns if name in wanted])
        return _TIDY.format(
            fallback=text(self.fallback),
            target=_host("f_target"),
            endpoint=_host("f_endpoint"),
            unread=_said("said_at"),
            odd=f"coalesce({_said('said_ttft')}, {_said('said_total')})",
            source=f"select {fields}, {', '.join(map(self._raw, ('at', *DURATIONS)))}, {self._state()} as state, "
            f"{self._word()} as word from ({source}) where {those}",
        )

    def _text(self, field: str) -> str:
        column = self.columns.get(field)
        if column is None:
            return "null"
        return self.shape.instead.get(field, quoted(column.name))

    def _raw(self, field: str) -> str:
        return f"cast({self._text(field)} as varchar) as said_{field}"

    def _field(self, field: str) -> str:
        value, column = self._text(field), self.columns.get(field)
        if field in TIMES or field in DURATIONS:
            dated = column is not None and self.table.columns[column.name].startswith(DATED)
            return f"epoch({value})" if dated else _seconds(value, field, 1.0 if column is None else column.unit or 1.0)
        if field in ("input_tokens", "output_tokens"):
            return f"try_cast(round(try_cast({value} as double)) as bigint)"
        if field == "cost":
            cost, unit = f"try_cast({value} as double)", (column.unit if column else None) or 1.0
            return f"case when isfinite({cost}) and {cost} >= 0 then {cost} * {unit} end"  # -1 and NaN: not known
        return f"cast({value} as varchar)"

    def _state(self) -> str:
        status, error = f"cast({self._text('status')} as varchar)", f"cast({self._text('error')} as varchar)"
        cases = [f"when torn then {text(TORN)}"]
        cases += [f"when {sql} then {text(why)}" for sql, why in self.shape.unusable]
        for value, nothing in ((status, _GOOD), (error, _NOTHING)):
            cases += [f"when regexp_matches({value}, {text(regex)}) then {text(why)}" for regex, why in _STATES]
            cases += [f"when not regexp_matches({value}, {text(nothing)}) then {text(FAILED)}"]
        return f"case {' '.join(cases)} else {text(OK)} end"

    def _word(self) -> str:
        return f"coalesce(cast({self._text('status')} as varchar), 'error')"


_TIDY = """
select
    case when isfinite(came) then came end as sent,
    nullif(coalesce(f_ttft, f_first - f_at), 0) as ttft,  -- 0 is how many logs write that there is none
    coalesce(f_total, f_end - f_at) as total,
    f_input_tokens, f_output_tokens, f_cost,
    coalesce(
        case
            when starts_with(f_model, f_target || '/') then f_model
            else nullif(concat_ws(' ', nullif({target}, ''), nullif(f_model, '')), '')
        end, {fallback}
    ),
    {endpoint},
    case when f_request <> '' then hash(f_request) end,
    state,
    case when state = 'failed' then word end,
    case when sent is null then {unread} end,
    case when coalesce(f_ttft, f_total) is null then {odd} end
from (select *, coalesce(f_at, f_end - f_total, f_first - f_ttft) as came from ({source}))
"""


def _said(field: str) -> str:
    """SQL of what a field says, where that is anything."""
    return f"case when not regexp_matches({field}, {text(_NOT_SAID)}) then {field} end"


def _host(field: str) -> str:
    """SQL of an address without its way, its question and the names in it; of anything else, itself."""
    return f"regexp_replace({field}, '^[a-z]+://(?:[^/@]*@)?([^/?#]+).*$', '\\1')"


def _seconds(value: str, field: str, unit: float) -> str:
    number = f"try_cast({value} as double) * {unit}"
    parts = [f"regexp_extract(cast({value} as varchar), {text(_WITH_UNIT)}, {group})" for group in (1, 2)]
    with_unit = (
        f"try_cast({parts[0]} as double) * case {parts[1]} when 'ns' then 1e-9 when 'us' then 1e-6 when 'µs' then 1e-6 "
        f"when 'ms' then 1e-3 when 'm' then 60 when 'min' then 60 else 1 end"
    )
    if field in DURATIONS:
        return f"coalesce({number}, {with_unit})"
    return f"coalesce({number}, {_date(value)}, {with_unit})"


def _date(value: str) -> str:
    """SQL of the seconds since 1970 of a date and time: of ISO 8601, as Python and Go write it, too (a comma before
    milliseconds, an offset apart), or of web servers' logs.
    """
    said, plain = f"cast({value} as varchar)", value
    for regex, by in ((r"(:\d\d),(\d+)", r"\1.\2"), (r"\s+([+-]\d\d:?\d\d)( [A-Z]+)?$", r"\1")):
        plain = f"regexp_replace({plain if plain != value else said}, {text(regex)}, {text(by)})"
    first = f"try_cast({value} as timestamptz)"
    return f"epoch(coalesce({first}, try_cast({plain} as timestamptz), try_strptime({said}, {text(_WEB_SERVER)})))"
