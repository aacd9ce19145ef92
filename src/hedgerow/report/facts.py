"""A request as the report sees it. Times are Unix seconds, money whole nano-dollars; None where it is not known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hedgerow.cost import Certainty
from hedgerow.events import Arm, FailureClass, Outcome, Reason, Role


class Attempt(msgspec.Struct, gc=False):
    """One attempt. `outcome` None: it still runs. Its cost is None where its target has no price."""

    target: str
    role: Role
    outcome: Outcome | None
    launched_at: float
    first_token_at: float | None = None
    nanousd: int | None = None
    least: int | None = None
    most: int | None = None
    certainty: Certainty | None = None


class Request(msgspec.Struct, gc=False):
    """One request that is over. `failure`: the class of what failed it. `skipped`: why a due hedge was not sent."""

    route: str
    arm: Arm | None
    outcome: Outcome
    started_at: float
    ended_at: float
    first_token_at: float | None = None
    unhedged_at: float | None = None
    winner: int | None = None
    failure: FailureClass | None = None
    skipped: Reason | None = None
    attempts: Sequence[Attempt] = ()
