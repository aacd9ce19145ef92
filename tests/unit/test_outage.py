"""When hedging stops because slowness is general, when it goes on, and ten minutes of outage with a breaker as well."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import BreakerChanged, BreakerState, Failure, FailureClass, Reason, Role
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.commands import Cancel, Commands, Launch, Skip
from hedgerow.policy.failures import blames_target
from hedgerow.policy.health import Health, Probe, Watch
from hedgerow.policy.outage import Throttle, ThrottleSettings
from hedgerow.policy.plan import Candidate, Plan, Refusal
from hedgerow.policy.race import Race

TEN = ThrottleSettings(max_tokens=10.0, token_ratio=0.1, both_slow=None)
"""The tokens alone decide."""


def told(throttle: Throttle, late: bool, times: int, at: float = 0.0) -> None:
    for _ in range(times):
        throttle.first(late, at)


def test_hedges_stop_at_half_of_the_tokens() -> None:
    throttle = Throttle(TEN)
    told(throttle, True, 4)
    assert throttle.refuses(0.0) is None
    told(throttle, True, 1)
    refusal = throttle.refuses(0.0)
    assert refusal == Refusal(Reason.OUTAGE, "too many requests are late or fail: 5 of 10 tokens left")


def test_they_go_on_at_three_quarters_and_not_before() -> None:
    throttle = Throttle(TEN)
    told(throttle, True, 5)
    told(throttle, False, 24)
    assert throttle.refuses(0.0) is not None  # 7.4 tokens: gRPC itself would go on at 5.1
    told(throttle, False, 1)
    assert throttle.refuses(0.0) is None
    told(throttle, True, 2)
    assert throttle.refuses(0.0) is None
    told(throttle, True, 1)
    assert throttle.refuses(0.0) is not None


def test_after_twenty_failed_requests_a_slow_one_is_not_hedged() -> None:
    throttle = Throttle(TEN)
    told(throttle, True, 20)
    assert throttle.view(0.0).tokens == 0.0
    throttle.first(True, 0.3)  # the first attempt is under way, and has just been late
    refusal = throttle.refuses(0.3)
    assert refusal is not None
    assert refusal.reason is Reason.OUTAGE


def test_the_balance_neither_falls_below_nothing_nor_rises_above_the_most() -> None:
    throttle = Throttle(TEN)
    told(throttle, False, 100)
    assert throttle.view(0.0).tokens == 10.0
    told(throttle, True, 100)
    told(throttle, False, 75)
    assert throttle.refuses(0.0) is None


@pytest.mark.parametrize(
    ("late", "of", "throttled"), [(1, 20, False), (1, 5, False), (4, 10, False), (6, 10, True), (1, 1, True)]
)
def test_by_default_fewer_than_half_may_be_late(late: int, of: int, throttled: bool) -> None:
    throttle = Throttle()
    for index in range(10_000):
        throttle.first(index % of < late, index / 10)
    assert throttle.view(1_000.0).throttled is throttled


def both(throttle: Throttle, first: list[bool], others: list[bool], at: float = 0.0) -> bool:
    for late in first:
        throttle.first(late, at)
    for late in others:
        throttle.other(late, at)
    return throttle.refuses(at) is not None


SHARES = ThrottleSettings(max_tokens=1_000.0, minimum=4)


def test_hedges_stop_while_both_are_slow() -> None:
    late, fine = [True] * 3 + [False], [False] * 4
    assert not both(Throttle(SHARES), late, fine)
    assert not both(Throttle(SHARES), fine, late)
    assert not both(Throttle(SHARES), late, late[:3])  # too few are known
    assert not both(Throttle(msgspec.structs.replace(SHARES, both_slow=None)), late, late)
    throttle = Throttle(SHARES)
    assert both(throttle, late, late)
    refusal = throttle.refuses(0.0)
    assert refusal == Refusal(Reason.OUTAGE, "first attempts and others alike are late or fail")


def test_they_go_on_when_one_of_the_two_is_at_half_of_the_limit() -> None:
    throttle = Throttle(SHARES)
    assert both(throttle, [True] * 4, [True] * 3 + [False])
    assert both(throttle, [False] * 11, [])  # 4 of 15 were late
    assert not both(throttle, [False], [])  # 4 of 16
    assert not both(throttle, [True] * 8, [])  # 12 of 24: it takes more than half to stop again
    assert both(throttle, [True], [])


def test_what_is_known_of_them_grows_old() -> None:
    throttle = Throttle(SHARES)
    assert both(throttle, [True] * 4, [True] * 4)
    assert throttle.refuses(59.9) is not None
    view = throttle.view(60.0)
    assert (view.both_slow, view.first_late, view.others_late) == (False, None, None)


def test_only_the_last_ones_count() -> None:
    throttle = Throttle(msgspec.structs.replace(SHARES, count=4))
    assert not both(throttle, [True] * 50 + [False] * 3, [True] * 4)
    assert throttle.view(0.0).first_late == 0.25


def test_it_keeps_no_more_than_counts() -> None:
    throttle = Throttle(msgspec.structs.replace(SHARES, count=4))
    told(throttle, False, 1_000)
    assert len(throttle._first._results) == 4


def test_other_settings_keep_the_last_ones() -> None:
    throttle = Throttle(msgspec.structs.replace(SHARES, count=20))
    told(throttle, True, 3)
    told(throttle, False, 2)
    throttle.reconfigure(msgspec.structs.replace(SHARES, count=4, minimum=1))
    assert throttle.view(0.0).first_late == 0.5
    throttle.first(False, 0.0)
    assert throttle.view(0.0).first_late == 0.25


def test_other_settings_keep_the_share_of_tokens_that_is_left() -> None:
    throttle = Throttle(TEN)
    told(throttle, True, 4)
    throttle.reconfigure(ThrottleSettings(max_tokens=100.0, token_ratio=0.1, both_slow=None))
    assert (throttle.view(0.0).tokens, throttle.refuses(0.0)) == (60.0, None)
    told(throttle, True, 10)
    assert throttle.refuses(0.0) is not None
    throttle.reconfigure(TEN)
    assert throttle.refuses(0.0) is not None
    told(throttle, False, 10)
    throttle.reconfigure(TEN)
    assert throttle.refuses(0.0) is not None  # shut is shut until `resume`
    throttle.reconfigure(msgspec.structs.replace(TEN, resume=0.55))
    assert throttle.refuses(0.0) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tokens": 0.5},
        {"max_tokens": 1_001.0},
        {"token_ratio": 0.0},
        {"token_ratio": 30.0},
        {"resume": 0.5},
        {"resume": 1.1},
        {"both_slow": 0.0},
        {"both_slow": 1.0},
        {"minimum": 0},
        {"minimum": 101},
        {"window": 0.0},
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ThrottleSettings(**wrong)


HALF = ThrottleSettings(max_tokens=10.0, minimum=10, window=60.0)


def test_while_many_others_win_the_tokens_stop_nothing() -> None:
    """A primary that hangs for good is not left to itself because all of its requests are late."""
    throttle = Throttle(HALF)
    for at in range(200):
        throttle.first(True, float(at))
        assert throttle.refuses(float(at)) is None or at == 4  # with five tokens of ten, and four that won
        throttle.launched(float(at), 1.0).ended(helped=True)
    assert (throttle.view(200.0).tokens, throttle.view(200.0).throttled) == (0.0, False)
    for _ in range(6):
        throttle.launched(200.0, 1.0).ended(helped=False)
    assert throttle.refuses(200.0) is None  # four of the last ten have won
    throttle.launched(200.0, 1.0).ended(helped=False)
    assert throttle.refuses(200.0) is not None
    assert throttle.view(200.0).throttled
    throttle.launched(200.0, 1.0).ended(helped=True)
    throttle.launched(200.0, 1.0).ended(helped=True)
    assert throttle.refuses(200.0) is not None  # two came, and two of those before left
    for _ in range(2):
        throttle.launched(200.0, 1.0).ended(helped=True)
    assert throttle.refuses(200.0) is None


def test_those_under_way_tell_nothing_until_they_are_late() -> None:
    """A burst of hedges does not stop itself; one that meets a backup that hangs does, after a delay."""
    throttle = Throttle(HALF)
    told(throttle, True, 10)
    for _ in range(5):
        throttle.launched(0.0, 1.0).ended(helped=True)
    tries = [throttle.launched(0.0, 2.0) for _ in range(20)]
    assert throttle.refuses(1.99) is None
    assert throttle.refuses(2.0) is not None
    for one in tries[-4:]:
        one.ended(helped=True)  # late, and yet the first to answer
    assert throttle.refuses(2.0) is None


def test_in_general_slowness_hedges_lose_to_what_began_sooner_and_stop() -> None:
    throttle, hedges = Throttle(HALF), 0
    for at in range(600):
        throttle.first(True, float(at))
        if throttle.refuses(float(at)) is None:
            hedges += 1
            throttle.launched(float(at), 1.0).ended(helped=at % 50 == 0)
    assert hedges <= 5 + 600 / 60


def test_while_they_are_held_back_one_hedge_a_window_finds_out() -> None:
    throttle = Throttle(HALF)
    throttle.launched(0.0, 1.0)
    told(throttle, True, 10)
    tries: list[int] = []
    for at in range(1, 400):
        for _ in range(3):  # to ask changes nothing
            assert throttle.holds(float(at)) is not None or len(tries) >= 4
        if throttle.refuses(float(at)) is None:
            tries.append(at)
            throttle.launched(float(at), 1.0).ended(helped=True)
    assert tries == [60, 120, 180, 240, *range(241, 400)]  # four of five that won are enough


@given(late=st.lists(st.booleans(), max_size=300), most=st.integers(1, 20), ratio=st.integers(1, 10))
def test_the_balance_is_what_a6_says_and_the_hysteresis_on_top(late: list[bool], most: int, ratio: int) -> None:
    throttle = Throttle(ThrottleSettings(max_tokens=most, token_ratio=ratio / 10, both_slow=None))
    tenths, shut = most * 10, False
    for one in late:
        throttle.first(one, 0.0)
        tenths = max(tenths - 10, 0) if one else min(tenths + ratio, most * 10)
        shut = tenths <= most * 5 if not shut else tenths < most * 7.5
        assert throttle.view(0.0).tokens == tenths / 10
        assert (throttle.refuses(0.0) is not None) is shut


# Ten minutes of outage.

X, Y = Candidate("x", "key-x"), Candidate("y", "key-y")
START, END, STOP = 300.0, 900.0, 1_200.0
PLAN = Plan(delay=1.2, first_token=5.0)
Upstream = Callable[[float], tuple[float, Failure | None]]
"""At what time an attempt that is launched now has its first token or fails: seconds, failure."""


class Request:
    """One request, driven as an engine would: health, throttle and a cap of 10 % are asked and told."""

    def __init__(self, world: World, now: float) -> None:
        self.world = world
        self.now = now
        world.requests += 1
        world.earned = min(world.earned + 0.1, 10.0)
        self.order = world.health.order((X, Y), now)
        world.events += self.order.changed
        self.candidates = [(X, Y)[index] for index in self.order.best]
        self.attempts: list[tuple[Candidate, Role, float, Probe | None]] = []
        self.first_told = False
        self.race = Race(PLAN, self.candidates, self.whether)
        self.obey(self.race.start(now))
        world.at(now + PLAN.delay, self.is_late)

    def whether(self, role: Role, _attempt: int, candidate: int, now: float) -> Refusal | None:
        if role is not Role.HEDGE:
            return None
        world = self.world
        if self.order.broken or world.health.allows(self.candidates[candidate], now) == "no":
            return Refusal(Reason.BREAKER)
        if (refusal := world.throttle.refuses(now)) is not None:
            return refusal
        if world.earned < 1.0:
            return Refusal(Reason.BUDGET)
        world.earned -= 1.0
        return None

    def is_late(self, now: float) -> None:
        self.tell_first(True, now)
        self.tick(now)

    def tell_first(self, late: bool, now: float) -> None:
        if not self.first_told and not self.race.over:
            self.first_told = True
            self.world.throttle.first(late, now)

    def tick(self, now: float) -> None:
        self.now = now
        self.obey(self.race.tick(now))

    def obey(self, commands: Commands) -> None:
        for command in commands:
            match command:
                case Launch(attempt, candidate, role):
                    self.launch(attempt, self.candidates[candidate], role)
                case Cancel(attempt, failure):
                    self.end(attempt, failure, told=failure is not None)
                case Skip(reason, _):
                    self.world.skipped[reason] += 1
        if not self.race.over:
            self.world.at(self.race.wake_at, self.tick)

    def launch(self, attempt: int, candidate: Candidate, role: Role) -> None:
        world, now = self.world, self.now
        self.attempts.append((candidate, role, now, world.health.launched(candidate, now)))
        world.launches.append((now, candidate.target, role))
        seconds, failure = world.upstreams[candidate.target](now)
        world.at(now + seconds, lambda at: self.over(attempt, failure, at))

    def over(self, attempt: int, failure: Failure | None, now: float) -> None:
        if attempt not in self.race.running:
            return
        self.now = now
        if attempt == 0:
            self.tell_first(failure is not None, now)
        elif now - self.attempts[attempt][2] <= PLAN.delay or failure is not None:
            self.world.throttle.other(failure is not None, now)
        self.end(attempt, failure, told=True)
        if failure is None:
            self.world.took.append((now, now - self.attempts[0][2]))
            self.obey(self.race.accepted(attempt, now))
        else:
            self.obey(self.race.failed(attempt, failure, now))

    def end(self, attempt: int, failure: Failure | None, *, told: bool) -> None:
        candidate, _, launched_at, probe = self.attempts[attempt]
        health = self.world.health
        if probe is not None:
            health.ended(probe)
        if not told:
            return
        if failure is None:
            event = health.answered(candidate, self.now, launched_at)
        else:
            assert blames_target(failure)
            found = health.failed(candidate, failure, self.now, launched_at)
            event = found if isinstance(found, BreakerChanged) else None
        if event is not None:
            self.world.events.append(event)


class World:
    """Ten requests a second to x, backed up by y; from START to END x is `ill`."""

    def __init__(self, ill: Upstream, *, y_too: bool = False, rate: float = 10.0) -> None:
        self.health = Health({name: Watch(BreakerSettings()) for name in ("x", "y")})
        self.throttle = Throttle()
        self.random = Random(4)
        self.requests = 0
        self.earned = 10.0
        self.events: list[BreakerChanged] = []
        self.launches: list[tuple[float, str, Role]] = []
        self.took: list[tuple[float, float]] = []
        self.skipped: Counter[Reason] = Counter()
        self.upstreams = {"x": self.upstream(ill), "y": self.upstream(ill if y_too else self.well)}
        self.rate = rate
        self._ids = count()
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        for index in range(int(STOP * rate)):
            self.at(index / rate, self.arrive)
        while self._due:
            now, _, call = heapq.heappop(self._due)
            call(now)

    def arrive(self, now: float) -> None:
        Request(self, now)

    def at(self, now: float, call: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (now, next(self._ids), call))

    def well(self, _now: float) -> tuple[float, Failure | None]:
        return self.random.lognormvariate(-0.7, 0.5), None  # 0.5 s, and 3.9 % take more than 1.2 s

    def upstream(self, ill: Upstream) -> Upstream:
        return lambda now: ill(now) if START <= now < END else self.well(now)

    def sent(self, target: str, since: float, until: float, *roles: Role) -> int:
        """Attempts launched in a stretch of time."""
        return sum(
            name == target and since <= at < until and (not roles or role in roles) for at, name, role in self.launches
        )

    def first_time(self, state: BreakerState, target: str = "x") -> float:
        """When the target's breaker was in that state for the first time."""
        return next(event.at for event in self.events if (event.target, event.state) == (target, state))

    def came(self, since: float, until: float) -> int:
        """Requests of that stretch of time."""
        return round((until - since) * self.rate)


