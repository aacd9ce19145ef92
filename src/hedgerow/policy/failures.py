"""What follows from a failure before commit: who may be tried next, and whose error the client is told.

The classes and their rules are drawn in docs/design.md, "Failure classes".
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from hedgerow.events import Failure, FailureClass


class Next(Enum):
    """Where a request may go after an attempt failed."""

    NOWHERE = auto()
    OTHER_ACCOUNT = auto()
    OTHER_TARGET = auto()
    ANYWHERE = auto()


_NEXT = {
    FailureClass.FATAL_REQUEST: Next.NOWHERE,
    FailureClass.CONTENT_POLICY: Next.NOWHERE,
    FailureClass.TIMEOUT_TOTAL: Next.NOWHERE,
    FailureClass.UPSTREAM_AUTH: Next.OTHER_ACCOUNT,
    FailureClass.QUOTA_EXHAUSTED: Next.OTHER_ACCOUNT,
    FailureClass.RATE_LIMITED: Next.OTHER_ACCOUNT,
    FailureClass.UPSTREAM_MISSING_MODEL: Next.OTHER_TARGET,
}

TAKES_OUT = frozenset(
    {
        FailureClass.UPSTREAM_AUTH,
        FailureClass.UPSTREAM_MISSING_MODEL,
        FailureClass.QUOTA_EXHAUSTED,
        FailureClass.RATE_LIMITED,
    }
)
"""Classes that say: this target will refuse the next request too."""

TIMEOUTS = frozenset(
    {FailureClass.TIMEOUT_FIRST_TOKEN, FailureClass.TIMEOUT_STALL, FailureClass.TIMEOUT_TOTAL},
)


_BLAMELESS = frozenset(
    {
        FailureClass.FATAL_REQUEST,
        FailureClass.CONTENT_POLICY,
        FailureClass.UPSTREAM_AUTH,
        FailureClass.UPSTREAM_MISSING_MODEL,
        FailureClass.QUOTA_EXHAUSTED,
    }
)


def blames_target(failure: Failure, *, had_all_its_time: bool = False) -> bool:
    """Whether it says that the target is unwell, so that its breaker should count it.

    Not what is the caller's doing, a decision about the content among it, nor a whole answer with nothing in it, which
    a prompt may ask for. Not a refused key, model or quota, nor a rate limit that says for how long: those take the
    target out (`TAKES_OUT`). A total limit ran out for the request: it blames only an attempt that `had_all_its_time`,
    launched first and held to the route's own limit and no shorter one of the caller's.
    """
    kind = failure.kind
    if kind in _BLAMELESS:
        return False
    if kind is FailureClass.RATE_LIMITED:
        return not failure.retry_after
    if kind is FailureClass.EMPTY:
        return failure.body is None
    return kind is not FailureClass.TIMEOUT_TOTAL or had_all_its_time


def next_after(failure: Failure, *, replayable: bool) -> Next:
    """Where the next attempt may go.

    A request that must not take effect twice (`replayable` False) goes on only when it was never sent or the upstream
    answered it with an error status: after a timeout, a cut or a broken answer its fate is unknown, and after an error
    inside a 200 it may have had its effect.
    """
    refused = failure.status is not None and failure.status >= 400 and not failure.in_stream
    if not replayable and not failure.unsent and not refused:
        return Next.NOWHERE
    return _NEXT.get(failure.kind, Next.ANYWHERE)


def most_useful(failures: Sequence[tuple[int, Failure]]) -> tuple[int, Failure]:
    """The failure to tell the client when every attempt failed; `failures` are (attempt, failure) as they happened.

    In this order: an answer about the request itself (it will fail everywhere); the last that a gate rejected; an
    empty but complete answer; the shortest wait when every upstream that answered said "slow down"; the last error an
    upstream answered with; the last failure of all.
    """
    for entry in failures:
        if entry[1].kind in (FailureClass.FATAL_REQUEST, FailureClass.CONTENT_POLICY):
            return entry
    for entry in reversed(failures):
        if entry[1].kind is FailureClass.GATE:
            return entry
    for entry in reversed(failures):
        if entry[1].kind is FailureClass.EMPTY and entry[1].body is not None:
            return entry
    answered = [entry for entry in failures if entry[1].status is not None and entry[1].body is not None]
    if not answered:
        return failures[-1]
    if all(failure.kind is FailureClass.RATE_LIMITED for _, failure in answered):
        waits = [entry for entry in answered if entry[1].retry_after is not None]
        return min(waits, key=lambda entry: entry[1].retry_after or 0.0) if waits else answered[-1]
    return answered[-1]


def client_status(failure: Failure) -> int:
    """The HTTP status for a failure that no upstream answered with a usable status of its own."""
    if failure.status is not None and failure.status >= 400:
        return failure.status
    return 504 if failure.kind in TIMEOUTS else 502
