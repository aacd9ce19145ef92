"""What a race is given: where attempts can go, the rules, and who may forbid a hedge."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from math import inf

import msgspec

from hedgerow.events import Reason, Role


class OnFailure(StrEnum):
    """What is done about a target whose cancelled attempts go on."""

    WARN = "warn"
    RAISE_DELAY = "raise_delay"
    DISABLE = "disable"


class RunsOn(msgspec.Struct, frozen=True, gc=False):
    """Which attempts at a candidate go on when they are cancelled, and what is done about it."""

    streams: bool
    whole: bool
    action: OnFailure

    def bars(self, *, stream: bool) -> bool:
        """Whether there are to be no hedges: one that loses would be paid for in full."""
        return self.action is OnFailure.DISABLE and (self.streams if stream else self.whole)

    def raises(self, *, stream: bool) -> bool:
        """Whether hedges are to wait longer, be they to it or because it is late: either way a loser may go on."""
        return self.action is OnFailure.RAISE_DELAY and (self.streams if stream else self.whole)


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A place an attempt can go. Candidates with one `account` share a key, and so its limits.

    `weight`: how often it is first, beside others, where a route goes by that. `first_token`: its own
    limit, in seconds, in place of the plan's; where the plan has none, neither holds. `key`: which one of its target's
    several keys it has, from 1; 0 where there are not several. `leads`: it may be first; `backs`: it may get hedges.
    `region`: what it shares its troubles with, "" where that is not known. `lacks`: what requests may need and it
    cannot do; `max_context`: the tokens of prompt and answer that it has room for, None where that is not known.
    `runs_on`: what goes on when it is cancelled there, where something is done about that. `holder`: whose key it is,
    where callers have keys of their own: what one is refused is not for the others.
    """

    target: str
    account: str
    weight: float = 1.0
    first_token: float | None = None
    key: int = 0
    leads: bool = True
    backs: bool = True
    region: str = ""
    lacks: frozenset[str] = frozenset()
    max_context: int | None = None
    runs_on: RunsOn | None = None
    holder: str = ""


class Place(msgspec.Struct, frozen=True, gc=False):
    """A target as a route sees it.

    `own_key` and `own_model` tell whether key and model come from our configuration: only then does a refusal say
    anything about the next request.
    """

    candidate: Candidate
    own_key: bool = True
    own_model: bool = True


class Plan(msgspec.Struct, frozen=True, gc=False):
    """The rules of one race. Times are seconds; `inf` switches a rule off.

    `delay`: how long the newest attempt runs alone. `max_hedges`: attempts that `delay` may launch.
    `max_attempts`: all attempts, the first included. `first_token`: each attempt's time to its first token.
    `total`: the request's time until it is committed, counted from the start.
    `replayable` is False for requests whose effects must not happen twice: they are never hedged, and fail over only
    when the upstream refused or was never reached. `width`: attempts that are launched together at the start.
    `gate_wait`: how long an answer that a gate rejected waits for a better one; `strict`: it never wins.
    `stall`, and `total` too, go on once it is committed: how long nothing may come of the answer.
    """

    delay: float = inf
    max_hedges: int = 1
    max_attempts: int = 2
    first_token: float = inf
    total: float = inf
    replayable: bool = True
    width: int = 1
    gate_wait: float = inf
    strict: bool = False
    stall: float = inf
    wakes_after: float = inf
    """Seconds from the start to the race's first wake-up, while nothing else happens; follows from the others."""

    def __post_init__(self) -> None:
        wakes_after = min(self.delay if self.hedges else inf, self.first_token, self.total)
        msgspec.structs.force_setattr(self, "wakes_after", wakes_after)

    @property
    def hedges(self) -> bool:
        """Whether a second attempt may ever be launched by delay."""
        return self.max_hedges > 0 and self.max_attempts > 1

    def first_token_of(self, candidate: Candidate) -> float:
        """How long an attempt there may go without its first token."""
        own = candidate.first_token
        return self.first_token if own is None or self.first_token == inf else own


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A guard's answer: why a hedge may not start."""

    reason: Reason
    detail: str = ""


Whether = Callable[[Role, int, int, float], Refusal | None]
"""Asked before any attempt but the first is launched: role, attempt, candidate (an index), now. None: go ahead."""