def fails(_now: float) -> tuple[float, Failure | None]:
    return 0.02, Failure(FailureClass.SERVER_ERROR, "down", 503)


def hangs(_now: float) -> tuple[float, Failure | None]:
    return 10_000.0, None


@pytest.mark.parametrize("ill", [fails, hangs])
@pytest.mark.parametrize("rate", [2.0, 10.0])
def test_an_outage_of_ten_minutes(ill: Upstream, rate: float) -> None:
    world = World(ill, rate=rate)
    opened, closed = world.first_time(BreakerState.OPEN), world.first_time(BreakerState.CLOSED)

    assert len(world.took) == world.requests  # nobody was left without an answer
    # It is noticed within half a window, the time that a hanging attempt takes to be given up, and that of ten requests
    # that a hedge saves: they say nothing of the target.
    assert START < opened <= START + 30.0 + PLAN.first_token + 10.0 / rate
    # Until then hedges help, and are bounded by their cap only, as the other target is well.
    assert world.sent("y", START, opened, Role.HEDGE) <= 10 + 0.1 * world.came(START, opened)
    # From then on all traffic is on the backup, but for probes: at most one at a time.
    came = world.came(opened, END)
    assert world.sent("x", opened, END, Role.PRIMARY) <= 24 < 0.03 * came
    assert world.sent("y", opened, END, Role.PRIMARY) >= 0.97 * came
    # Extra attempts stay under the cap throughout; those to the target that is ill are hedges that probe it.
    over = opened + PLAN.first_token  # of those that were under way when it opened
    assert world.sent("x", over, END, Role.HEDGE) + world.sent("y", over, END, Role.HEDGE) <= 0.06 * came
    assert world.sent("y", opened + PLAN.first_token, END, Role.FAILOVER) <= 24
    # It is back within a window, and stays.
    assert END < closed <= END + 60.0
    assert world.sent("x", closed, STOP, Role.PRIMARY) >= world.came(closed, STOP) - 1
    assert world.sent("y", closed + 10.0, STOP, Role.HEDGE) >= 0.02 * world.came(closed, STOP)  # hedging, too


@pytest.mark.parametrize("ill", [fails, hangs])
def test_an_outage_of_both_is_not_multiplied_and_nobody_is_refused_a_first_attempt(ill: Upstream) -> None:
    world = World(ill, y_too=True)
    assert world.sent("x", START, END, Role.PRIMARY) + world.sent("y", START, END, Role.PRIMARY) == 6_000
    assert world.sent("x", START, END, Role.HEDGE) + world.sent("y", START, END, Role.HEDGE) <= 20
    assert world.skipped[Reason.BREAKER] + world.skipped[Reason.OUTAGE] > 0 or ill is fails
    slowest_after = max(seconds for at, seconds in world.took if at >= END + 60.0)
    assert slowest_after < 5.0
    assert len([at for at, _ in world.took if END <= at < END + 60.0]) >= 590  # the first answer came with the first
    assert world.sent("x", END + 60.0, STOP, Role.PRIMARY) == 2_400


def test_without_an_outage_nothing_opens_and_nothing_is_throttled() -> None:
    world = World(lambda _now: (0.5, None))
    assert (world.events, world.skipped) == ([], Counter())
    assert world.sent("x", 0.0, STOP, Role.PRIMARY) == world.requests
