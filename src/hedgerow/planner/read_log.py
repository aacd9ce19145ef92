"""From rows that are alike to a log: which of them can be used, in the order of time, as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.errors import ConfigError
from hedgerow.planner.log import CANCELLED, LATE_FIRST, NEGATIVE, OPEN, SUPERSEDED, TORN, UNREAD, Ints, Log, printable
from hedgerow.planner.read_rows import FAILED, OK, late
from hedgerow.planner.read_tables import text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LONGEST = 86_400.0
"""Seconds; what took longer is no latency."""
MOST_TARGETS = 500
_LIMITED = r"(?i)^\s*(http[ _-]?)?429(\D.*)?$|rate.?limit|too.?many.?requests"
CROWD = 10
"""Rows with one and the same time, on average, from which on times are coarse."""
EPOCH = 1e8
"""Times before are no Unix times, but seconds of some other clock."""
NO_FIRST = "no time to the first token, where most rows have one"


def log_of(database: DuckDBPyConnection, torn: int) -> tuple[Log, float | None]:
    """The log, and the Unix time of its first row. Raises `ConfigError` if nothing of it can be used."""
    _forget_unset_times(database)
    asked = f"count(*) filter (state = '{OK}'), count(ttft) filter (state = '{OK}')"
    read, with_time, fine, with_first = _one(database, f"select count(*), count(sent), {asked} from rows")
    timed, of_first = with_time * 2 > read and not same_time(database), with_first * 2 > fine
    value = "ttft" if of_first else f"case when state = '{OK}' then total end"
    database.execute(
        f"create view judged as select *, rowid as line, {value} as took, {_reason(timed, of_first)} as bad from rows"
    )
    asked = "select bad, count(*) from judged where bad is not null group by 1 order by 1"
    bad = Counter(dict(database.execute(asked).fetchall()))
    if torn:
        bad[TORN] += torn
    _check(database, read + torn, bad)
    names = _names(database)
    targets = sorted(set(names.values()))
    which = np.array([targets.index(name) for name in names.values()], dtype=np.int64)
    columns = _fetched(database, timed)
    log = _arrays(columns, targets, which, bad, read + torn, timed=timed, of_first=of_first)
    (unread,) = _one(database, "select count(unread) from rows")
    log = _spread(replace(log, limited=_limited(database, names), unread=unread))
    started_at = float(columns["sent"][0]) if timed else None
    return log, started_at if started_at is None or started_at > EPOCH else None


def same_time(database: DuckDBPyConnection) -> bool:
    """Whether all rows have one and the same, such as a day, which says nothing of when."""
    count, first, last = _one(database, "select count(sent), min(sent), max(sent) from rows")
    return bool(count > 1 and first == last)


def _forget_unset_times(database: DuckDBPyConnection) -> None:
    """Where times are Unix times, one of the years before (0, or the first of January of the year 1) is none."""
    database.execute(f"update rows set sent = null where sent < {EPOCH} and (select median(sent) from rows) > {EPOCH}")


def _check(database: DuckDBPyConnection, read: int, bad: Counter[str]) -> None:
    """That something is left to plan by."""
    if not read:
        raise ConfigError(["there are no rows in it"])
    if read == bad.total():
        hint = "; if a unit is wrong, --map ttft=COLUMN:ms or --map total=COLUMN:ms says it"
        hint = hint if bad[LATE_FIRST] * 2 > read else ""
        raise ConfigError([f"none of the {read:,} rows can be used: {_told(bad)}{hint}"])
    if not _one(database, "select count(*) from judged where bad is null and state <> 'failed'")[0]:
        left = f"; the rest cannot be used: {_told(bad)}" if bad else ""
        raise ConfigError([f"no row has a latency to plan by: {read - bad.total():,} are failures{left}"])


def _one(database: DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    return database.execute(query).fetchone() or ()


def _told(bad: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} ({count:,})" for reason, count in sorted(bad.items(), key=lambda item: -item[1]))


def _reason(timed: bool, of_first: bool) -> str:
    """SQL of why a row cannot be used; null where it can."""
    latency = "ttft" if of_first else "coalesce(total, ttft)"
    heard = ", ".join(map(text, (SUPERSEDED, CANCELLED, OPEN)))  # a first token may have come before
    untimed = f"case when unread is null then 'no time' else {text(UNREAD)} end"
    return f"""
    case
        when state = '{FAILED}' then {f"case when sent is null then {untimed} end" if timed else "null"}
        when state <> '{OK}' and not ({"ttft is not null" if of_first else "false"} and state in ({heard})) then state
        when coalesce(ttft, total) is null then 'no latency, or none that is a number'
        when {latency} is null then {text(NO_FIRST)}
        when isnan({latency}) or isinf({latency}) then 'a latency that is no number'
        when {latency} < 0 then {text(NEGATIVE)}
        when {latency} = 0 then 'a latency of zero'
        when {latency} > {LONGEST} then 'a latency of more than a day'
        when {late("ttft", "total")} then {text(LATE_FIRST)}
        when {"sent is null" if timed else "false"} then {untimed}
    end
    """


def _names(database: DuckDBPyConnection) -> dict[tuple[str, str | None], str]:
    """What each target and endpoint is called: the endpoint is named where it tells two from each other."""
    pairs = database.execute(
        f"select distinct target, endpoint from judged where bad is null order by 1, 2 limit {MOST_TARGETS + 1}"
    ).fetchall()
    if len(pairs) > MOST_TARGETS:
        many = f"there are more than {MOST_TARGETS} targets, such as {pairs[0][0]!r}"
        raise ConfigError([f"{many}: say which column names them, --map target=COLUMN"])
    places = Counter(target for target, _ in pairs)
    return {
        (target, endpoint): f"{target} {endpoint}" if endpoint and places[target] > 1 else target
        for target, endpoint in pairs
    }


def _limited(database: DuckDBPyConnection, names: Mapping[tuple[str, str | None], str]) -> dict[str, float]:
    """Of each target the share of attempts that were turned away, by what the log says of failures."""
    away = f"state = 'failed' and regexp_matches(word, {text(_LIMITED)})"
    shares = database.execute(
        f"select target, endpoint, count(*) filter ({away}) / count(*) from judged where bad is null "
        "group by 1, 2 order by 1, 2"
    ).fetchall()
    return {names[target, endpoint]: share for target, endpoint, share in shares if share}


def _fetched(database: DuckDBPyConnection, timed: bool) -> dict[str, Any]:
    database.execute(
        "create table places as select target, endpoint, row_number() over (order by target, endpoint) - 1 as place "
        "from (select distinct target, endpoint from judged where bad is null)"
    )
    return database.execute(
        "select sent, took, state = 'failed' as failed, coalesce(nullif(total, 0), ttft) as lasted, "
        "input_tokens, output_tokens, usd, request, place "
        "from judged join places on judged.target = places.target "
        "and judged.endpoint is not distinct from places.endpoint "
        f"where bad is null order by {'sent, ' if timed else ''}judged.line"
    ).fetchnumpy()


def _arrays(
    columns: Mapping[str, Any],
    targets: Sequence[str],
    which: Ints,
    bad: Mapping[str, int],
    read: int,
    *,
    timed: bool,
    of_first: bool,
) -> Log:
    failed = _filled(columns["failed"], False).astype(bool)
    at = _filled(columns["sent"], np.nan) if timed else np.arange(len(failed), dtype=np.float64)
    usd = _filled(columns["usd"], np.nan)
    lasted = _filled(columns["lasted"], np.nan)
    failed_after = np.where(failed & (lasted > 0.0) & (lasted <= LONGEST), lasted, np.nan)
    output_tokens = _filled(columns["output_tokens"], 0).astype(np.int64)
    return Log(
        at=at - at[0],
        ttft=np.where(failed, np.nan, _filled(columns["took"], np.nan)),
        failed=failed,
        input_tokens=np.maximum(_filled(columns["input_tokens"], 0).astype(np.int64), 0),
        target=which[_filled(columns["place"], 0)],
        request=_numbered(columns["request"]),
        targets=[printable(each) for each in targets],
        timed=timed,
        of_first_token=of_first,
        read=read,
        bad=dict(sorted(bad.items())),
        output_tokens=output_tokens if output_tokens.any() else None,
        usd=usd if not np.isnan(usd).all() else None,
        failed_after=failed_after if not np.isnan(failed_after).all() else None,
    )


def _spread(log: Log) -> Log:
    """With the rows of one time one after the other until the next could be, where times are coarse.

    How coarse is told by those that many rows have: one of another kind among them changes nothing.

    Otherwise hours of traffic would come at once, of which nothing could be learned in time.
    """
    if not log.timed:
        return log
    times, which, counts = np.unique(log.at, return_inverse=True, return_counts=True)
    if len(times) < 2 or len(log) <= len(times) * max(CROWD, 3 * len(log.targets)):
        return log
    place = np.arange(len(log)) - (np.cumsum(counts) - counts)[which]
    crowded = times[counts >= CROWD]
    step = float(np.diff(crowded if len(crowded) > 1 else times).min())
    until = np.minimum(np.append(np.diff(times), step), step)
    return replace(log, at=log.at + until[which] * place / counts[which], stamps=len(times))


def _filled(column: Any, nothing: float) -> Any:
    return np.ma.filled(column, nothing)


def _numbered(names: Any) -> Ints:
    """0, 1, ... in the order of names; -1 for none."""
    found = np.full(len(names), -1, dtype=np.int64)
    named = ~np.ma.getmaskarray(names)
    found[named] = np.unique(np.ma.getdata(names)[named], return_inverse=True)[1]
    return found
