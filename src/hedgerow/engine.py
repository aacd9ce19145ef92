"""The driver of the race: turns its commands into calls and time into wake-ups.

One `Run` per request. It creates no task, and while no hedge starts it sets one wake-up: at the start, left where it
is for as long as it comes early enough, called off at the end. After commit the same wake-up watches for a stall and
for the total limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Protocol

from hedgerow.alarm import Alarm
from hedgerow.events import Arm, Failure, FailureClass, Reason, Role
from hedgerow.policy.ask import Ask
from hedgerow.policy.commands import Cancel, Commands, Commit, Fail, Launch, Skip
from hedgerow.policy.plan import Candidate, Plan, Refusal
from hedgerow.policy.race import Race

_PRIMARY = Role.PRIMARY


class Driver(Protocol):
    """What a `Run` drives: something that can start and abort attempts and deliver an answer.

    None of these may call back into the `Run` before returning, except `client_gone` and `finished`.
    """

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        """Start an attempt; its fate is told through `Run.accepted`, `Run.rejected` or `Run.failed`, later."""

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        """Abort an attempt: superseded, unwanted (`failure` None) or out of time."""

    def commit(self, attempt: int) -> None:
        """Deliver this attempt's answer."""

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        """A hedge or failover was due and is not launched."""

    def fail(self, attempt: int, failure: Failure) -> None:
        """Tell the client this failure: nobody can win any more."""

    def expire(self, failure: Failure) -> None:
        """The committed answer stalled or ran out of time: break it off."""

    def crashed(self) -> None:
        """One of these has raised, which is being handled: end the request at once, however it stands."""

    def last_data_at(self) -> float:
        """When a piece of the committed answer last arrived, on the loop's clock."""


Judged = Callable[[Ask, Role, int, int, float], Refusal | None]
"""A `Whether`, asked of a request."""
Basis = tuple[Plan, Sequence[Candidate], Judged | None, int | None, Arm | None]
"""What a `Run` goes by; requests that are judged alike share it. The number is how many of the candidates may get
hedges (None: all), the last the request's side of the route's experiment.
"""


def quiet(basis: Basis) -> float:
    """Seconds from its start within which nothing happens to a request of itself; 0: something does at once."""
    plan, own = basis[0], basis[1][0].first_token
    return 0.0 if plan.width > 1 else plan.wakes_after if own is None else min(plan.wakes_after, own)


