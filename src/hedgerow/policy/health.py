"""Which targets are out: those that said they will refuse the next request too.

A refused key, an exhausted quota and a rate limit take out every target with that account; a missing model takes out
its target only. `Retry-After` is obeyed up to `MAX_OUT`, so that a target which asks for an hour is still looked at
every two minutes. When everything is out, the one that comes back soonest is tried all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.events import Failure, FailureClass, TargetTakenOut
from hedgerow.policy.failures import TAKES_OUT
from hedgerow.policy.plan import Candidate

MAX_OUT = 120.0
"""Seconds a target stays out at most before it is tried again."""


class Health:
    """Shared by all routes of one process."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out: dict[tuple[str, str], float] = {}
        """Until when accounts and targets are out; while it is empty, the other questions need not be asked."""

    def failed(self, candidate: Candidate, failure: Failure, now: float) -> TargetTakenOut | None:
        """Learn from a failure; the event is returned when a target is newly out or stays out for longer."""
        if failure.kind not in TAKES_OUT:
            return None
        if failure.kind is FailureClass.RATE_LIMITED:
            seconds = min(failure.retry_after or 0.0, MAX_OUT)
        else:
            seconds = MAX_OUT
        key = _model(candidate) if failure.kind is FailureClass.UPSTREAM_MISSING_MODEL else _account(candidate)
        until = now + seconds
        if until <= max(now, self.out.get(key, now)):
            return None
        self.out[key] = until
        return TargetTakenOut(candidate.target, failure.kind, failure.message, now, until)

    def recovered(self, candidate: Candidate) -> None:
        """The target answered: whatever was held against it is over."""
        if self.out:
            self.out.pop(_account(candidate), None)
            self.out.pop(_model(candidate), None)

    def usable(self, candidates: Sequence[Candidate], now: float) -> Sequence[int]:
        """Indices of the candidates to plan with, in order; all of them, soonest back first, when all are out."""
        everyone = range(len(candidates))
        if not self.out:
            return everyone
        until = [self._until(candidate) for candidate in candidates]
        usable = [index for index in everyone if until[index] <= now]
        return usable or sorted(everyone, key=until.__getitem__)

    def _until(self, candidate: Candidate) -> float:
        return max(self.out.get(_account(candidate), 0.0), self.out.get(_model(candidate), 0.0))


def _account(candidate: Candidate) -> tuple[str, str]:
    return ("account", candidate.account)


def _model(candidate: Candidate) -> tuple[str, str]:
    return ("target", candidate.target)
