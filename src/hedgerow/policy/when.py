"""When to hedge: the delay of a request, and the probability with which it counts.

What a request is told has been worked out before, for its kind: the targets it would go to, streamed or whole, and how
large its prompt is. `When.refresh` works it out anew, every few seconds and away from requests.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from copy import copy
from math import inf
from typing import Any

import msgspec

from hedgerow.policy.ask import Ask
from hedgerow.policy.auto import (
    PROMPTS,
    Cost,
    KeptPlan,
    Kind,
    Planned,
    affordable,
    hopeful,
    kinds_of,
    prompt_tokens,
    slowest,
)
from hedgerow.policy.cancelling import RAISE
from hedgerow.policy.correlation import OTHER_PROVIDER, Pairs
from hedgerow.policy.delay import Auto, Fixed, Off, Percentile, Slo, show
from hedgerow.policy.latency.cells import SIZES, LatencyModel, Seen
from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.objective import in_time
from hedgerow.policy.percentile import DelayNotice, Percentiles, Which
from hedgerow.policy.reissue import Aim, Reissue, Steps, finish
from hedgerow.policy.rules import WARMUP, Choice, Rules

_Pair = tuple[str, str, bool]
_Key = tuple[str, str, bool, int]
_NOTHING = Planned(())


def _other_provider(_primary: str, _backup: str) -> float:
    return OTHER_PROVIDER


class When:
    """The delays of one route. It learns through the `LatencyModel` and `hedged`."""

    __slots__ = (
        "_correlation",
        "_cost",
        "_kept",
        "_model",
        "_notices",
        "_pace",
        "_pairs",
        "_percentiles",
        "_plans",
        "_rules",
        "always",
    )

    def __init__(
        self,
        model: LatencyModel,
        rules: Rules,
        *,
        cost: Cost = prompt_tokens,
        correlation: Callable[[str, str], float] = _other_provider,
    ) -> None:
        """`correlation`: what to assume of a primary and a backup, see `policy.correlation.assumed`."""
        self._model, self._cost, self._correlation = model, cost, correlation
        self._pairs: dict[tuple[str, str], Pairs] = {}
        self._pace = 1.0
        self._notices: list[DelayNotice] = []
        self._go_by(rules)

    def change(self, rules: Rules) -> None:
        """Go on with other rules; what was learned stays."""
        if rules != self._rules:
            self._go_by(rules)

    def beside(self, rules: Rules) -> When:
        """Another, by other rules: what either learns the other knows, and goes on to after a `sweep` of either."""
        one = copy(self)
        one._notices = []
        one._go_by(rules)
        return one

    def _go_by(self, rules: Rules) -> None:
        self._rules = rules
        spec = rules.spec
        self.always: Choice | None = None
        """What every request is told, where a rule neither learns nor looks at it."""
        if isinstance(spec, Off):
            self.always = Choice(inf, 0.0, "off")
        elif isinstance(spec, Fixed):
            self.always = Choice(rules.clamp(spec.seconds), 1.0, "fixed")
        self._percentiles = Percentiles(spec, rules.max_delay) if isinstance(spec, Percentile) else None
        self._kept: dict[_Key, Choice] = {}
        self._plans: dict[_Pair, KeptPlan] = {}

    def choose(self, ask: Ask, primary: str, backup: str | None, now: float) -> Choice:
        """When to hedge a request that goes to `primary` first. Without a backup a hedge is taken to go there too."""
        if self.always is not None:
            return self.always
        key = (primary, backup or primary, ask.stream, bisect_right(SIZES, ask.input_tokens))
        choice = self._kept.get(key)
        if choice is None:
            choice = self._kept[key] = self._alone(key, now, at_once=True)
        return choice

    def raised(self, choice: Choice) -> Choice:
        """The same with a longer delay: a hedge is dearer, as one of the two goes on when it has lost."""
        longer = min(choice.delay * RAISE, max(choice.delay, self._rules.max_delay))
        return Choice(longer, choice.probability, choice.source)

    def hedged(
        self, ask: Ask, primary: str, backup: str, took: float, hedge_took: float, now: float, *, done: bool,
        hedge_done: bool,
    ) -> bool:  # fmt: skip
        """Learn how attempts go together from a hedged request that neither attempt failed; whether it told anything.

        Of a backup that serves nothing but hedges only its times beside slow primaries are known. These hold already
        what the two have in common, and the correlation beyond that comes out as 0, as it should for planning.

        `took`, `hedge_took`: seconds from each attempt's own launch to its first token (`done`), else until it was
        broken off. They are compared with what is planned with: where nothing is, there is nothing to learn.
        """
        first = self._model.planned(primary, ask.stream, ask.input_tokens, now)
        second = self._model.planned(backup, ask.stream, ask.input_tokens, now)
        if first is None or second is None:
            return False
        pairs = self._pairs.get((primary, backup))
        if pairs is None:
            pairs = self._pairs[primary, backup] = Pairs(self._correlation(primary, backup))
        return pairs.observe(first.cdf(took), second.cdf(hedge_took), primary_done=done, hedge_done=hedge_done)

    def correlation(self, primary: str, backup: str) -> float:
        """How much the times of two such attempts go together."""
        return self._together(primary, backup)[0]

    def _together(self, primary: str, backup: str) -> tuple[float, float]:
        """How much they go together, and the least that nothing speaks against."""
        pairs = self._pairs.get((primary, backup)) or Pairs(self._correlation(primary, backup))
        return pairs.estimate(), pairs.least()

    def notices(self) -> Sequence[DelayNotice]:
        """What has changed since this was asked last."""
        notices, self._notices = self._notices, []
        return notices

    def view(self) -> list[dict[str, Any]]:
        """The delays that hold now, for people: those of rules that do not learn are the rule itself."""
        return [
            {"primary": primary, "backup": backup, "stream": stream, "prompt_tokens": PROMPTS[size]}
            | {"delay": choice.delay if choice.delay < inf else None, "probability": choice.probability}
            | {"source": choice.source}
            for (primary, backup, stream, size), choice in self._kept.items()
        ]

    def refresh(self, now: float) -> None:
        """Choose anew for all kinds of request that have been seen."""
        finish(self.refreshing(now))

    def refreshing(self, now: float, pace: float = 1.0) -> Steps[None]:
        """`refresh` in steps, for a loop that has other things to do; none may be left when the next begins.

        `pace`: how much of the budget new plans should aim at.
        """
        rules, self._pace = self._rules, pace
        if self._percentiles is not None:
            self._percentiles.begin()
        pairs: dict[_Pair, list[_Key]] = {}
        for key in self._kept:
            pairs.setdefault(key[:3], []).append(key)
        for pair, keys in pairs.items():
            if isinstance(rules.spec, Auto | Slo):
                yield from self._refresh_together(pair, keys, now)
            else:
                yield from self._refresh_each(keys, now)
            if rules is not self._rules:
                return
        if self._percentiles is not None:
            self._notices += self._percentiles.notices(now)

    def sweep(self, targets: Collection[str]) -> None:
        """Give back the memory of all but these targets."""
        for gone in [pair for pair in self._pairs if not set(pair) <= set(targets)]:
            del self._pairs[gone]  # in place: those made by `beside` go on learning into the same
        self._kept = {key: choice for key, choice in self._kept.items() if set(key[:2]) <= set(targets)}
        self._plans = {pair: plan for pair, plan in self._plans.items() if set(pair[:2]) <= set(targets)}

    def _refresh_each(self, keys: Sequence[_Key], now: float) -> Steps[None]:
        rules = self._rules
        for key in keys:
            self._kept[key] = self._alone(key, now)
            yield
            if rules is not self._rules:
                return

    def _refresh_together(self, pair: _Pair, keys: Sequence[_Key], now: float) -> Steps[None]:
        """Share the budget out over the prompt sizes; nothing changes where next to nothing was learned."""
        rules, seen = self._rules, self._seen(pair, now)
        before = self._plans.get(pair)
        if before is not None and before.holds(len(keys), seen):
            return
        kinds = kinds_of(self._model, *pair, self._cost, now)
        if not any(self._tells(kind.primary) for kind in kinds):
            kinds = ()
        inputs = (kinds, *self._together(*pair[:2]))
        if kinds and before is not None and before.is_of(len(keys), inputs):
            return
        yield
        plan = (yield from self._planned(*inputs, 1.0 if before is None else before.start)) if kinds else _NOTHING
        if rules is not self._rules:
            return
        self._plans[pair] = KeptPlan(inputs, len(keys), seen, plan.start)
        of_size = {size: index for index, kind in enumerate(kinds) for size in kind.sizes}
        for key in keys:
            index = of_size.get(key[3])
            if index is None:
                self._kept[key] = self._alone(key, now)
                yield
            else:
                self._kept[key] = self._choice(plan.choices[index])

    def _alone(self, key: _Key, now: float, *, at_once: bool = False) -> Choice:
        """What is best for this kind of request, if the budget is a share of it alone.

        `at_once`: a request waits, and a delay that comes to the budget must do where the best takes milliseconds.
        """
        primary, backup, stream, size = key
        model, percentiles, which = self._model, self._percentiles, Which(primary, stream, size)
        law = model.first_token(primary, stream, PROMPTS[size], now)
        if law is None or not self._tells(law):
            if percentiles is not None:
                percentiles.forget(which)
            warmup = self._rules.clamp(self._rules.warmup_delay)
            return Choice(warmup, float(warmup < inf), WARMUP)
        if percentiles is not None and (delay := percentiles.delay(which, law)) is not None:
            return Choice(self._rules.clamp(delay), 1.0, show(self._rules.spec))
        other = model.answers(backup, stream, PROMPTS[size], now) or law
        if at_once and self._rules.budget is not None and not isinstance(self._rules.spec, Slo):
            return self._choice(affordable(law, self._aim))
        kind = Kind((size,), 1.0, 1.0, law, other)
        plan = finish(self._planned([kind], *self._together(primary, backup)))
        return self._choice(plan.choices[0])

    def _seen(self, pair: _Pair, now: float) -> tuple[Seen, Seen]:
        primary, backup, stream = pair
        samples = self._model.first_tokens
        return samples.seen(primary, stream, now), samples.seen(backup, stream, now)

    @property
    def _aim(self) -> Aim:
        aim = self._rules.aim
        return aim if self._pace == 1.0 else msgspec.structs.replace(aim, budget=min(aim.budget * self._pace, 1.0))

    def _tells(self, primary: Distribution) -> bool:
        """Whether a delay can be found in its times: not where it was never seen to answer, unless one is given."""
        return primary.events > 0 or isinstance(self._rules.spec, Slo)

    def _planned(self, kinds: Sequence[Kind], correlation: float, least: float, start: float = 1.0) -> Steps[Planned]:
        rules = self._rules
        if isinstance(rules.spec, Slo):
            return Planned((yield from in_time(kinds, correlation, rules.spec.seconds, rules.aim)))
        if rules.budget is not None:
            return (yield from hopeful(kinds, correlation, least, self._aim, start))
        delays = [min(max(slowest(k.primary, rules.target), rules.min_delay), rules.max_delay) for k in kinds]
        return Planned([Reissue(delay, float(delay < inf), inf) for delay in delays])

    def _choice(self, found: Reissue) -> Choice:
        match self._rules.spec:
            case Slo():
                return Choice(found.delay, found.probability, "slo")
            case Auto():
                return Choice(found.delay, found.probability, "auto")
            case _:
                return Choice(found.delay, found.probability, "budget")
