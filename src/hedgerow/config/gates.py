"""Gates: which answers of a route are good enough to win."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hedgerow.config.base import Model, ShortFor
from hedgerow.config.fields import FLAG, duration, whole
from hedgerow.config.gate_list import GATES
from hedgerow.policy.gates.settings import Spec

_HOUR = 3_600.0


class Prefix(Model):
    """How much of a stream is held back and judged before any of it reaches the client, whichever comes first."""

    tokens: Annotated[int | None, whole(1, 1_000_000, nullable=True)] = None
    """So many tokens, counted as four characters each. Left out: streams are delivered at once, judged when they are \
over, and only reported on."""
    time: Annotated[float, duration(0.001, _HOUR)] = 2.0
    """So long after the first token."""


class Gates(Model):
    """Which answers are good enough to win. A list in its place is `require`. See [gates](gates.md)."""

    require: Annotated[tuple[Spec, ...], GATES] = ()
    """What an answer must pass, in order: `finished`, `non_empty`, `min_chars`, `min_tokens`, `json`, `json_schema`, \
`required_fields`, `matches`, `not_matches`, `no_refusal`, `python`."""
    prefix: Prefix = Field(default_factory=Prefix)
    wait: Annotated[float, duration(0.0, _HOUR)] = 5.0
    """How long a rejected answer waits for others that are under way; then the best of those rejected is delivered, \
marked with `x-hedgerow-gate`."""
    strict: Annotated[bool, FLAG] = False
    """`true`: if all were rejected the client gets an error, not the best of them."""
    unhealthy: Annotated[bool, FLAG] = False
    """`true`: a rejected answer counts as a failure of its target, for its `breaker`."""


GATES_OR_LIST = ShortFor("require", of="Gates")
