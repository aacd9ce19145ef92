"""The sums of an hour, worked out by the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, Table, and_, case, cast, func, select

from hedgerow.cost import Certainty
from hedgerow.ledger.histogram import bucket_of
from hedgerow.ledger.schema import attempt_hours, attempts, request_hours, requests

_HOUR: Final = 3_600_000_000
_TOKENS: Final = "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"


class _Shape(NamedTuple):
    """How rows become those of an hourly table: from where, alike in what, what is added up, and two times."""

    source: FromClause
    alike: dict[str, ColumnElement[Any]]
    added: dict[str, ColumnElement[Any]]
    times: dict[str, ColumnElement[int]]


def sums_of(connection: Connection, table: Table, hour: int) -> list[dict[str, Any]]:
    """Rows for an hourly table."""
    shape = _SHAPES[table]
    within = and_(requests.c.started_at >= hour, requests.c.started_at < hour + _HOUR)
    named = [column.label(name) for name, column in {**shape.alike, **shape.added}.items()]
    inner = select(*named).select_from(shape.source).where(within).subquery()
    alike = [inner.c[name] for name in shape.alike]
    added = [cast(func.coalesce(func.sum(inner.c[name]), 0), BigInteger).label(name) for name in shape.added]
    found = connection.execute(select(*alike, *added).group_by(*alike))
    rows: dict[tuple[Any, ...], dict[str, Any]] = {
        tuple(row[: len(alike)]): {"hour": hour, **row._mapping} for row in found
    }
    for name, time in shape.times.items():
        histograms: dict[tuple[Any, ...], dict[int, int]] = {}
        for key, low, count in _buckets(connection, shape, time, within):
            histograms.setdefault(key, {})[low] = count
        for key, row in rows.items():
            row[name] = json.dumps(histograms.get(key, {}), separators=(",", ":"))
    return list(rows.values())


def _buckets(
    connection: Connection, shape: _Shape, time: ColumnElement[int], within: ColumnElement[bool]
) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    named = [column.label(name) for name, column in shape.alike.items()]
    each = select(*named, bucket_of(time).label("low")).select_from(shape.source)
    inner = each.where(within, time.is_not(None), time >= 0).subquery()
    for row in connection.execute(select(*inner.c, func.count()).group_by(*inner.c)):
        yield tuple(row[:-2]), row[-2], row[-1]


def _or_empty(*columns: ColumnElement[Any]) -> dict[str, ColumnElement[Any]]:
    return {str(column.key): func.coalesce(column, "") for column in columns}


def _costs(table: Table) -> dict[str, ColumnElement[Any]]:
    cost = table.c.cost_nanousd
    by = {f"{each.value}_nanousd": case((table.c.certainty == each.value, cost), else_=0) for each in Certainty}
    return {**by, "unpriced": case((cost.is_(None), 1), else_=0)}


def _tokens(table: Table) -> dict[str, ColumnElement[Any]]:
    return {name: table.c[name] for name in _TOKENS}


def _one(column: ColumnElement[Any]) -> ColumnElement[int]:
    return case((column.is_not(None), 1), else_=0)


def _shapes() -> dict[Table, _Shape]:
    r, a = requests.c, attempts.c
    joined = attempts.join(requests, and_(a.process == r.process, a.number == r.number))
    return {
        request_hours: _Shape(
            requests,
            {
                **_or_empty(r.route),
                "stream": r.stream,
                **_or_empty(r.outcome, r.tenant, r.arm, r.winner_target, r.winner_role, r.hedge_reason),
            },
            {
                "requests": _one(r.process),
                "attempts": r.attempts,
                "hedges": r.hedges,
                **_tokens(requests),
                **_costs(requests),
                "extra_nanousd": r.extra_nanousd,
            },
            {"first_token_us": r.first_token_at - r.started_at, "total_us": r.ended_at - r.started_at},
        ),
        attempt_hours: _Shape(
            joined,
            {
                **_or_empty(r.route),
                "stream": r.stream,
                **_or_empty(a.outcome, a.target, a.model, a.role, a.error_class),
            },
            {"attempts": _one(a.process), **_tokens(attempts), **_costs(attempts)},
            {"first_token_us": a.first_token_at - a.launched_at, "total_us": a.ended_at - a.launched_at},
        ),
    }


_SHAPES: Final = _shapes()
