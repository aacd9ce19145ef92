"""One hedged call in process: what the engine drives, and what its caller waits for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from hedgerow.client import records
from hedgerow.client.attempt import Attempt
from hedgerow.client.gates import verdict_of
from hedgerow.client.keeping import Alternatives
from hedgerow.client.result import Result, every_attempt_failed
from hedgerow.client.stream import Winner
from hedgerow.events import Failure, FailureClass, Outcome, Reason, Role
from hedgerow.policy.commands import Happened, Kind

if TYPE_CHECKING:
    from hedgerow.client.hedger import Hedger

log = logging.getLogger("hedgerow")
_WON, _FAILED, _SUPERSEDED, _GONE = Outcome.WON, Outcome.FAILED, Outcome.SUPERSEDED, Outcome.CLIENT_GONE
_PRIMARY, _FAILOVER = Role.PRIMARY, Role.FAILOVER  # a member of an enum is slow to look up
_MISSING = object()


class Flight:
    """Implements the engine's `Driver`."""

    def __init__(self, hedger: Hedger[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.hedger = hedger
        self.args, self.kwargs = args, kwargs
        self.classify, self.first_token = hedger.classify, hedger.first_token
        self.loop = loop = asyncio.get_running_loop()
        self.time = loop.time
        self.started_at = self.last_item_at = now = loop.time()
        self.attempts: list[Attempt] = []
        self.winner: Attempt | None = None
        self.skipped: Reason | None = None
        self.hedged = False
        self._context = copy_context()
        self._done: asyncio.Future[None] = loop.create_future()
        self._error: BaseException | None = None
        self._batch: list[Happened] = []
        self._gone = False
        self._alternatives: Alternatives[Any] = Alternatives(self)
        self.ask = hedger.ask(args, kwargs, now)
        self.run, self._order = hedger.route.run(self, self.ask, now, hedger.alarm(loop))

    async def fly(self) -> Result[Any]:
        """Launch the first attempt and wait for the answer. Raises `EveryAttemptFailed`."""
        records.started(self)
        self.run.start(self.started_at)
        try:
            await self._done
        except asyncio.CancelledError:
            await self._leave()
            raise
        if (winner := self.winner) is None:
            assert self._error is not None  # noqa: S101  # a call ends in one of two ways
            raise self._error
        self._take_over(winner)
        value = winner.value if winner.stream is None else Winner(winner)
        told = [records.told(self, each) for each in self.attempts]
        took = (winner.first_token_at or self.started_at) - self.started_at
        return Result(value, winner.target.name, told, took, self.hedged, self.skipped, self._alternatives)

    def _take_over(self, winner: Attempt) -> None:
        """What the winner has set of the caller's context variables holds from now on; the losers' is gone."""
        before = self._context
        for variable, value in winner.context.items():
            if before.get(variable, _MISSING) is not value:
                variable.set(value)

    async def _leave(self) -> None:
        """The caller was cancelled: break everything off, and give it a moment to close what it has opened."""
        self._gone = True
        if self.winner is None:
            self.run.client_gone()
        else:
            self.winner.cancel()
            records.ended(self, self.winner, _GONE)
        tasks = [each.task for each in self.attempts if not each.task.done()]
        self._finish(_GONE)
        if tasks:
            await asyncio.wait(tasks, timeout=self.hedger.grace)

    # The engine's Driver.

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        now = self.started_at
        if attempt:
            now = self.time()
            self.hedged = self.hedged or role is not _FAILOVER
        which = self._order[candidate]
        route = self.hedger.route
        where = self.hedger.targets[which], route.places[which]
        launched = Attempt(self, attempt, *where, role, now, self._context.copy())
        self.hedger.tasks.add(launched.task)
        launched.task.add_done_callback(self.hedger.tasks.discard)
        launched.probe = route.launched(launched.place, self.ask, role, now)
        self.attempts.append(launched)
        records.launched(self, launched)

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        loser = self.attempts[attempt]
        if failure is not None:
            loser.cancel()
            loser.error = TimeoutError(failure.message)
            self._blame(loser, failure)
            records.ended(self, loser, _FAILED, failure)
            return
        if (kept_for := self.hedger.kept_for) is not None and not self._gone and not loser.rejected:
            self._alternatives.expect(loser, kept_for)
            return
        loser.cancel()
        outcome = _GONE if self._gone else Outcome.REJECTED if loser.rejected else _SUPERSEDED
        records.ended(self, loser, outcome, loser.failure)

    def commit(self, attempt: int) -> None:
        winner = self.winner = self.attempts[attempt]
        route = self.hedger.route
        if winner.probe is not None:
            route.over(winner.probe)
        if not winner.rejected:
            route.answered(winner.place, self.ask, winner.launched_at, self.time())
        records.first_token(self, winner)
        if winner.stream is None:
            winner.over = True
            records.ended(self, winner, _WON)
            self._finish(_WON)
        else:
            self.last_item_at = self.time()
            self.run.watch()
        self._wake()

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        if role is not _FAILOVER:
            self.skipped = reason
            if role is Role.HEDGE and len(self.attempts) == 1:
                self.hedger.route.late(self.ask, self.time())
        records.skipped(self, reason, detail, role)

    def fail(self, attempt: int, failure: Failure) -> None:
        told = [records.told(self, each) for each in self.attempts]
        self._error = every_attempt_failed(told, self.attempts[attempt].error)
        self._finish(_FAILED)
        self._wake()

    def expire(self, failure: Failure) -> None:
        winner = self.winner
        if winner is not None and not winner.over:
            winner.break_off(failure, TimeoutError(failure.message))

    def crashed(self) -> None:
        log.exception("hedge %s: hedgerow itself failed; please report it", self.hedger.name)
        for attempt in self.attempts:
            attempt.cancel()
        self._error = RuntimeError("hedgerow itself failed; its log says how")
        self.winner = None
        self._finish(_FAILED)
        self._wake()

    def last_data_at(self) -> float:
        return self.last_item_at

    # Told by attempts.

    async def answered(self, attempt: Attempt) -> None:
        """A value is here, or the first item of a stream."""
        checks = self.hedger.checks
        if checks and attempt.stream is None and not attempt.kept:
            self.run.held(attempt.index)
            rejection, rank = await verdict_of(checks, attempt.value)
            if attempt.over:
                return
            if rejection is not None:
                attempt.rejected = True
                attempt.failure = Failure(FailureClass.GATE, f"gate {rejection}")
                records.rejected(self, attempt, rejection)
                self._happened(Happened(Kind.REJECTED, attempt.index, attempt.failure, rank))
                return
        if not attempt.kept:
            self._happened(Happened(Kind.ACCEPTED, attempt.index))
        elif attempt.stream is None:
            self.answered_late(attempt, attempt.value)

    def answered_late(self, attempt: Attempt, value: Any) -> None:
        """A loser that ran on has its whole answer."""
        attempt.over = True
        self._alternatives.add(attempt, value)

    def failed(self, attempt: Attempt, failure: Failure, error: BaseException | None) -> None:
        """It raised before it had an answer, or its stream was empty."""
        attempt.over = True
        attempt.error = error
        self._blame(attempt, failure)
        records.ended(self, attempt, _FAILED, failure)
        if attempt.kept:
            self._alternatives.over(attempt)
        else:
            self._happened(Happened(Kind.FAILED, attempt.index, failure))

    def landed(self, attempt: Attempt, failure: Failure | None = None) -> None:
        """The winner's stream is over, or broke off."""
        outcome = _WON if failure is None else Outcome.FAILED_AFTER_COMMIT
        if failure is not None:
            self._blame(attempt, failure)
        records.ended(self, attempt, outcome, failure)
        self._finish(outcome)

    def left(self, attempt: Attempt) -> None:
        """Its caller wants no more of the winner's stream."""
        records.ended(self, attempt, _GONE)
        self._finish(_GONE)

    def crashed_by(self, error: BaseException) -> None:
        """An attempt ended with what ends the interpreter."""
        for attempt in self.attempts:
            attempt.over = True
        if not self._done.done():
            self._done.set_exception(error)

    def _happened(self, happened: Happened) -> None:
        if len(self.attempts) == 1:
            self._tell(happened)
            return
        # What else happens in this turn of the loop is to be taken in a fixed order.
        if not self._batch:
            self.loop.call_soon(self._take)
        self._batch.append(happened)

    def _take(self) -> None:
        batch, self._batch = self._batch, []
        for happened in sorted(batch, key=lambda each: (each.kind.value, each.attempt)):
            self._tell(happened)

    def _tell(self, happened: Happened) -> None:
        match happened:
            case Happened(Kind.ACCEPTED, attempt):
                self.run.accepted(attempt)
            case Happened(Kind.REJECTED, attempt, failure, rank) if failure is not None:
                self.run.rejected(attempt, failure, rank)
            case Happened(_, attempt, failure) if failure is not None:
                self.run.failed(attempt, failure)

    def _blame(self, attempt: Attempt, failure: Failure) -> None:
        if attempt.probe is not None:
            self.hedger.route.over(attempt.probe)
            attempt.probe = None
        self.hedger.route.failed(attempt.place, self.ask, failure, attempt.launched_at, self.time())

    def _wake(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def _finish(self, outcome: Outcome) -> None:
        """The call is over. Called once."""
        self.run.finished()
        records.finished(self, outcome)
        if not self._alternatives.running:
            self.settle()

    def settle(self) -> None:
        """None of its attempts runs any more: nothing of the call needs be remembered."""
        if len(self.attempts) > 1 or self.skipped is not None:
            self.hedger.route.finished(self.ask.request_id, len(self.attempts), self.time())
