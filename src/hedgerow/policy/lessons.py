"""What a route learns from how the attempts of its requests end."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from hedgerow.events import AttemptEnded, FirstToken, Outcome, Role
from hedgerow.policy.ask import Ask
from hedgerow.policy.failures import blames_target
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.latency.samples import sample_of
from hedgerow.policy.outage import Throttle, Try

_PRIMARY = Role.PRIMARY  # a member of an enum is slow to look up
_WON, _SUPERSEDED, _KEPT = Outcome.WON, Outcome.SUPERSEDED, Outcome.KEPT
Observe = Callable[[str, bool, int, float, bool, float], None]
"""As `LatencyModel.observe`."""
Pair = Callable[[FirstToken, AttemptEnded], None]
_GONE = Outcome.CLIENT_GONE
_COMMITTED = (Outcome.FAILED_AFTER_COMMIT, _GONE)


class _Further:
    """What is known of a request that one attempt was not enough for, until the last of them has ended."""

    __slots__ = ("delay", "late", "lost", "tries", "won")

    def __init__(self) -> None:
        self.delay = inf
        self.late = False
        self.lost: AttemptEnded | None = None
        self.won: FirstToken | None = None
        self.tries: dict[int, Try] = {}


class Lessons:
    """Feeds the latency model and the throttle, each attempt once and each first attempt once.

    `pair` is told of two attempts of one request: the one that won, and the first to end of those that lost to it.
    """

    __slots__ = ("_further", "_pair", "observe", "throttle")

    def __init__(self, latency: LatencyModel, throttle: Throttle, pair: Pair):
        self.observe: Observe | None = latency.observe
        self.throttle: Throttle | None = throttle
        """Each of these is None where nobody asks what it would know: then it need not be told."""
        self._pair = pair
        self._further: dict[str, _Further] = {}

    def __len__(self) -> int:
        """Requests that are remembered."""
        return len(self._further)

    def late(self, request_id: str, now: float) -> None:
        """The first attempt has run alone for the delay. To be told of a request as often as one likes."""
        further = self._of(request_id)
        if not further.late:
            further.late = True
            if self.throttle is not None:
                self.throttle.first(True, now)

    def further(self, request_id: str, attempt: int, delay: float, now: float) -> None:
        """Another attempt starts; after `delay` seconds without a first token it, too, is late."""
        further = self._of(request_id)
        further.delay = delay
        if self.throttle is not None:
            further.tries[attempt] = self.throttle.launched(now, delay)

    def finished(self, request_id: str) -> None:
        """The request is over, in whatever way: nothing more will be told of it."""
        further = self._further.pop(request_id, None)
        if further is not None and further.won is None:
            for one in further.tries.values():
                one.ended(helped=False)

    def answered(self, event: FirstToken) -> None:
        """An attempt has won."""
        self.won(event, event.attempt, event.target, event.role, event.launched_at, event.at)

    def won(
        self, request: Ask | FirstToken, attempt: int, target: str, role: Role, launched_at: float, at: float
    ) -> None:
        """As `answered`, where nobody else hears of it: what most requests come to is not worth an event."""
        took, throttle = at - launched_at, self.throttle
        further = self._further.get(request.request_id) if self._further else None
        if (observe := self.observe) is not None:
            observe(target, request.stream, request.input_tokens, took, False, at)
        if role is _PRIMARY:
            if throttle is not None and (further is None or not further.late):
                throttle.first(False, at)
        elif throttle is not None and further is not None and 0.0 < further.delay < inf:
            throttle.other(took > further.delay, at)
        if further is not None:
            for number, one in further.tries.items():
                one.ended(helped=number == attempt)
            what, kind = (attempt, target, role, launched_at, at), (request.stream, request.input_tokens)
            further.won = FirstToken(request.request_id, *what, *kind)
            self._decided(further)

    def over(self, event: AttemptEnded) -> None:
        """An attempt has ended; of one that has won there is nothing more to learn, and need not be told."""
        if event.outcome is not _WON:
            self._not_won(event)

    def _not_won(self, event: AttemptEnded) -> None:
        failure = None if event.failure is None else event.failure.kind
        key = (event.target, event.stream, event.input_tokens)
        times = (event.launched_at, event.ended_at)
        told = event.first_token_at is not None and event.outcome in _COMMITTED  # when it won
        observe = None if told else self.observe
        if observe and (sample := sample_of(event.outcome, failure, event.first_token_at, *times)) is not None:
            observe(*key, *sample, event.ended_at)
        if event.outcome is _SUPERSEDED or event.outcome is _KEPT:
            self._lost(event)
        if event.first_token_at is None and self.throttle is not None:
            self._silent(event, self.throttle)

    def _lost(self, event: AttemptEnded) -> None:
        """An attempt lost, as it was broken off before the win or at it, or some time after."""
        further, first = self._of(event.request_id), event.first_token_at
        if further.lost is None:
            further.lost = event
            self._decided(further)
        delay, throttle = further.delay, self.throttle
        if first is not None and throttle is not None and event.role is not _PRIMARY and 0.0 < delay < inf:
            throttle.other(first - event.launched_at > delay, event.ended_at)

    def _decided(self, further: _Further) -> None:
        won, lost = further.won, further.lost
        if won is not None and lost is not None and Role.FAILOVER not in (lost.role, won.role):
            self._pair(won, lost)

    def _silent(self, event: AttemptEnded, throttle: Throttle) -> None:
        """An attempt ended without a first token: was its target too slow, or did it fail?"""
        further = self._further.get(event.request_id)
        failed = event.failure is not None and blames_target(event.failure)
        if event.role is _PRIMARY:
            if failed and (further is None or not further.late):
                throttle.first(True, event.ended_at)
        elif failed or (further is not None and event.ended_at - event.launched_at > further.delay > 0.0):
            throttle.other(True, event.ended_at)
        elif event.outcome is _GONE and further is not None and (one := further.tries.pop(event.attempt, None)):
            one.left()

    def _of(self, request_id: str) -> _Further:
        further = self._further.get(request_id)
        if further is None:
            further = self._further[request_id] = _Further()
        return further