class Run:
    """Drives one race on the alarm's loop, as one of the alarm's sleepers.

    The plan's `stall` and `total` go on after commit, from `watch` to `finished`. The race itself is set up only when
    there is something to decide: a request whose first attempt answers in time never needs one.
    """

    __slots__ = (
        "_alarm",
        "_ask",
        "_basis",
        "_driver",
        "_over",
        "_plan",
        "_race",
        "_started_at",
        "_watching",
        "arm",
        "wake_at",
    )

    def __init__(self, driver: Driver, alarm: Alarm, basis: Basis, ask: Ask) -> None:
        self._driver = driver
        self._alarm = alarm
        self._basis = basis
        self._plan = basis[0]
        self._ask = ask
        self.arm = basis[4]
        """The request's side of the route's experiment."""
        self._race: Race | None = None
        self._over = False
        self._watching = False
        self.wake_at = inf

    def start(self, now: float) -> None:
        """Launch the first attempt, and those that race with it."""
        self._started_at = now
        plan = self._plan
        if plan.width > 1:
            race = self._race = self._a_race()
            self._apply(race.start(now))
            self._sleep(race)
            return
        try:
            self._driver.launch(0, 0, _PRIMARY)
        except Exception:
            self._crashed()
            return
        own = self._basis[1][0].first_token
        self._alarm.set(self, now + (plan.wakes_after if own is None else min(plan.wakes_after, own)))

    def accepted(self, attempt: int) -> None:
        """The attempt's first token is good enough."""
        if self._race is None:
            if not self._over:
                self._over = True
                try:
                    self._driver.commit(attempt)
                except Exception:
                    self._crashed()
            return
        self._apply(self._race.accepted(attempt, self._alarm.time()))

    def failed(self, attempt: int, failure: Failure) -> None:
        """The attempt ended without a usable answer."""
        if not self._over:
            race = self._the_race()
            self._apply(race.failed(attempt, failure, self._alarm.time()))
            self._sleep(race)

    def held(self, attempt: int) -> None:
        """The attempt's first token is here, and whether it is good enough will be told later."""
        if not self._over:
            self._the_race().held(attempt)

    def rejected(self, attempt: int, failure: Failure, rank: int) -> None:
        """A gate rejected the attempt's answer: keep hold of it until it is committed or cancelled; see `Race`."""
        if not self._over:
            race = self._the_race()
            self._apply(race.rejected(attempt, failure, self._alarm.time(), rank))
            self._sleep(race)

    def client_gone(self) -> None:
        """The client left before commit."""
        if not self._over:
            self._apply(self._the_race().client_gone(self._alarm.time()))

    def may(self, role: Role, attempt: int, candidate: int, now: float) -> Refusal | None:
        """Why an attempt beyond those of the race may not be launched there now; a yes (None) is paid for."""
        whether = self._basis[2]
        return None if whether is None else whether(self._ask, role, attempt, candidate, now)

    @property
    def strict(self) -> bool:
        """Whether an answer that a gate rejected is no answer."""
        return self._plan.strict

    def watch(self) -> None:
        """The committed answer goes on streaming: from now on stall and total limits hold."""
        self._watching = True
        due = min(self._driver.last_data_at() + self._plan.stall, self._started_at + self._plan.total)
        if due < self.wake_at:
            self._alarm.set(self, due)

    def finished(self) -> None:
        """The request is over: nothing more will be asked or told. Called once."""
        del self._driver  # driver and run hold each other: leave no cycle to the collector
        self._watching = False
        self._alarm.forget(self)

    def wake(self, now: float) -> None:
        """The time set with the alarm has come."""
        if not self._over:
            race = self._the_race()
            self._apply(race.tick(now))
            if not self._over:
                self._alarm.set(self, race.wake_at)
        elif self._watching:
            try:
                self._check_stream(now)
            except Exception:
                self._crashed()

    def _check_stream(self, now: float) -> None:
        stalled_at = self._driver.last_data_at() + self._plan.stall
        total_at = self._started_at + self._plan.total
        if now >= total_at:
            self._driver.expire(Failure(FailureClass.TIMEOUT_TOTAL, "the answer was not whole within the total limit"))
        elif now >= stalled_at:
            self._driver.expire(Failure(FailureClass.TIMEOUT_STALL, f"nothing came for {self._plan.stall:g} s"))
        else:
            self._alarm.set(self, min(stalled_at, total_at))

    def _the_race(self) -> Race:
        """The race, caught up with what has happened: its first attempt was launched at the start."""
        race = self._race
        if race is None:
            race = self._race = self._a_race()
            race.start(self._started_at)
        return race

    def _a_race(self) -> Race:
        plan, candidates, whether, hedgeable, _ = self._basis
        return Race(plan, candidates, None if whether is None else partial(whether, self._ask), hedgeable=hedgeable)

    def _sleep(self, race: Race) -> None:
        """See to it that the race is woken in time."""
        if not self._over and race.wake_at < self.wake_at:
            self._alarm.set(self, race.wake_at)

    def _apply(self, commands: Commands) -> None:
        if self._race is not None:
            self._over = self._race.over
        try:
            self._obey(commands)
        except Exception:
            self._crashed()

    def _crashed(self) -> None:
        """The driver failed at something: nothing else would ever end this request."""
        self._over = True
        self._driver.crashed()

    def _obey(self, commands: Commands) -> None:
        driver = self._driver
        for command in commands:
            match command:
                case Launch(attempt, candidate, role):
                    driver.launch(attempt, candidate, role)
                case Commit(attempt):
                    driver.commit(attempt)
                case Cancel(attempt, failure):
                    driver.cancel(attempt, failure)
                case Skip(reason, detail, role):
                    driver.skip(reason, detail, role)
                case Fail(attempt, failure):
                    driver.fail(attempt, failure)
