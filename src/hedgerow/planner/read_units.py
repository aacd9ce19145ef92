"""Units and zones of a table's times, told by what is in them where neither names nor their owner say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from hedgerow.planner.columns import DURATIONS, TIMES, Column
from hedgerow.planner.read_rows import late
from hedgerow.planner.read_tables import DATED, Table, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SECONDS = 1.0
_LIKELY = {SECONDS: (0.0, 60.0), 1e-3: (1.0, 3_600e3), 1e-9: (1e6, 3_600e9)}
"""Of each unit that is guessed, in this order, between which numbers a median latency lies."""
_SAMPLE = 10_000
"""Rows that units are told by."""
_EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
_NAIVE = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d([.,]\d*)?)?)?$"
"""A date, and maybe a time, without a zone."""


class Units:
    """Of the times of one table: `columns` as they were mapped, with their units; `notes` say what was assumed.

    A point in time is seconds, or a thousandth of these and so on, by its distance from 1970; of durations see
    `_chosen`.
    """

    def __init__(
        self, database: DuckDBPyConnection, content: Table, mapped: Mapping[str, Column], timezone: str
    ) -> None:
        self._database, self._content = database, content
        self.columns = dict(mapped)
        self.notes: list[str] = []
        asked = {field: column for field, column in mapped.items() if field in (*TIMES, *DURATIONS)}
        dated = {field: content.columns[column.name] for field, column in asked.items()}
        zoneless = any(field in TIMES and _is_naive(kind) for field, kind in dated.items())
        self._plain = {field: column for field, column in asked.items() if not dated[field].startswith(DATED)}
        told = [field for field, column in self._plain.items() if column.unit in (None, SECONDS)]
        medians, written = self._seen(told)
        if zoneless or any(written[field] for field in TIMES if field in written):
            self.notes.append(f"times without a zone are taken as {timezone}")
        self._assume({field: median for field, median in medians.items() if self._plain[field].unit is None})

    def _rows(self, fields: Sequence[str]) -> str:
        """SQL of the numbers of some fields, by their names."""
        names = list(dict.fromkeys(self._plain[field].name for field in fields))
        shown = ", ".join(f"try_cast({quoted(self._plain[field].name)} as double) as f_{field}" for field in fields)
        texts = ", ".join(f"{quoted(self._plain[field].name)}::varchar as t_{field}" for field in fields)
        return f"select {shown}, {texts} from ({self._content.rows(names)} limit {_SAMPLE})"

    def _seen(self, fields: Sequence[str]) -> tuple[dict[str, float], dict[str, int]]:
        """Of each field with numbers their median, and of each how often it is a time without a zone."""
        if not fields:
            return {}, {}
        shown = ", ".join(
            f"median(abs(f_{field})) filter (f_{field} <> 0), count(*) filter (regexp_matches(t_{field}, '{_NAIVE}'))"
            for field in fields
        )
        found = self._database.execute(f"select {shown} from ({self._rows(fields)})").fetchone() or ()
        medians = {field: median for field, median in zip(fields, found[::2], strict=True) if median is not None}
        return medians, dict(zip(fields, found[1::2], strict=True))

    def _assume(self, medians: Mapping[str, float]) -> None:
        durations = self._chosen({field: median for field, median in medians.items() if field in DURATIONS})
        units = {field: _of_epoch(median) for field, median in medians.items() if field in TIMES} | durations
        for field in medians:
            column = self.columns[field] = Column(self._plain[field].name, units[field])
            self.notes.append(f"`{column.name}` is taken as {column.words(field)}, by the size of its numbers")
        self.notes += self._apart(durations)

    def _chosen(self, medians: Mapping[str, float]) -> dict[str, float]:
        """A unit for each duration, all of them together.

        First of all, a first token comes before the end, then each median is a likely one, then all have one unit.
        """
        ways = [dict(zip(medians, units, strict=True)) for units in product(_LIKELY, repeat=len(medians))]
        wrong = self._late(ways)

        def unlikely(place: int) -> tuple[bool, int, int]:
            way = ways[place]
            odd = [not _LIKELY[unit][0] <= medians[each] <= _LIKELY[unit][1] for each, unit in way.items()]
            return wrong[place], sum(odd), len(set(self._with(way).values()))

        return ways[min(range(len(ways)), key=unlikely)]

    def _with(self, way: Mapping[str, float]) -> dict[str, float]:
        """With those durations whose units are known."""
        said = ((field, self._plain[field].unit) for field in DURATIONS if field in self._plain)
        return {field: unit for field, unit in said if unit is not None} | dict(way)

    def _late(self, ways: Sequence[Mapping[str, float]]) -> Sequence[bool]:
        """Of each way whether most first tokens would come after the end."""
        units = [self._with(way) for way in ways]
        if any(len(each) < len(DURATIONS) for each in units):
            return [False] * len(ways)
        shown = ", ".join(
            f"count(*) filter ({late(first, whole)}) * 2 > count(f_ttft + f_total)"
            for first, whole in ((f"f_ttft * {each['ttft']}", f"f_total * {each['total']}") for each in units)
        )
        return self._database.execute(f"select {shown} from ({self._rows(DURATIONS)})").fetchone() or ()

    def _apart(self, guessed: Mapping[str, float]) -> Iterator[str]:
        """That units differ which were not both said."""
        units = self._with(guessed)
        if guessed and len(set(units.values())) > 1:
            both = [f"`{self.columns[field].name}` {self.columns[field].words(field)}" for field in DURATIONS]
            yield f"{' and '.join(both)}: by their numbers they are not of one unit; --map FIELD=COLUMN:UNIT says which"


def _is_naive(kind: str) -> bool:
    return kind.startswith(DATED) and not kind.endswith("TIME ZONE")


def _of_epoch(median: float) -> float:
    return next((unit for least, unit in _EPOCHS if median > least), SECONDS)
