"""What a hedged call comes to: its result, or the one error of all its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from hedgerow.errors import HedgerowError
from hedgerow.events import Failure, Outcome, Reason, Role

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt
    from hedgerow.client.keeping import Alternatives

T = TypeVar("T")


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, as it stood when it was asked about. Times are seconds from the start of the call.

    `outcome` is None for one that still runs: its answer is a stream, or is kept. `first_token`: when its first item,
    or its value, was there. `error` is what it raised.
    """

    attempt: int
    target: str
    role: Role
    outcome: Outcome | None
    launched: float
    first_token: float | None = None
    ended: float | None = None
    failure: Failure | None = None
    error: BaseException | None = None


class Result(msgspec.Struct, Generic[T], eq=False):
    """The answer that won.

    `latency` is in seconds, to the value or to the first item of a stream. `hedged`: an attempt was launched by delay
    or together with the first. `reason`: why a hedge that was due was not launched, None if none was or it was.
    `alternatives`: what losers have answered or will, as they come; nothing where losers are cancelled. A stream
    that lost is the list of its items.
    """

    value: T
    target: str
    _attempts: Sequence[Attempt]
    _started_at: float
    latency: float
    hedged: bool
    reason: Reason | None
    alternatives: Alternatives[Any]

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """All that were launched, in that order, as they stand now: those that are kept may still run."""
        return tuple(told(each, self._started_at) for each in self._attempts)

    def __repr__(self) -> str:
        hedged = ", hedged" if self.hedged else ""
        return f"<Result from {self.target} in {self.latency:.3g} s, attempts: {len(self._attempts)}{hedged}>"


def told(attempt: Attempt, started_at: float) -> AttemptRecord:
    """An attempt as its caller is told of it."""
    return AttemptRecord(
        attempt=attempt.index,
        target=attempt.target,
        role=attempt.role,
        outcome=attempt.outcome,
        launched=attempt.launched_at - started_at,
        first_token=None if attempt.first_token_at is None else attempt.first_token_at - started_at,
        ended=None if attempt.ended_at is None else attempt.ended_at - started_at,
        failure=attempt.failure,
        error=attempt.error,
    )


class Alternative(msgspec.Struct, Generic[T], frozen=True):
    """A loser's answer: of a stream, all its items. `latency` is in seconds from the start of the call."""

    value: T
    target: str
    role: Role
    latency: float


class EveryAttemptFailed(HedgerowError):
    """No attempt gave an answer.

    It is also an instance of what the first attempt raised, with that error's attributes, so that whoever catches the
    SDK's own error catches this. `attempts` are all of them; `__cause__` is the error that says most.
    """

    attempts: tuple[AttemptRecord, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return every_attempt_failed, (self.attempts, self.__cause__)

    def __str__(self) -> str:
        told = "; ".join(f"{each.target}: {_why(each)}" for each in self.attempts)
        return f"{len(self.attempts)} of {len(self.attempts)} attempts failed: {told}"


def _why(attempt: AttemptRecord) -> str:
    if attempt.error is not None:
        text = str(attempt.error)
        return f"{type(attempt.error).__name__}: {text}" if text else type(attempt.error).__name__
    return "unknown" if attempt.failure is None else attempt.failure.message


def every_attempt_failed(attempts: Sequence[AttemptRecord], said: BaseException | None) -> EveryAttemptFailed:
    """The one error of these attempts, of which `said` says most."""
    first = next((each.error for each in attempts if each.error is not None), None)
    error = _also(first) if isinstance(first, Exception) else EveryAttemptFailed()
    error.attempts = tuple(attempts)
    error.__cause__ = said
    return error


_kinds: dict[type[Exception], type[EveryAttemptFailed]] = {}


def _also(error: Exception) -> EveryAttemptFailed:
    """An `EveryAttemptFailed` that is one of these errors as well, where Python can make one."""
    kind = type(error)
    if (both := _kinds.get(kind)) is None:
        both = _both(kind)
        if len(_kinds) < 1_000:
            _kinds[kind] = both
    try:
        made: Any = both.__new__(both, *error.args)
    except Exception:  # it takes other arguments than it tells of
        return EveryAttemptFailed()
    made.args = error.args
    made.__dict__.update(error.__dict__)
    for each in reversed(kind.__mro__):  # what is not in its __dict__: slots, and what C keeps, as of an OSError
        for name, field in vars(each).items():
            if isinstance(field, MemberDescriptorType | GetSetDescriptorType) and not name.startswith("__"):
                with suppress(Exception):
                    setattr(made, name, getattr(error, name))
    return made  # type: ignore[no-any-return]  # made of a class that is one


def _both(kind: type[Exception]) -> type[EveryAttemptFailed]:
    if issubclass(kind, EveryAttemptFailed):
        return kind
    if issubclass(kind, StopIteration | StopAsyncIteration):  # no coroutine may raise these
        return EveryAttemptFailed
    try:
        return type("EveryAttemptFailed", (EveryAttemptFailed, kind), {"__module__": EveryAttemptFailed.__module__})
    except Exception:  # two layouts that cannot be one, or a class that will not have it
        return EveryAttemptFailed
