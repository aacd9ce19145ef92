"""Routes: what clients ask for, and how it is hedged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from hedgerow.config.base import DAY, Model, Patience
from hedgerow.config.experiment import Experiment
from hedgerow.config.fields import FLAG, NAMES, PATHS, duration, one_of, whole
from hedgerow.config.gates import GATES_OR_LIST, Gates
from hedgerow.config.hedge import Failover, Hedge, Spend
from hedgerow.config.keep import Keep
from hedgerow.config.order import BY, ORDER
from hedgerow.config.target import Target
from hedgerow.policy.delay import Off
from hedgerow.policy.order import Fastest, OrderRule
from hedgerow.policy.plan import Candidate
from hedgerow.policy.roles import roles_of

TOTAL = 600.0
FIRST_TOKEN = 60.0
STALL = 30.0
"""The defaults of `Timeouts`."""


class Timeouts(Model):
    """How long a request of this route may take."""

    total: Patience = TOTAL
    """How long a request may take from its arrival to its last byte, all attempts together. The default is that of \
the official OpenAI and Anthropic SDKs."""
    first_token: Patience = Field(default_factory=lambda data: min(FIRST_TOKEN, data.get("total", FIRST_TOKEN)))
    """How long one attempt of a streaming request may run without a first token before it counts as failed. An answer \
that is not streamed has no first token: for it only `total` holds, except with `hedge.mode: chain`, where it must be \
whole by then. A target may have a limit of its own. Left out: 60s, or `total` if that is shorter."""
    stall: Patience = Field(default_factory=lambda data: min(STALL, data.get("total", STALL)))
    """The longest silence within an answer that has begun to reach the client; then it is broken off. Left out: 30s, \
or `total` if that is shorter."""


class Idempotency(Model):
    """What becomes of a POST that comes again with the same `Idempotency-Key`, from the same client key to the same \
path: it joins the first one while that runs, and is given its answer afterwards, without being sent anywhere. See \
[exactly once](exactly-once.md)."""

    window: Annotated[float | None, duration(0.0, DAY, off=True)] = None
    """How long a good answer is kept to be given again. `0s` only joins requests that run; with `off` keys mean \
nothing here and go on with the first attempt."""
    linger: Annotated[float, duration(0.0, DAY)] = 10.0
    """How long a request with a key runs on when its client has gone, so that one who asks again finds it."""
    streams: Annotated[bool, FLAG] = False
    """Also for streams: what was sent of one is held in memory as long as it runs."""


class Sticky(Model):
    """How the requests of one session stay at one target, whose prompt cache then knows them."""

    by: Annotated[tuple[str, ...], BY] = ()
    """What tells a session: the name of a header that clients send, or `user` for the one that the request's body \
names (`prompt_cache_key`, `user`, `safety_identifier`, `metadata.user_id`); of a list the first that is there."""
    ttl: Annotated[float, duration(1.0, DAY)] = 600.0
    """How long after its last answer a session stays."""
    sessions: Annotated[int, whole(1, 10_000_000)] = 10_000
    """How many sessions are remembered; beyond it the one longest unheard of is forgotten. Some 200 bytes each."""


