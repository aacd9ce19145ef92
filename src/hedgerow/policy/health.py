"""Which targets may have traffic: those that are not out, and whose breaker is closed.

Out is who said that the next request will be refused too: a refused key, an exhausted quota and a rate limit take out
every target with that account, a missing model its target only. `Retry-After` is obeyed up to `MAX_OUT`, so that a
target which asks for an hour is still looked at every two minutes. Who fails or is slow again and again has its breaker
opened (`policy.breaker`). When nobody is left, the one that comes back soonest is tried all the same;
where all are out, that one only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import msgspec

from hedgerow.events import BreakerChanged, BreakerState, Failure, FailureClass, TargetTakenOut
from hedgerow.policy.breaker import Allows, Breaker, BreakerSettings, BreakerView
from hedgerow.policy.failures import TAKES_OUT, blames_target
from hedgerow.policy.plan import Candidate

MAX_OUT = 120.0
"""Seconds a target stays out at most before it is tried again."""
MOST_BREAKERS = 1_000
"""Breakers that are kept; beyond it the oldest that is closed is forgotten. Models may be named by clients."""


class Watch(msgspec.Struct, frozen=True, gc=False):
    """How one target is judged. `per_model`: it passes the client's model on, and each has a breaker of its own."""

    breaker: BreakerSettings
    per_model: bool = False


class Order(msgspec.Struct, frozen=True, gc=False):
    """Where a request may go, as indices of its candidates.

    `usable` in order, for primary, hedges and failovers; those in `probes` are half-open, and an attempt there is a
    probe. `spare`: those that are out or open, soonest back first, to be used only when nobody is usable. `broken`: one
    that would have been primary or hedge was skipped since its breaker is not closed, so that the others carry its
    traffic: no hedge should start. `changed`: breakers that have just become half-open.
    """

    usable: Sequence[int]
    spare: Sequence[int] = ()
    broken: bool = False
    probes: Sequence[int] = ()
    changed: Sequence[BreakerChanged] = ()

    @property
    def best(self) -> Sequence[int]:
        """The candidates to plan with; never none."""
        return self.usable or self.spare


class Probe(msgspec.Struct, frozen=True, gc=False):
    """An attempt's slot at a half-open target, to be given back to `Health.ended`."""

    breaker: Breaker
    ticket: int


_WELL = tuple(Order(range(count)) for count in range(33))
_CLOSED, _HALF_OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN


class Health:
    """Of all targets of one process, shared by its routes. Without `watches` there are no breakers.

    A `model` is the one that the client asked for; it matters only to targets watched `per_model`.
    """

    __slots__ = ("_breakers", "_watches", "out", "unwell")

    def __init__(self, watches: Mapping[str, Watch] | None = None) -> None:
        self.out: dict[tuple[str, str], float] = {}
        """Until when accounts and targets are out."""
        self._watches = dict(watches or {})
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self.unwell: dict[tuple[str, str], Breaker] = {}
        """Breakers that are not closed, by target and model."""

    @property
    def watches(self) -> bool:
        """Whether there are breakers: without, and with nobody out, `answered` changes nothing."""
        return bool(self._watches)

    def order(self, candidates: Sequence[Candidate], now: float, model: str = "") -> Order:
        """Where a request of these candidates may go. With nobody unwell it is as good as nothing to do."""
        if not self.out and not self.unwell:
            count = len(candidates)
            return _WELL[count] if count < len(_WELL) else Order(range(count))
        return self._sort(candidates, now, model)

    def allows(self, candidate: Candidate, now: float, model: str = "") -> Allows:
        """What the breaker says of an attempt that would start now."""
        breaker = self.unwell.get(self._key(candidate, model)) if self.unwell else None
        return "yes" if breaker is None else breaker.allows(now)

    def launched(self, candidate: Candidate, now: float, model: str = "") -> Probe | None:
        """An attempt starts there: its slot, if it is a probe. To be asked for every attempt, and never later."""
        breaker = self.unwell.get(self._key(candidate, model)) if self.unwell else None
        return Probe(breaker, breaker.probe_started(now)) if breaker and breaker.allows(now) == "probe" else None

    def ended(self, probe: Probe) -> None:
        """An attempt that was a probe is over, or has its first token; superseded and left by its client included."""
        probe.breaker.probe_ended(probe.ticket)

    def answered(
        self, candidate: Candidate, now: float, launched_at: float, model: str = "", *, stream: bool = True
    ) -> BreakerChanged | None:
        """The target answered: whatever was held against it is over. Only a `stream` can be slow to its first token."""
        if self.out:
            self.recovered(candidate)
        watch = self._watches.get(candidate.target)
        if watch is None:
            return None
        slow_after = watch.breaker.slow_after
        slow = stream and slow_after is not None and now - launched_at > slow_after
        key = (candidate.target, model if watch.per_model else "")
        breaker = self._breakers.get(key) or self._new(key, watch)
        return self._changed(key, breaker, now) if breaker.record(True, slow, now, launched_at) else None

    def failed(
        self,
        candidate: Candidate,
        failure: Failure,
        now: float,
        launched_at: float = inf,
        model: str = "",
        *,
        stream: bool = True,
        had_all_its_time: bool = False,
    ) -> TargetTakenOut | BreakerChanged | None:
        """Learn from an attempt that failed, after commit or before; `had_all_its_time` as in `blames_target`.

        The event is returned when a target is newly out or stays out for longer, or when its breaker changed. What is
        about a key or model of the client's own says nothing of the target and must not be told.
        """
        if failure.kind in TAKES_OUT and (event := self._take_out(candidate, failure, now)) is not None:
            return event
        watch = self._watches.get(candidate.target)
        if watch is None:
            return None
        slow = stream and _slow(watch, now - launched_at)
        blamed = blames_target(failure, had_all_its_time=had_all_its_time)
        if not blamed and not (slow and failure.kind is FailureClass.TIMEOUT_TOTAL):
            return None
        key = (candidate.target, model if watch.per_model else "")
        breaker = self._breakers.get(key) or self._new(key, watch)
        return self._changed(key, breaker, now) if breaker.record(not blamed, slow, now, launched_at) else None

    def watch(self, watches: Mapping[str, Watch]) -> None:
        """Go by other settings from now on: what is known of a target stays, unless it is watched no more."""
        before, self._watches = self._watches, dict(watches)
        for key, breaker in list(self._breakers.items()):
            watch = self._watches.get(key[0])
            if watch is None or watch.per_model != before[key[0]].per_model:
                del self._breakers[key]
                self.unwell.pop(key, None)
            else:
                breaker.reconfigure(watch.breaker)

    def breakers(self, now: float) -> dict[tuple[str, str], BreakerView]:
        """Every breaker that has heard of an attempt, by target and model."""
        return {key: breaker.view(now) for key, breaker in self._breakers.items()}

    def out_until(self, candidate: Candidate, now: float) -> float | None:
        """When the candidate is no longer out; None when it is not."""
        until = self._until(candidate)
        return until if until > now else None

    def recovered(self, candidate: Candidate) -> None:
        """The target is not out any more, nor is its account."""
        if self.out:
            self.out.pop(_account(candidate), None)
            self.out.pop(_model(candidate), None)

    def usable(self, candidates: Sequence[Candidate], now: float) -> Sequence[int]:
        """Indices of the candidates to plan with, in order; all of them, soonest back first, when all are out."""
        return self.order(candidates, now).best

    def least_bad(self, order: Order, candidates: Sequence[Candidate], now: float) -> Order:
        """An order without anybody usable, of these candidates; of those that all say themselves that they will refuse,
        only the one that is back first: the others would only be asked to say so again.
        """
        back_at = {index: until for index in order.spare if (until := self.out_until(candidates[index], now))}
        if len(back_at) < len(order.spare):
            return order
        return msgspec.structs.replace(order, spare=sorted(back_at, key=back_at.__getitem__)[:1])

    def _sort(self, candidates: Sequence[Candidate], now: float, model: str) -> Order:
        for key in [key for key, until in self.out.items() if until <= now]:
            del self.out[key]
        usable: list[int] = []
        probes: list[int] = []
        skipped: list[int] = []  # by their breakers
        back_at: dict[int, float] = {}  # those that may not be used, and until when
        changed: list[BreakerChanged] = []
        leads = True
        for index, candidate in enumerate(candidates):
            until, key = self._until(candidate), self._key(candidate, model)
            breaker = self.unwell.get(key)
            if breaker is not None:
                if breaker.wake(now):
                    changed.append(BreakerChanged(*key, _HALF_OPEN, breaker.why, now))
                if breaker.allows(now) == "no":
                    skipped.append(index)
                    until = max(until, breaker.until, now)
            if until > now or index in skipped:
                back_at[index] = until
                continue
            if breaker is not None:
                probes.append(index)
                leads = leads and (bool(usable) or breaker.leads(now))
            usable.append(index)
        broken = bool(skipped) and (len(usable) < 2 or skipped[0] < usable[1])
        if not leads:  # a half-open target is not first, unless it has waited for long
            first = next((index for index in usable if index not in probes), usable[0])
            usable.remove(first)
            usable.insert(0, first)
        return Order(usable, sorted(back_at, key=back_at.__getitem__), broken, probes, changed)

    def _key(self, candidate: Candidate, model: str) -> tuple[str, str]:
        watch = self._watches.get(candidate.target)
        return (candidate.target, model if watch is not None and watch.per_model else "")

    def _until(self, candidate: Candidate) -> float:
        return max(self.out.get(_account(candidate), 0.0), self.out.get(_model(candidate), 0.0))

    def _take_out(self, candidate: Candidate, failure: Failure, now: float) -> TargetTakenOut | None:
        if failure.kind is FailureClass.RATE_LIMITED:
            seconds = min(failure.retry_after or 0.0, MAX_OUT)
        else:
            seconds = MAX_OUT
        key = _model(candidate) if failure.kind is FailureClass.UPSTREAM_MISSING_MODEL else _account(candidate)
        until = now + seconds
        if until <= max(now, self.out.get(key, now)):
            return None
        self.out[key] = until
        which = candidate.key if key == _account(candidate) else 0
        return TargetTakenOut(candidate.target, failure.kind, failure.message, now, until, which)

    def _changed(self, key: tuple[str, str], breaker: Breaker, now: float) -> BreakerChanged:
        state = breaker.state(now)
        if state is _CLOSED:
            self.unwell.pop(key, None)
            return BreakerChanged(*key, state, breaker.why, now)
        self.unwell[key] = breaker
        return BreakerChanged(*key, state, breaker.why, now, breaker.until)

    def _new(self, key: tuple[str, str], watch: Watch) -> Breaker:
        if len(self._breakers) >= MOST_BREAKERS:
            oldest = next((key for key in self._breakers if key not in self.unwell), next(iter(self._breakers)))
            del self._breakers[oldest]
            self.unwell.pop(oldest, None)
        breaker = self._breakers[key] = Breaker(watch.breaker)
        return breaker


def _slow(watch: Watch, seconds: float) -> bool:
    slow_after = watch.breaker.slow_after
    return slow_after is not None and seconds > slow_after


def _account(candidate: Candidate) -> tuple[str, str]:
    return ("account", candidate.account + candidate.holder)


def _model(candidate: Candidate) -> tuple[str, str]:
    return ("target", candidate.target + candidate.holder)
