"""The fastest first, or the cheapest of those that are nearly as fast: by what targets have lately taken.

Times are those of the latency model, of requests of the same kind (streamed or whole, and prompt size) as far as all
targets are known by such. Targets of which too little is known stand behind the others. Where a target's times are only
known to be longer than another's, as those who lose races are, they do not count as a number, and it keeps its place.

* It does not flutter: whoever is ahead stays there until another is faster by a margin.
* It does not stop looking: a share of the requests goes to the others first, each in turn, told by the request's id
  alone. In a race these run without the fastest, beside whom the others would never be seen to end.
* It begins by looking: every target leads some requests before its history counts against it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from hedgerow.policy.ask import Ask
from hedgerow.policy.auto import PROMPTS
from hedgerow.policy.guards import place
from hedgerow.policy.latency.cells import LatencyModel, size_of
from hedgerow.policy.order import Fastest
from hedgerow.policy.plan import Candidate
from hedgerow.policy.where import Where

LEAST = 10
"""Samples without which nothing is known of a target, and requests that it leads at first to get them."""
_MILLION = 1_000_000
_Kind = tuple[bool, int]
Costs = Callable[[Iterable[str], int], Mapping[str, float]]
"""What a request to each of these targets costs, by prompt size: all in one unit."""


class _Ranking(msgspec.Struct, frozen=True):
    """Who is ahead for one kind of request. `seconds` is `inf` for those that are unknown, or too slow to be known."""

    by_speed: tuple[str, ...]
    order: Mapping[str, int]
    seconds: Mapping[str, float]
    near: frozenset[str] = frozenset()


_NOBODY = _Ranking((), {}, {})


class ByHistory(Where):
    """See the module. `refreshing` compares anew; what a request is told has been worked out before."""

    __slots__ = ("_costs", "_explored", "_led", "_model", "_names", "_new", "_races", "_rankings", "_rule", "_turn")

    def __init__(self, rule: Fastest, model: LatencyModel, costs: Costs, *, races: bool = False) -> None:
        """`costs` are asked for only where the rule says `within`."""
        self.name = "fastest" if rule.within is None else "cheapest"
        self._rule, self._model, self._costs, self._races = rule, model, costs, races
        self._names: list[str] = []
        self._led: dict[str, int] = {}
        self._new: set[str] = set()  # of those that lead a few requests to be known
        self._explored = rule.explore * _MILLION
        self._rankings: dict[_Kind, _Ranking] = {}
        self._turn = 0

    def knows(self, targets: Collection[str]) -> None:
        """What is new is listed last, and all of it compared anew."""
        if new := [target for target in dict.fromkeys(targets) if target not in self._names]:
            self._names += new
            self._rankings.clear()

    def sweep(self, targets: Collection[str]) -> None:
        """Give back the memory of all but these targets."""
        self._names = [target for target in self._names if target in targets]
        self._led = {target: led for target, led in self._led.items() if target in targets}
        self._rankings.clear()

    def order(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Sequence[int]:
        """New targets first, else as they were last compared; a share of the requests is there to compare."""
        kind = (ask.stream, size_of(ask.input_tokens))
        ranking = self._rankings.get(kind)
        if ranking is None:
            self._look_round(now)
            ranking = self._compare(kind, now)
        places = [ranking.order[candidate.target] for candidate in candidates]
        order = sorted(range(len(places)), key=places.__getitem__)
        if self._new:
            led = self._led
            new = [index for index in order if candidates[index].leads and candidates[index].target in self._new]
            new.sort(key=lambda index: led.get(candidates[index].target, 0))
            if new:
                return [*new, *(index for index in order if index not in new)]
        if place(ask.request_id, b"explore") < self._explored:
            return self._exploring(order, [index for index in order if candidates[index].leads])
        return order

    def led(self, usable: Sequence[Candidate]) -> None:
        """The first of them is being measured."""
        target = usable[0].target
        if target in self._new:
            self._led[target] = led = self._led.get(target, 0) + 1
            if led >= LEAST:
                self._new.discard(target)

    def refreshing(self, now: float) -> Iterator[None]:
        """Compare all of them anew, a kind of request at a time."""
        self._look_round(now)
        for kind in list(self._rankings):
            for target in self._names:  # what this finds out is not found out again below
                self._model.first_tokens.alike([target], *kind, LEAST, now)
                yield
            self._compare(kind, now)
            yield

    def view(self) -> dict[str, Any]:
        """What it goes by, for people."""
        rule = {"rule": self.name, "quantile": self._rule.quantile}
        return rule | {
            "rankings": [
                {"stream": stream, "prompt_tokens": PROMPTS[size], "order": list(ranking.order)}
                | {"seconds": {name: None if each == inf else each for name, each in ranking.seconds.items()}}
                for (stream, size), ranking in self._rankings.items()
            ]
        }

    def _look_round(self, now: float) -> None:
        known, led = self._model.first_tokens.known(self._names, LEAST, now), self._led
        self._new = {each for each in self._names if each not in known and led.get(each, 0) < LEAST}

    def _exploring(self, order: Sequence[int], leads: Sequence[int]) -> Sequence[int]:
        if len(leads) < 2:
            return order
        self._turn += 1
        best, *others = leads
        explored = others[self._turn % len(others)]
        rest = [index for index in order if index != explored]
        if self._races:
            rest.remove(best)
            rest.append(best)
        return [explored, *rest]

    def _compare(self, kind: _Kind, now: float) -> _Ranking:
        rule, before = self._rule, self._rankings.get(kind, _NOBODY)
        laws = self._model.first_tokens.alike(self._names, *kind, LEAST, now)
        seconds = {name: inf if law is None else law.quantile(rule.quantile) for name, law in laws.items()}
        by_speed = by_price = _ranked(before.by_speed or self._names, seconds, rule.margin)
        near: frozenset[str] = frozenset()
        if rule.within is not None:
            limit = min(seconds.values()) * (1.0 + rule.within)
            slack = {name: 1.0 - rule.margin if name in before.near else 1.0 for name in seconds}
            near = frozenset(name for name in seconds if seconds[name] * slack[name] <= limit)
            costs = self._costs(near, kind[1])
            cheap = sorted((name for name in by_speed if name in near), key=costs.__getitem__)
            by_price = (*cheap, *(name for name in by_speed if name not in near))
        ranking = self._rankings[kind] = _Ranking(
            by_speed, {name: position for position, name in enumerate(by_price)}, seconds, near
        )
        return ranking


def _ranked(before: Sequence[str], seconds: Mapping[str, float], margin: float) -> tuple[str, ...]:
    """Each place goes to who had it, of those that are left, unless the fastest of them is so much faster."""
    left, ranked = list(before), []
    while left:
        best = min(left, key=seconds.__getitem__)
        ranked.append(best if seconds[best] < seconds[left[0]] * (1.0 - margin) else left[0])
        left.remove(ranked[-1])
    return tuple(ranked)
