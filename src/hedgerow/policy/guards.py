"""The plain guards: each one idea, one reason, and a detail that names the setting.

A guard is asked when a hedge is due. None of these keeps a record of requests, so it does not matter how often they are
asked, nor in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from math import inf

from hedgerow.events import Reason
from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate, Refusal

Guard = Callable[[Ask, Candidate, float], Refusal | None]
"""Asked whether this request may be hedged to this candidate now; None means yes."""

BACKGROUND = frozenset({"service_tier: flex", "service_tier: batch"})
"""Traits of a request that waits in no hurry: what it saves in price a hedge would spend again."""

WHOLE = 1_000_000
"""Shares are counted in whole millionths, so that what is said is what holds."""


def first_refusal(guards: tuple[Guard, ...], ask: Ask, backup: Candidate, now: float) -> Refusal | None:
    """The refusal of the first guard that has one; those after it are not asked."""
    for guard in guards:
        if (refusal := guard(ask, backup, now)) is not None:
            return refusal
    return None


class TooLarge:
    """Refuses prompts of more than `most` tokens: an upstream bills all of a prompt, even of a cancelled attempt."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        """`most` is at least 0; raises `ValueError` for others."""
        if most < 0:
            raise ValueError("max_input_tokens must be at least 0")
        self._most = most

    def __call__(self, ask: Ask, _backup: Candidate, _now: float) -> Refusal | None:
        if ask.input_tokens <= self._most:
            return None
        return Refusal(
            Reason.TOO_LARGE, f"about {ask.input_tokens} input tokens (hedge.max_input_tokens: {self._most})"
        )


class OnlyIf:
    """Refuses requests that do not meet every condition of the route's `only_if`."""

    __slots__ = ("_max_tokens_below", "_streaming", "_traits")

    def __init__(
        self,
        *,
        streaming: bool | None = None,
        max_tokens_below: int | None = None,
        traits: frozenset[str] = frozenset(),
    ) -> None:
        """None sets no condition. A request without a limit of its own is below none. `traits` are in `Ask`'s words."""
        self._streaming, self._max_tokens_below, self._traits = streaming, max_tokens_below, traits

    def __call__(self, ask: Ask, _backup: Candidate, _now: float) -> Refusal | None:
        if self._streaming is not None and ask.stream is not self._streaming:
            return Refusal(Reason.CONDITION, f"hedge.only_if.streaming: {str(self._streaming).lower()}")
        most, below = ask.max_output_tokens, self._max_tokens_below
        if below is not None and (most is None or most >= below):
            asked = "no max_tokens" if most is None else f"max_tokens {most}"
            return Refusal(Reason.CONDITION, f"{asked} (hedge.only_if.max_tokens_below: {below})")
        if not self._traits <= ask.traits:
            return Refusal(Reason.CONDITION, f"hedge.only_if.{min(self._traits - ask.traits)}")
        return None


class Deadline:
    """Refuses hedges that cannot be done in the time that the request has left.

    `mostly` says how many seconds most attempts at the backup take at least until they are of use, None when too little
    is known. So what is not known forbids nothing: who never answers first is never seen to answer at all.
    """

    __slots__ = ("_mostly",)

    def __init__(self, mostly: Callable[[Ask, Candidate], float | None]) -> None:
        self._mostly = mostly

    def __call__(self, ask: Ask, backup: Candidate, now: float) -> Refusal | None:
        if ask.deadline_at == inf:
            return None
        left = ask.deadline_at - now
        if left <= 0.0:
            return Refusal(Reason.DEADLINE, "0 s left")
        mostly = self._mostly(ask, backup)
        if mostly is None or mostly <= left:
            return None
        return Refusal(Reason.DEADLINE, f"{left:.3g} s left, {backup.target} mostly takes {mostly:.3g} s or more")


class Rollout:
    """Lets a share of requests be hedged, told by their id alone: the same ones in every process and after a restart.

    Who is in at one share is in at every larger one.
    """

    __slots__ = ("_in", "_refusal")

    def __init__(self, share: float) -> None:
        """`share` in [0, 1], to the millionth; raises `ValueError` for others."""
        if not 0.0 <= share <= 1.0:
            raise ValueError("rollout must be from 0 to 1")
        self._in = round(share * WHOLE)
        self._refusal = Refusal(Reason.ROLLOUT, f"hedge.rollout: {self._in * 100 / WHOLE:.6g}% of requests")

    def __call__(self, ask: Ask, _backup: Candidate, _now: float) -> Refusal | None:
        return None if self._in == WHOLE or place(ask.request_id) < self._in else self._refusal


def place(request_id: str, what: bytes = b"rollout") -> int:
    """Where a request stands in a rollout: a whole number below 1,000,000, spread evenly over ids.

    For anything else that a share of requests is chosen for, `what` makes another choice.
    """
    digest = blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=8, person=what).digest()
    return int.from_bytes(digest, "big") * WHOLE >> 64


class KillSwitch:
    """Refuses every hedge while it is thrown. `where` says what it is the switch of, such as `all routes`."""

    __slots__ = ("_refusal", "thrown")

    def __init__(self, where: str, *, thrown: bool = False) -> None:
        self._refusal = Refusal(Reason.KILL_SWITCH, f"hedging is switched off for {where}")
        self.thrown = thrown
        """Set it at any time: requests under way obey it too."""

    def __call__(self, _ask: Ask, _backup: Candidate, _now: float) -> Refusal | None:
        return self._refusal if self.thrown else None


class Background:
    """Refuses requests that are in no hurry: those of a route for background traffic, and those that say so."""

    __slots__ = ("_route",)

    def __init__(self, *, route: bool = False) -> None:
        self._route = route

    def __call__(self, ask: Ask, _backup: Candidate, _now: float) -> Refusal | None:
        if self._route:
            return Refusal(Reason.BACKGROUND, "the route is for background traffic")
        said = ask.traits & BACKGROUND
        return Refusal(Reason.BACKGROUND, min(said)) if said else None
