"""Rows of dead processes, sums of hours and old rows: also when somebody is killed half-way, or writes meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Engine, cast, func, literal, select

from hedgerow.cost import Certainty
from hedgerow.events import AttemptLaunched, Role
from hedgerow.ledger import read, upkeep
from hedgerow.ledger.book import Book
from hedgerow.ledger.histogram import add, bucket, bucket_of, quantile
from hedgerow.ledger.record import PROMPT, Content, Part, Told
from hedgerow.ledger.rollup import sums_of
from hedgerow.ledger.rows import AttemptHour, AttemptRow, RequestHour, RequestRow
from hedgerow.ledger.schema import attempts, contents, processes, requests
from hedgerow.ledger.store import open_store
from hedgerow.ledger.tables import HOUR, Tables, hour_of
from hedgerow.ledger.upkeep import GONE, SETTLED, Upkeep
from tests.ledger.support import EPOCH, MICRO, batches, bill, hello, told

NOW = int(EPOCH) * MICRO
FIRST = hour_of(NOW)
OVER = FIRST + HOUR + SETTLED + 1
"""When the first hour is to be summed up."""


class Scene:
    """A database, one process that writes to it, and its upkeep."""

    def __init__(self, engine: Engine, url: str) -> None:
        self.engine = engine
        self.url = url
        self.told = hello(url)
        self.tables = Tables(engine, self.told, NOW)
        self.process = self.tables.process
        self.reader = open_store(url)
        self.upkeep = Upkeep(engine, self.reader)
        self._batch = 0
        self._found: list[Told] = []
        self._book = Book(self._found.append, EPOCH)

    def write(self, *events: Any) -> None:
        for event in events:
            self._book(event)
        found = [*self._found, *self._book.unfinished()]
        self._found.clear()
        self.tables.write(batches(*found, first=self._batch + 1), NOW)
        self._batch += len(found)

    def requests(self) -> list[RequestRow]:
        with read.ledger(self.url) as ledger:
            return [row for page in ledger.requests() for row in page]

    def attempts(self) -> list[AttemptRow]:
        with read.ledger(self.url) as ledger:
            return [row for page in ledger.attempts() for row in page]

    def sums(self) -> tuple[list[RequestHour], list[AttemptHour]]:
        with read.ledger(self.url) as ledger:
            return [row for page in ledger.request_hours() for row in page], [
                row for page in ledger.attempt_hours() for row in page
            ]

    def count(self, table: Any) -> int:
        with self.engine.connect() as connection:
            found = connection.execute(select(func.count()).select_from(table)).scalar()
        assert found is not None
        return found


@pytest.fixture
def scene(engine: Engine, url: str) -> Iterator[Scene]:
    scene = Scene(engine, url)
    yield scene
    scene.reader.dispose()


# --- what is lost ----------------------------------------------------------------------------------------------------


def under_way(name: str = "r1") -> list[Any]:
    """A request with a hedge, that has come no further."""
    return [*list(told(name))[:2], AttemptLaunched(name, 1, "backup", Role.HEDGE, 0.1)]


def fates(scene: Scene) -> list[tuple[str, str | None]]:
    requested = [(row.outcome, row.certainty) for row in scene.requests()]
    return requested + [(row.outcome, row.certainty) for row in scene.attempts()]


def test_what_a_process_leaves_open_at_its_end_is_lost_and_cost_at_least_what_is_known(scene: Scene) -> None:
    scene.write(*under_way(), *told("r2"))
    scene.upkeep.end(scene.process, NOW + 5)
    assert fates(scene) == [
        ("lost", "at_least"),
        ("won", "exact"),
        ("lost", "at_least"),
        ("lost", "at_least"),
        ("won", "exact"),
    ]
    with scene.engine.connect() as connection:
        assert connection.execute(select(processes.c.ended_at)).scalar() == NOW + 5


def test_an_answer_whose_losers_ran_on_keeps_its_outcome(scene: Scene) -> None:
    scene.write(*list(told("r1"))[:-1])
    scene.upkeep.end(scene.process, NOW + 5)
    assert fates(scene) == [("won", "at_least")] * 2


def test_a_process_that_shows_no_sign_of_life_is_found_by_another(scene: Scene) -> None:
    scene.write(*under_way())
    other = Tables(scene.engine, hello(scene.url, "other"), NOW)
    scene.upkeep.look(other.process, scene.told, NOW + GONE)
    assert {outcome for outcome, _ in fates(scene)} == {"open"}
    scene.upkeep.look(other.process, scene.told, NOW + GONE + 1)
    assert {outcome for outcome, _ in fates(scene)} == {"lost"}
    with scene.engine.connect() as connection:
        ended = {row.process: row.ended_at for row in connection.execute(select(processes))}
    assert ended == {scene.process: NOW + GONE + 1, other.process: None}


def test_a_process_that_was_only_stopped_for_a_while_takes_its_rows_back(scene: Scene) -> None:
    scene.write(*under_way())
    scene.upkeep.end(scene.process, NOW + 5)
    scene.write(*list(told("r1"))[2:])
    assert fates(scene) == [("won", "exact"), ("won", "exact"), ("open", None)]  # of its hedge nothing more was told
    with scene.engine.connect() as connection:
        assert connection.execute(select(processes.c.ended_at)).scalar() is None


# --- sums ------------------------------------------------------------------------------------------------------------


def many(seed: int, count: int) -> list[Any]:
    """Requests over three hours: of several routes and tenants, hedged and not, with costs of every kind."""
    rng = random.Random(seed)
    events: list[Any] = []
    for number in range(count):
        started, launched, ended, finished, billed = told(f"r{number}", rng.uniform(0, 3 * 3600))
        took = rng.lognormvariate(0, 2)
        cost = rng.choice([None, rng.randrange(10**9)])
        known = bill(0, cost, certainty=rng.choice(list(Certainty)))
        at = finished.started_at  # type: ignore[union-attr]
        fields = {"route": rng.choice(["fast", "slow"])}
        events += [
            msgspec.structs.replace(started, tenant=rng.choice(["", "t1"]), **fields),
            launched,
            msgspec.structs.replace(ended, first_token_at=at + took),
            msgspec.structs.replace(finished, first_token_at=rng.choice([None, at + took]), ended_at=at + took + 1),
            msgspec.structs.replace(billed, bills=(known,)),
        ]
    return events


def by_hand(rows: list[RequestRow]) -> Counter[Any]:
    """The sums of requests, worked out anew: by hour, route and tenant, of a few columns."""
    found: Counter[Any] = Counter()
    for row in rows:
        key = hour_of(row.started_at), row.route, row.tenant
        found[*key, "requests"] += 1
        found[*key, "unpriced"] += row.cost_nanousd is None
        found[*key, row.certainty] += row.cost_nanousd or 0
        found[*key, "output_tokens"] += row.output_tokens or 0
        if row.first_token_at is not None:
            found[*key, "first", bucket(row.first_token_at - row.started_at)] += 1
    return +found


def summed(rows: list[RequestHour]) -> Counter[Any]:
    """The same from hourly rows."""
    found: Counter[Any] = Counter()
    for row in rows:
        key = row.hour, row.route, row.tenant
        for name in ("requests", "unpriced", "output_tokens"):
            found[*key, name] += getattr(row, name)
        for certainty in Certainty:
            found[*key, certainty.value] += getattr(row, f"{certainty.value}_nanousd")
        for low, count in row.first_token_us.items():
            found[*key, "first", low] += count
    return +found


def test_sums_are_those_of_the_rows(scene: Scene) -> None:
    scene.write(*many(1, 300))
    scene.upkeep.look(scene.process, scene.told, NOW + 5 * HOUR)
    of_requests, of_attempts = scene.sums()
    assert summed(of_requests) == by_hand(scene.requests())
    assert sum(row.attempts for row in of_attempts) == 300
    assert {row.hour for row in of_attempts} == {FIRST, FIRST + HOUR, FIRST + 2 * HOUR, FIRST + 3 * HOUR}
    times = [row.first_token_at - row.launched_at for row in scene.attempts() if row.first_token_at is not None]
    together: dict[int, int] = {}
    for row in of_attempts:
        together = add(together, row.first_token_us)
    assert together == Counter(map(bucket, times))


def test_an_hour_is_summed_up_when_it_is_over_and_again_when_it_was_written_to(scene: Scene) -> None:
    scene.write(*told("r1"))
    scene.upkeep.sum_up(OVER - 1)
    assert scene.sums() == ([], [])
    for _ in range(2):
        scene.upkeep.sum_up(OVER)
        assert [row.requests for row in scene.sums()[0]] == [1]
    scene.write(*told("r2"))
    assert [row.requests for row in scene.sums()[0]] == [1]
    scene.upkeep.sum_up(OVER)
    assert [row.requests for row in scene.sums()[0]] == [2]


def test_what_is_written_while_sums_are_worked_out_is_not_missed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.write(*told("r1"))
    real, busy = sums_of, [True]

    def slow(*arguments: Any) -> Any:
        found = real(*arguments)
        if busy:
            busy.clear()
            scene.write(*told("r2"))
        return found

    monkeypatch.setattr(upkeep, "sums_of", slow)
    scene.upkeep.sum_up(OVER)
    assert scene.sums() == ([], [])  # known to be out of date, so not put down
    scene.upkeep.sum_up(OVER)
    assert [row.requests for row in scene.sums()[0]] == [2]


# --- what is old -----------------------------------------------------------------------------------------------------


def test_old_rows_go_once_they_are_summed_up_and_their_sums_stay(scene: Scene) -> None:
    scene.write(*many(2, 60))
    before = by_hand(scene.requests())
    assert scene.upkeep.prune(OVER + 10 * HOUR) == 0  # not summed up yet
    scene.upkeep.sum_up(NOW + 5 * HOUR)
    young = [row for row in scene.requests() if row.started_at >= FIRST + 2 * HOUR]
    assert scene.upkeep.prune(FIRST + 2 * HOUR + 1) == 60 - len(young)
    assert scene.requests() == young
    assert scene.count(attempts) == len(young)
    scene.upkeep.look(scene.process, scene.told, NOW + 6 * HOUR)
    assert summed(scene.sums()[0]) == before


def test_pruning_goes_on_where_somebody_was_killed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.write(*[event for number in range(10) for event in told(f"r{number}")])
    scene.upkeep.sum_up(OVER)
    monkeypatch.setattr(upkeep, "STEP", 4)
    real = upkeep._delete_keys

    def killed(connection: Any, table: Any, keys: Any) -> None:
        if connection.execute(select(func.count()).select_from(requests)).scalar() < 10:
            raise KeyboardInterrupt
        real(connection, table, keys)

    monkeypatch.setattr(upkeep, "_delete_keys", killed)
    with pytest.raises(KeyboardInterrupt):
        scene.upkeep.prune(OVER + HOUR)
    monkeypatch.setattr(upkeep, "_delete_keys", real)
    assert (scene.count(requests), scene.count(attempts)) == (6, 6)
    scene.upkeep.sum_up(OVER)
    assert scene.upkeep.prune(OVER + HOUR) == 6
    assert (scene.count(requests), scene.count(attempts)) == (0, 0)
    assert [row.requests for row in scene.sums()[0]] == [10]


def test_what_was_asked_and_answered_goes_with_its_request(scene: Scene) -> None:
    scene.write(*told("r1"))
    scene.tables.write(batches(Content(1, PROMPT, Part.PROMPT, b"hello", 5), first=scene._batch + 1), NOW)
    assert scene.count(contents) == 1
    scene.upkeep.sum_up(OVER)
    assert scene.upkeep.prune(OVER + HOUR) == 1
    assert (scene.count(requests), scene.count(contents)) == (0, 0)


def test_an_hour_with_something_under_way_is_not_pruned(scene: Scene) -> None:
    scene.write(*told("r1"), *under_way("r2"))
    scene.upkeep.sum_up(OVER)
    assert scene.upkeep.prune(OVER + HOUR) == 0
    scene.upkeep.end(scene.process, OVER)
    scene.upkeep.sum_up(OVER)
    assert scene.upkeep.prune(OVER + HOUR) == 2


def test_sums_are_deleted_after_their_own_time(scene: Scene) -> None:
    scene.write(*told("r1"))
    scene.upkeep.sum_up(OVER)
    scene.upkeep.prune_hourly(OVER + HOUR)
    assert len(scene.sums()[0]) == 1  # its rows are still there
    scene.upkeep.prune(OVER + HOUR)
    scene.upkeep.prune_hourly(FIRST + HOUR)
    assert len(scene.sums()[0]) == 1
    scene.upkeep.prune_hourly(FIRST + HOUR + 1)
    assert scene.sums() == ([], [])


def test_ages_are_those_that_were_asked_for(scene: Scene) -> None:
    ages = hello(scene.url, keep=2 * 3600.0, keep_hourly=4 * 3600.0)
    scene.write(*told("r1"))
    seen = []
    for after in (2, 3, 4, 5):
        scene.upkeep.look(scene.process, ages, FIRST + after * HOUR + 1 + SETTLED)
        seen.append((len(scene.requests()), len(scene.sums()[0])))
    assert seen == [(1, 1), (0, 1), (0, 1), (0, 0)]


# --- histograms ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**43))
def test_a_bucket_is_a_64th_wide(value: int) -> None:
    low = bucket(value)
    assert low <= value
    assert value - low <= low / 64
    assert bucket(low) == low


def test_sql_has_the_same_buckets(engine: Engine) -> None:
    values = [each + off for bits in range(44) for each in (1 << bits, 3 << bits) for off in (-1, 0, 1)]
    values = [each for each in values if each < 2**43]
    with engine.connect() as connection:
        for value in values:
            assert connection.execute(select(bucket_of(cast(literal(value), BigInteger)))).scalar() == bucket(value)


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_quantiles_are_within_a_hundredth(values: list[int], q: float) -> None:
    found = quantile(Counter(map(bucket, values)), q)
    rank = max(1, -(-len(values) * q // 1))
    exact = sorted(values)[int(rank) - 1]
    assert found is not None
    assert abs(found - exact) <= max(0.5, exact / 100)


def test_of_nothing_there_is_no_quantile() -> None:
    assert quantile({}, 0.5) is None
