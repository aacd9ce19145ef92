"""One hedged call in process: what the engine drives, and what its caller waits for."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from hedgerow.client import records
from hedgerow.client.attempt import Attempt
from hedgerow.client.closing import close
from hedgerow.client.contexts import carry_over
from hedgerow.client.gates import verdict_of
from hedgerow.client.holders import blame, own_route
from hedgerow.client.keeping import NONE, Alternatives
from hedgerow.client.result import Result, every_attempt_failed, told
from hedgerow.client.stream import Held, Winner
from hedgerow.client.ties import Ties, tell
from hedgerow.engine import Run
from hedgerow.events import Failure, FailureClass, Outcome, Reason, Role
from hedgerow.policy.commands import Happened, Kind

if TYPE_CHECKING:
    from hedgerow.client.course import Setup

log = logging.getLogger("hedgerow")
_WON, _FAILED, _SUPERSEDED, _GONE = Outcome.WON, Outcome.FAILED, Outcome.SUPERSEDED, Outcome.CLIENT_GONE
_PRIMARY, _FAILOVER, _HEDGE = Role.PRIMARY, Role.FAILOVER, Role.HEDGE  # a member of an enum is slow to look up


async def fly(setup: Setup, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Result[Any]:
    """Launch the first attempt and wait for the answer. Raises `EveryAttemptFailed`."""
    flight = Flight(setup, args, kwargs)
    if flight.route.watched:
        records.started(flight)
    flight.run.start(flight.started_at)
    try:
        await flight.done
    except asyncio.CancelledError:
        await flight.leave()
        raise
    if (winner := flight.winner) is None:
        assert flight.error is not None  # noqa: S101  # a call ends in one of two ways
        raise flight.error
    carry_over(flight.context, winner.context)
    value, started, at = winner.value, flight.started_at, winner.first_token_at
    if winner.streams is not None:
        value = Winner(winner) if winner.streams else Held(winner)
    took = 0.0 if at is None else at - started
    others = flight.alternatives or NONE
    return Result(value, winner.target, flight.attempts, started, took, flight.hedged, flight.skipped, others)


class Flight:
    """Implements the engine's `Driver`."""

    winner: Attempt | None = None
    last_item_at: float
    gone = False
    error: BaseException | None = None
    _ties: Ties | None = None

    def __init__(self, setup: Setup, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        # What every call looks at is not left to the class, where it is slower to look up.
        self.over = self.hedged = False
        self.skipped: Reason | None = None
        self.alternatives: Alternatives[Any] | None = None
        self.course, self.call, total, self._calls = setup
        self.args, self.kwargs = args, kwargs
        self.home = home = self.course.home()
        self.time, route = home.time, home.route
        self.route = own_route(route, self._calls, args, kwargs) if route.health.out else route  # rarely
        self.started_at = now = home.called()
        self.attempts: list[Attempt] = []
        self.context = copy_context()
        self.done: Future[None] = Future(loop=home.loop)
        self.ask = ask = self.course.ask(self.call, total, args, kwargs, now)
        basis, self._order = self.route.begins(ask, now)
        self.run = Run(self, home.alarm, basis, ask)

    async def leave(self) -> None:
        """The caller was cancelled: break everything off, and give it a moment to close what it has opened."""
        self.gone = True
        if self.done.done() and not self.done.cancelled():
            self.done.exception()  # or it is said to have been forgotten
        winner = self.winner
        tasks = [each.task for each in self.attempts if not each.task.done()]
        if winner is None:
            if not self.over:
                self.run.client_gone()
        elif winner.streams is not None:
            self.left(winner)
        else:
            tasks.append(self.home.loop.create_task(close(winner.value)))
            self.home.hold(tasks[-1])
        if self.alternatives is not None:
            self.alternatives.stop()
        self._finish(_GONE)
        if tasks:
            await asyncio.wait(tasks, timeout=self.course.grace)

    # The engine's Driver.

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        now, route = self.started_at, self.route
        if attempt:
            now = self.time()
            self.hedged = self.hedged or role is not _FAILOVER
        which = self._order[candidate]
        place = route.places[which]
        launched = Attempt(self, attempt, self._calls[which], place, role, now, self.context.copy())
        launched.probe = route.launched(place, self.ask, role, now)
        self.attempts.append(launched)
        if route.watched:
            records.launched(self, launched)

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        loser = self.attempts[attempt]
        if loser.over:  # it failed in this very turn of the loop
            return
        if failure is not None:
            loser.cancel()
            loser.error = TimeoutError(failure.message)
            blame(self, loser, failure)
            records.ended(self, loser, _FAILED, failure)
            return
        if (kept_for := self.course.kept_for) is not None and not self.gone and not loser.rejected:
            if self.alternatives is None:
                self.alternatives = Alternatives(self)
            self.alternatives.expect(loser, kept_for)
            return
        loser.cancel()
        outcome = _GONE if self.gone else Outcome.REJECTED if loser.rejected else _SUPERSEDED
        records.ended(self, loser, outcome, loser.failure)

    def commit(self, attempt: int) -> None:
        winner = self.winner = self.attempts[attempt]
        winner.won = True
        route, ask, launched_at, at = self.route, self.ask, winner.launched_at, winner.first_token_at
        assert at is not None  # noqa: S101  # who wins has answered
        now = self.time() if winner.rejected else at
        if winner.probe is not None:
            route.over(winner.probe)
        if not winner.rejected:
            route.answered(winner.place, ask, launched_at, at)
        route.first_token(ask, attempt, winner.target, winner.role, launched_at, at)
        if winner.streams is None:
            winner.over = True
            if winner.role is _PRIMARY and not route.watched:  # nobody learns more from its end than from its answer
                winner.outcome, winner.ended_at = _WON, now
            else:
                records.ended(self, winner, _WON)
            self._finish(_WON)
            if not winner.reading:
                winner.want()
        else:
            self.last_item_at = now
            self.run.watch()
        self._wake()

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        if role is not _FAILOVER:
            self.skipped = reason
            if role is _HEDGE and len(self.attempts) == 1:
                self.route.late(self.ask, self.time())
        records.skipped(self, reason, detail, role)

    def fail(self, attempt: int, failure: Failure) -> None:
        attempts = [told(each, self.started_at) for each in self.attempts]
        self.error = every_attempt_failed(attempts, self.attempts[attempt].error)
        self._finish(_FAILED)
        self._wake()

    def expire(self, failure: Failure) -> None:
        winner = self.winner
        if winner is not None and not winner.over:
            winner.break_off(failure, TimeoutError(failure.message))

    def crashed(self) -> None:
        log.exception("hedge %s: hedgerow itself failed; please report it", self.course.name)
        for attempt in self.attempts:
            attempt.cancel()
        self.error = RuntimeError("hedgerow itself failed; its log says how")
        self.winner = None
        self._finish(_FAILED)
        self._wake()

    def last_data_at(self) -> float:
        winner = self.winner  # who waits for its caller is not silent
        return self.last_item_at if winner is None or winner.reading else self.time()

    # Told by attempts.

    def answered(self, attempt: Attempt) -> None:
        """A value is here, and good, or the first item of a stream."""
        if len(self.attempts) == 1:
            self.run.accepted(attempt.index)
        elif not attempt.kept:
            self._happened(Happened(Kind.ACCEPTED, attempt.index))
        elif attempt.streams is None:
            self.answered_late(attempt)

    async def judge(self, attempt: Attempt) -> None:
        """A value is here: is it good?"""
        if not attempt.kept:
            self.run.held(attempt.index)
        rejection, rank = await verdict_of(self.call.checks, attempt.value)
        if attempt.over:
            return
        if rejection is None:
            self.answered(attempt)
            return
        attempt.rejected = True
        if attempt.kept and self.alternatives is not None:
            attempt.kept, attempt.over = False, True
            records.ended(self, attempt, Outcome.REJECTED)
            self.alternatives.over(attempt)
            return
        attempt.failure = Failure(FailureClass.GATE, f"gate {rejection}")
        records.rejected(self, attempt, rejection)
        self._happened(Happened(Kind.REJECTED, attempt.index, attempt.failure, rank))

    def answered_late(self, attempt: Attempt) -> None:
        """A loser that ran on has its whole answer."""
        attempt.over = True
        if self.alternatives is not None:
            self.alternatives.add(attempt)

    def failed(self, attempt: Attempt, failure: Failure, error: BaseException | None) -> None:
        """It raised before it had an answer, or its stream was empty."""
        attempt.over, attempt.error = True, error
        blame(self, attempt, failure)
        records.ended(self, attempt, _FAILED, failure)
        if not attempt.kept:
            self._happened(Happened(Kind.FAILED, attempt.index, failure))
        elif self.alternatives is not None:
            self.alternatives.over(attempt)

    def landed(self, attempt: Attempt, failure: Failure | None = None) -> None:
        """The winner's stream is over, or broke off."""
        outcome = _WON if failure is None else Outcome.FAILED_AFTER_COMMIT
        if failure is not None:
            blame(self, attempt, failure)
        records.ended(self, attempt, outcome, failure)
        self._finish(outcome)

    def left(self, attempt: Attempt) -> None:
        """Its caller wants no more of the winner."""
        if not attempt.over:
            attempt.cancel()
            records.ended(self, attempt, _GONE)
            self._finish(_GONE)

    def called_off(self, attempt: Attempt) -> None:
        """Somebody has cancelled the task of an attempt, as at the end of a loop: the call is to go on nowhere."""
        if attempt.won:
            self.left(attempt)
        elif attempt.kept and self.alternatives is not None:
            self.alternatives.over(attempt)
        else:
            self.done.cancel()

    def crashed_by(self, error: BaseException) -> None:
        """An attempt ended with what ends the interpreter."""
        for attempt in self.attempts:
            attempt.over = True
        if not self.done.done():
            self.done.set_exception(error)

    def _happened(self, happened: Happened) -> None:
        if len(self.attempts) == 1:
            tell(self, happened)
            return
        if self._ties is None:
            self._ties = Ties(self)
        self._ties.happened(happened)

    def _wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _finish(self, outcome: Outcome) -> None:
        """The call is over."""
        if self.over:
            return
        self.over = True
        self.run.finished()
        if self.route.watched:
            records.finished(self, outcome)
        if len(self.attempts) > 1 or self.skipped is not None:
            self.settle()

    def settle(self) -> None:
        """Once none of its attempts runs any more, nothing of the call needs be remembered."""
        if self.alternatives is None or not self.alternatives.running:
            self.route.finished(self.ask.request_id, len(self.attempts), self.time())