class Route(Model):
    """A name clients ask for in the `model` field."""

    targets: Annotated[tuple[str, ...], NAMES]
    """Names of targets, in the order they are tried. A name may be repeated: `[openai, openai]` hedges a slow call \
with a second one to the same provider."""
    order: Annotated[OrderRule | None, ORDER] = None
    """Which of them is asked first, and which next. `fixed`: as they are listed. `rotate`: each in turn, as often as \
its `weight` says. `fastest`: by what each has lately taken to its first token. `cheapest`: the cheapest of those \
that are nearly as fast. With options: `{by: fastest, quantile: p90, margin: 10%, explore: 5%}`. In `hedge.mode: race` \
it is `fastest` unless set. See [the order of targets](order.md)."""
    sticky: Sticky = Sticky()
    hedge: Hedge = Hedge()
    experiment: Experiment = Experiment()
    gates: Annotated[Gates, GATES_OR_LIST] = Gates()
    failover: Failover = Failover()
    spend: Spend = Spend()
    losers: Annotated[Literal["cancel", "keep", "drain"], one_of("cancel", "keep", "drain")] = "cancel"
    """What becomes of attempts that lose. `cancel`: they are broken off at once. `keep`: they run on for a while, and \
their answers can be fetched beside the one that won. See [alternatives](alternatives.md). `drain`: they are read to \
the end within the bounds of `keep`, and nothing of them is kept but the tokens that they report: exact costs, where \
a cancel saves nothing."""
    keep: Keep = Keep()
    background: Annotated[bool, FLAG] = False
    """`true`: nobody waits for these requests, so they are never hedged. Requests that name a batch or flex service \
tier are not either."""
    max_attempts: Annotated[int | None, whole(1, 100, nullable=True)] = None
    """Most attempts for one request: the first, hedges and those after a failure. Left out: one per key of each \
listed target."""
    timeouts: Timeouts = Timeouts()
    reasoning_counts: Annotated[bool, FLAG] = True
    """Whether a reasoning model's thinking is a first token. With `false` an attempt wins with its first word of \
the answer itself, and a long thinker is hedged."""
    nonstream_as_stream: Annotated[bool, FLAG] = False
    """Ask for a stream where the client wants one whole answer, decide at its first token, and hand the client the \
answer put together. An answer is then hedged when it is slow to start, not when it is long."""
    on_stall: Annotated[str, one_of("error", "restart", "continue")] = "error"
    """What becomes of an answer that stalls or breaks off after its first token. `error`: the client is told. \
`restart`: where the client has got nothing yet (`nonstream_as_stream`) another target is asked anew. `continue`: a \
stream of plain text is continued by a target that can (`continues`), from the last character. See \
[mid-stream rescue](rescue.md)."""
    idempotency: Idempotency = Idempotency()
    endpoints: Annotated[tuple[str, ...], PATHS] = ()
    """More paths that this route answers and hedges, such as `/v1/audio/speech` or `/v2/translate`: any POST whose \
answer is one whole body. A request there needs no model."""

    @property
    def asked_by(self) -> OrderRule | None:
        """The order that holds: a race of all who are there needs none."""
        chooses = self.hedge.races and "order" not in self.model_fields_set and len(self.targets) > self.hedge.width
        return Fastest() if chooses else self.order

    def in_order(self, targets: Mapping[str, Target]) -> list[str]:
        """Who is asked first, next and so on, as long as all are well and `order` changes nothing."""
        candidates = [_candidate(each, targets) for each in self.targets]
        roles, places = roles_of(candidates), range(len(candidates))
        first, last = (places, ()) if roles is None else roles.arrange(places)
        return [self.targets[place] for place in (*first, *last)]

    def backups(self, targets: Mapping[str, Target]) -> list[str]:
        """Those that may get hedges; whoever is first is one of them only where others may be first too."""
        first = [] if self.asked_by or self.sticky.by else self.in_order(targets)[:1]
        others = [*self.targets]
        for each in first:
            others.remove(each)
        return [each for each in others if each not in targets or targets[each].only_for != "primary"]

    @property
    def attempts(self) -> int:
        """Most attempts for one request."""
        return len(self.targets) if self.max_attempts is None else self.max_attempts

    def attempts_with(self, targets: Mapping[str, Target]) -> int:
        """Most attempts where these are the targets, whose further keys may each be tried too."""
        more = sum(len(targets[each].more_keys) for each in self.targets)
        return self.attempts + (more if self.max_attempts is None else 0)

    @property
    def hedges(self) -> bool:
        """Whether any request of the route can ever be hedged."""
        if self.hedge.races:
            return self.attempts > 1
        never = self.hedge.chained or self.hedge.delay == Off()
        return self.attempts > 1 and self.hedge.max_hedges > 0 and not never


def _candidate(name: str, targets: Mapping[str, Target]) -> Candidate:
    if (target := targets.get(name)) is None:  # faulty: it may be anything
        return Candidate(name, name)
    only_for, region = target.only_for, target.region or ""
    return Candidate(name, name, leads=only_for != "hedge", backs=only_for != "primary", region=region)
