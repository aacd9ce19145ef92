"""What a race says to its driver, and what the driver says to a race."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from hedgerow.events import Failure, Reason, Role


class Launch(msgspec.Struct, frozen=True, gc=False):
    """Start this attempt at this candidate (an index into the race's candidates)."""

    attempt: int
    candidate: int
    role: Role


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """Abort this attempt. `failure` is set when it ran out of time, None when it is superseded or unwanted."""

    attempt: int
    failure: Failure | None = None


class Commit(msgspec.Struct, frozen=True, gc=False):
    """This attempt has won: deliver it."""

    attempt: int


class Skip(msgspec.Struct, frozen=True, gc=False):
    """A hedge or failover was due and is not launched."""

    reason: Reason
    detail: str = ""
    role: Role = Role.HEDGE


class Fail(msgspec.Struct, frozen=True, gc=False):
    """Nobody can win any more: tell the client this failure, which `attempt` met."""

    attempt: int
    failure: Failure


Command = Launch | Cancel | Commit | Skip | Fail
Commands = Sequence[Command]


class Kind(Enum):
    """What can happen in a race; the order is the one in which a batch is taken."""

    ACCEPTED = auto()
    REJECTED = auto()
    FAILED = auto()
    CLIENT_GONE = auto()
    TIME = auto()


class Happened(msgspec.Struct, frozen=True, gc=False):
    """One event for `Race.step`; `failure` belongs to FAILED and REJECTED, `rank` to REJECTED."""

    kind: Kind
    attempt: int = -1
    failure: Failure | None = None
    rank: int = 0
