"""The configured object of a library's user: targets and a policy, which learns across calls."""

from __future__ import annotations

import asyncio
import copy
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Generic, ParamSpec, TypeVar

from hedgerow import hedger
from hedgerow.alarm import Alarm
from hedgerow.client.failing import Classify
from hedgerow.client.flight import Flight
from hedgerow.client.gates import Check, checks_of
from hedgerow.client.result import Result
from hedgerow.client.settings import Policy
from hedgerow.client.target import Target, targets_of
from hedgerow.events import Listener
from hedgerow.policy.ask import Ask
from hedgerow.policy.judge import Shared

P = ParamSpec("P")
T = TypeVar("T")

REFRESH = 5.0
"""Seconds between two looks at what delays should be, while calls come."""
_DONE = object()


class _Home:
    """What a hedger has in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, route: hedger.Hedger) -> None:
        self.alarm = Alarm(loop)
        self.loop = loop
        self._route = route
        self._refresher: asyncio.Handle | None = None

    def called(self) -> None:
        """A call comes: before long delays are to be learned anew."""
        if self._refresher is None:
            self._refresher = self.loop.call_later(REFRESH, self._refresh, None)

    def _refresh(self, steps: Iterator[None] | None) -> None:
        steps = self._route.refreshing(self.loop.time()) if steps is None else steps
        self._refresher = None
        if next(steps, _DONE) is not _DONE:
            self._refresher = self.loop.call_soon(self._refresh, steps)


class Hedger(Generic[T]):
    """Calls the first of its targets, and hedges with the others; made once, called often.

    Calling it calls a target with the same arguments and gives a `Result`. `first_token` says of an item of a stream
    whether it is a real one, with which an attempt may win; left out, the first is. `gate` (one or several) is asked of
    whole values. `classify` says what an exception means, in place of `failure_of`. `size` estimates the tokens of a
    call's prompt from its arguments, so that delays are learned by size. `listeners` are told of events.

    Not for several threads: whoever has some has a hedger for each, or `hedge_sync`.
    """

    def __init__(
        self,
        name: str,
        targets: Sequence[Target | Callable[..., Any]],
        policy: Policy = Policy(),  # noqa: B008  # frozen
        *,
        gate: Check | Sequence[Check] | None = None,
        first_token: Callable[[Any], bool] | None = None,
        classify: Classify | None = None,
        size: Callable[..., int] | None = None,
        listeners: Sequence[Listener] = (),
        draw: Callable[[], float] | None = None,
        grace: float = 1.0,
    ) -> None:
        """`draw` gives numbers in [0, 1), for hedges that start with a probability. `grace`: seconds that a cancelled
        call waits for its attempts to close what they have opened. Raises `TypeError` and `ValueError`.
        """
        self.name = name
        self.targets = targets_of(tuple(targets))
        if not self.targets:
            raise ValueError("a hedger needs at least one target")
        self.policy = policy
        self.checks = checks_of(gate)
        self.first_token = first_token
        self.classify = classify
        self.grace = grace
        self.kept_for = policy.kept_for
        self.tasks: set[asyncio.Task[None]] = set()
        """Of attempts that have not ended: losers close what they have opened after the call has returned."""
        self._size = size
        self._ids = map(f"hr-{secrets.token_hex(5)}-%d".__mod__, count(1))
        self._homes: list[_Home] = []  # at most one, shared with copies
        shared = Shared(random.Random().random if draw is None else draw)  # noqa: S311  # who is hedged is no secret
        engine_policy = policy.for_targets(len(self.targets))
        self._total = engine_policy.total
        self.route = hedger.Hedger(
            name,
            [target.place for target in self.targets],
            engine_policy,
            listeners=listeners,
            shared=shared,
        )

    async def __call__(self, *args: Any, **kwargs: Any) -> Result[T]:
        """Call a target with these arguments, and others as the policy says.

        Raises `EveryAttemptFailed`, which is also what the first attempt raised.
        """
        return await Flight(self, args, kwargs).fly()

    def calling(
        self,
        targets: Sequence[Target | Callable[..., Any]],
        gate: Check | Sequence[Check] | None,
        first_token: Callable[[Any], bool] | None,
        classify: Classify | None,
    ) -> Hedger[T]:
        """The same hedger, which has learned the same, for these callables in the place of its own."""
        other = copy.copy(self)
        other.targets = targets_of(tuple(targets))
        other.checks, other.first_token, other.classify = checks_of(gate), first_token, classify
        return other

    def ask(self, args: Sequence[Any], kwargs: Mapping[str, Any], now: float) -> Ask:
        """The call as the policy sees it."""
        size = 0 if self._size is None else max(self._size(*args, **kwargs), 0)
        return Ask(next(self._ids), True, size, None, now, now + self._total)

    def alarm(self, loop: asyncio.AbstractEventLoop) -> Alarm:
        """The one alarm of this loop; a call comes."""
        if not self._homes or self._homes[0].loop is not loop:
            self._homes[:] = [_Home(loop, self.route)]
        home = self._homes[0]
        home.called()
        return home.alarm

    def state(self, now: float) -> dict[str, Any]:
        """What holds at this time of the loop, for people: delays, budgets, what is known."""
        return self.route.state(now)

    async def aclose(self) -> None:
        """Wait until no attempt runs any more: those that lost are still closing what they had opened."""
        while self.tasks:
            await asyncio.wait(self.tasks)
