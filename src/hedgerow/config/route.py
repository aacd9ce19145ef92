"""Routes: what clients ask for, and how it is hedged."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hedgerow.config.base import Model, Patience
from hedgerow.config.fields import FLAG, NAMES, PATHS, duration, percentage, some_of, whole

TOTAL = 600.0
FIRST_TOKEN = 60.0
STALL = 30.0
"""The defaults of `Timeouts`."""


class Hedge(Model):
    """When a backup attempt starts."""

    delay: Annotated[float | None, duration(0.0, 3_600.0, off=True)] = 2.0
    """How long an attempt may run without a first token (a non-streaming one: without its answer) before the next \
target is tried as well. `off` never hedges: the other targets are then used only when one fails."""
    max_hedges: Annotated[int, whole(0, 3)] = 1
    """Most attempts started by delay for one request. Attempts after a failure do not count."""
    budget: Annotated[float | None, percentage(0.001, 1.0)] = 0.1
    """Most attempts started by delay, as a share of the route's requests: a hard cap. Ten may start in a row before \
they must have been earned. Attempts after a failure do not count. `off` sets no cap."""
    allow: Annotated[tuple[str, ...], some_of("n", "audio", "store", least=0)] = ()
    """What may be hedged although it costs more or leaves something behind: `n` (several answers to one request), \
`audio` (spoken answers), `store` (answers that the Responses API keeps unless told not to)."""


class Timeouts(Model):
    """How long a request of this route may take."""

    total: Patience = TOTAL
    """How long a request may take from its arrival to its last byte, all attempts together. The default is that of \
the official OpenAI and Anthropic SDKs."""
    first_token: Patience = Field(default_factory=lambda data: min(FIRST_TOKEN, data.get("total", FIRST_TOKEN)))
    """How long one attempt of a streaming request may run without a first token before it counts as failed. An answer \
that is not streamed has no first token: for it only `total` holds. Left out: 60s, or `total` if that is shorter."""
    stall: Patience = Field(default_factory=lambda data: min(STALL, data.get("total", STALL)))
    """The longest silence within an answer that has begun to reach the client; then it is broken off. Left out: 30s, \
or `total` if that is shorter."""


class Route(Model):
    """A name clients ask for in the `model` field."""

    targets: Annotated[tuple[str, ...], NAMES]
    """Names of targets, in the order they are tried. A name may be repeated: `[openai, openai]` hedges a slow call \
with a second one to the same provider."""
    hedge: Hedge = Hedge()
    max_attempts: Annotated[int | None, whole(1, 100, nullable=True)] = None
    """Most attempts for one request: the first, hedges and those after a failure. Left out: one per listed target."""
    timeouts: Timeouts = Timeouts()
    reasoning_counts: Annotated[bool, FLAG] = True
    """Whether a reasoning model's thinking is a first token. With `false` an attempt wins with its first word of \
the answer itself, and a long thinker is hedged."""
    nonstream_as_stream: Annotated[bool, FLAG] = False
    """Ask for a stream where the client wants one whole answer, decide at its first token, and hand the client the \
answer put together. An answer is then hedged when it is slow to start, not when it is long."""
    endpoints: Annotated[tuple[str, ...], PATHS] = ()
    """More paths that this route answers and hedges, such as `/v1/audio/speech` or `/v2/translate`: any POST whose \
answer is one whole body. A request there needs no model."""

    @property
    def attempts(self) -> int:
        """Most attempts for one request."""
        return len(self.targets) if self.max_attempts is None else self.max_attempts

    @property
    def hedge_delay(self) -> float | None:
        """When a hedge may start, in seconds; None when none can, whatever `hedge.delay` says."""
        return self.hedge.delay if self.attempts > 1 and self.hedge.max_hedges > 0 else None
