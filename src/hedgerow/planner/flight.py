"""One request in virtual time: tells a hedger what the gateway tells it, whoever says how long attempts take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from hedgerow.alarm import Alarm
from hedgerow.engine import Basis, Run
from hedgerow.events import AttemptEnded, Failure, Listener, Outcome, Reason, Role
from hedgerow.hedger import Hedger
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import Probe
from hedgerow.policy.plan import Place

BreakOff = Callable[[], object]


class _Attempt:
    __slots__ = ("break_off", "launched_at", "place", "probe", "role")

    def __init__(self, place: Place, role: Role, launched_at: float, probe: Probe | None) -> None:
        self.place, self.role, self.launched_at, self.probe = place, role, launched_at, probe
        self.break_off: BreakOff = int


class Flight(ABC):
    """The engine's `Driver`; of an attempt that `send` has started `heard` is to be told."""

    __slots__ = ("_attempts", "_hedger", "_now", "_tell", "ask", "order", "run")

    def __init__(
        self,
        hedger: Hedger,
        ask: Ask,
        alarm: Alarm,
        now: Callable[[], float],
        tell: Listener,
        begun: tuple[Basis, Sequence[int]] | None = None,
    ) -> None:
        """`now` is the clock, at `ask.started_at` now; `tell` hears of how attempts end, as `hedger.emit` does.

        `begun`: what `hedger.begins` has said of this request, if it was asked.
        """
        self._hedger, self._now, self._tell, self.ask = hedger, now, tell, ask
        self._attempts: list[_Attempt] = []
        basis, self.order = hedger.begins(ask, ask.started_at) if begun is None else begun
        self.run = Run(self, alarm, basis, ask)

    @abstractmethod
    def send(self, attempt: int, which: int, role: Role, now: float) -> BreakOff:
        """An attempt starts at the route's place `which`; call what is returned to break it off."""

    @abstractmethod
    def won(self, attempt: int, now: float) -> None:
        """This attempt has won."""

    @abstractmethod
    def skip(self, reason: Reason, detail: str, role: Role) -> None: ...

    @abstractmethod
    def over(self) -> None:
        """The request is over."""

    def start(self) -> None:
        """Launch the first attempt."""
        self.run.start(self.ask.started_at)

    def heard(self, attempt: int, failure: Failure | None) -> None:
        """An attempt has its first token, or has failed."""
        if failure is None:
            self.run.accepted(attempt)
            return
        one = self._attempts[attempt]
        self._ended(attempt, Outcome.FAILED, failure)
        self._hedger.failed(one.place, self.ask, failure, one.launched_at, self._now())
        self.run.failed(attempt, failure)

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        now, which = self._now(), self.order[candidate]
        place = self._hedger.places[which]
        one = _Attempt(place, role, now, self._hedger.launched(place, self.ask, role, now))
        self._attempts.append(one)
        one.break_off = self.send(attempt, which, role, now)

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        one = self._attempts[attempt]
        one.break_off()
        if failure is not None:
            self._hedger.failed(one.place, self.ask, failure, one.launched_at, self._now())
        self._ended(attempt, Outcome.SUPERSEDED if failure is None else Outcome.FAILED, failure)

    def commit(self, attempt: int) -> None:
        one, now = self._attempts[attempt], self._now()
        self.won(attempt, now)
        self._hedger.answered(one.place, self.ask, one.launched_at, now)
        self._hedger.first_token(self.ask, attempt, one.place.candidate.target, one.role, one.launched_at, now)
        self._ended(attempt, Outcome.WON, None, now)
        self._finish()

    def fail(self, attempt: int, failure: Failure) -> None:
        self._finish()

    def expire(self, failure: Failure) -> None:
        raise AssertionError("answers do not go on after their first token here")

    def crashed(self) -> None:
        raise

    def last_data_at(self) -> float:
        return self.ask.started_at

    def late(self, role: Role) -> None:
        """To be told of each attempt that is skipped."""
        if role is Role.HEDGE and len(self._attempts) == 1:
            self._hedger.late(self.ask, self._now())

    def _ended(self, attempt: int, outcome: Outcome, failure: Failure | None, first: float | None = None) -> None:
        one, ask = self._attempts[attempt], self.ask
        if one.probe is not None:
            self._hedger.over(one.probe)
        times = one.launched_at, first, first, self._now()
        told = one.place.candidate.target, one.role, outcome, *times, 200 if first is not None else None, 0, failure
        self._tell(AttemptEnded(ask.request_id, attempt, *told, None, True, ask.input_tokens))

    def _finish(self) -> None:
        self.run.finished()
        self._hedger.finished(self.ask.request_id, len(self._attempts), self._now())
        self.over()
