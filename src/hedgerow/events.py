"""The frozen records every floor speaks: what happened to requests and attempts.

Engine and gateway emit them; metrics, ledger, dashboard and estimators listen. All times are seconds on the loop's
monotonic clock. No record ever holds a prompt, an answer or a key.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hedgerow.cost import Bill as Bill
from hedgerow.cost import Certainty as Certainty
from hedgerow.standing import BreakerChanged as BreakerChanged
from hedgerow.standing import BreakerState as BreakerState
from hedgerow.standing import CancelFailed as CancelFailed
from hedgerow.standing import ControlsChanged as ControlsChanged
from hedgerow.standing import DelayRuleChanged as DelayRuleChanged
from hedgerow.standing import HedgingThrottled as HedgingThrottled
from hedgerow.standing import TargetTakenOut as TargetTakenOut
from hedgerow.usage import Usage as Usage
from hedgerow.usage import UsageSource as UsageSource
from hedgerow.vocabulary import Arm as Arm
from hedgerow.vocabulary import Failure as Failure
from hedgerow.vocabulary import FailureClass as FailureClass
from hedgerow.vocabulary import Headers as Headers
from hedgerow.vocabulary import Outcome as Outcome
from hedgerow.vocabulary import Reason as Reason
from hedgerow.vocabulary import Role as Role


class RequestStarted(msgspec.Struct, frozen=True, gc=False):
    """A request was accepted and its first attempt is about to start. `model` is the one the client named, if any.

    `tenant` is a fingerprint of the client's key, "" without one. `arm` is its side of the route's experiment, None
    where it takes part in none.
    """

    request_id: str
    route: str
    protocol: str
    stream: bool
    at: float
    model: str | None = None
    tenant: str = ""
    arm: Arm | None = None


class AttemptLaunched(msgspec.Struct, frozen=True, gc=False):
    """An attempt was sent to a target for `model`. `attempt` counts from 0 within the request."""

    request_id: str
    attempt: int
    target: str
    role: Role
    at: float
    model: str | None = None


class HedgeSkipped(msgspec.Struct, frozen=True, gc=False):
    """A hedge's time had come and it was not launched; with role `failover`: an attempt after a failure was not."""

    request_id: str
    route: str
    reason: Reason
    at: float
    detail: str = ""
    role: Role = Role.HEDGE


class FirstToken(msgspec.Struct, frozen=True, gc=False):
    """An attempt has won: its first token is here, or the whole of an answer that is not streamed.

    `stream` and `input_tokens` as in `AttemptEnded`.
    """

    request_id: str
    attempt: int
    target: str
    role: Role
    launched_at: float
    at: float
    stream: bool
    input_tokens: int


class AnswerRejected(msgspec.Struct, frozen=True, gc=False):
    """A gate rejected an attempt's answer; `detail` quotes nothing of it.

    `delivered`: a stream, judged too late. One that was judged in time may be delivered all the same, when nobody has a
    better one: `RequestFinished.gate` says so.
    """

    request_id: str
    route: str
    attempt: int
    target: str
    gate: str
    detail: str
    at: float
    delivered: bool


class AnswerNotJudged(msgspec.Struct, frozen=True, gc=False):
    """A gate could not judge an attempt's answer, which counts as good: `why` names it and what was in its way."""

    request_id: str
    route: str
    attempt: int
    target: str
    why: str
    at: float


class AttemptEnded(msgspec.Struct, frozen=True, gc=False):
    """An attempt is over. Times are None where the attempt did not get that far.

    `stream`: its target was asked for a stream. `input_tokens` is an estimate from the size of the request's body.
    `model` is the one that was asked for. `sent_at` is when the request had been written to a connection.
    `finish_reason` and `service_tier` are the upstream's own words. `output_limit` is the most tokens that its answer
    may have, None where nobody limits them.
    """

    request_id: str
    attempt: int
    target: str
    role: Role
    outcome: Outcome
    launched_at: float
    headers_at: float | None
    first_token_at: float | None
    ended_at: float
    status: int | None
    received_bytes: int
    failure: Failure | None = None
    usage: Usage | None = None
    stream: bool = True
    input_tokens: int = 0
    model: str | None = None
    sent_at: float | None = None
    finish_reason: str | None = None
    service_tier: str | None = None
    output_limit: int | None = None


class RequestFinished(msgspec.Struct, frozen=True, gc=False):
    """A request is over for its client. `winner` is the committed attempt, None if there was none.

    `status` is what the client was answered; None when it left first. `gate` is the one that rejected the winner's
    answer, which was delivered since nobody had a better one. `arm` as in `RequestStarted`. `unhedged_at` is when the
    first token would have come without hedging: when it did come, where no hedge or racer won, else an
    estimate that is rather too early than too late; None where it is not known.
    `hedges` are the attempts that were launched as hedges or racers.
    """

    request_id: str
    route: str
    protocol: str
    stream: bool
    started_at: float
    first_token_at: float | None
    ended_at: float
    status: int | None
    winner: int | None
    attempts: int
    outcome: Outcome
    usage: Usage | None = None
    gate: str | None = None
    arm: Arm | None = None
    unhedged_at: float | None = None
    hedges: tuple[int, ...] = ()


class RequestBilled(msgspec.Struct, frozen=True, gc=False):
    """None of a request's attempts runs any more: what each of them comes to, in the order of their launch.

    The last that is told of a request; nobody waits for it.
    """

    request_id: str
    route: str
    at: float
    bills: tuple[Bill, ...]


class WonAlone(msgspec.Struct, frozen=True, gc=False):
    """A request whose one attempt, the first, won and is billed for just what it reported: all that its `AttemptEnded`,
    `RequestFinished` and `RequestBilled` would say to who only counts. Most requests are like this.

    It is no event: it is told in place of those three where all who want them have a `tally` for it.
    """

    route: str
    protocol: str
    stream: bool
    target: str
    started_at: float
    sent_at: float | None
    headers_at: float | None
    first_token_at: float
    ended_at: float
    status: int
    arm: Arm | None
    usage: Usage
    nanousd: int | None


class RequestRepeated(msgspec.Struct, frozen=True, gc=False):
    """A client asked again with the idempotency key of this request and gets its answer; nothing is launched for it.

    `running`: the request was still under way.
    """

    request_id: str
    route: str
    at: float
    running: bool


class AnswerRescued(msgspec.Struct, frozen=True, gc=False):
    """The answer of a committed attempt broke off, and another attempt goes on with it after so many characters.

    `chars` is 0 where the client had got nothing, and the answer begins anew.
    """

    request_id: str
    route: str
    attempt: int
    target: str
    chars: int
    at: float


Event = (
    RequestStarted
    | AttemptLaunched
    | HedgeSkipped
    | FirstToken
    | AnswerRejected
    | AnswerNotJudged
    | AttemptEnded
    | RequestFinished
    | RequestBilled
    | RequestRepeated
    | AnswerRescued
    | TargetTakenOut
    | BreakerChanged
    | DelayRuleChanged
    | HedgingThrottled
    | CancelFailed
    | ControlsChanged
)
Listener = Callable[[Event], None]
"""Told of events as they happen, on the loop: it must be quick and must not raise.

A listener with an attribute `kinds` (event types) is told of those only. Where it has `ears`, a callable for each of
them, those are called in its place.
"""
