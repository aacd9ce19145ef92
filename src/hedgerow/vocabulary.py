"""The words that events and decisions share: roles, outcomes, failures and their classes, reasons.

`hedgerow.events` has all of them too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

Headers = list[tuple[bytes, bytes]]
"""HTTP header fields in wire order; names are lower-case, values as received without surrounding blanks."""


class Role(StrEnum):
    """Why an attempt was launched."""

    PRIMARY = "primary"
    HEDGE = "hedge"
    FAILOVER = "failover"
    RACER = "racer"


class Outcome(StrEnum):
    """How an attempt ended."""

    WON = "won"
    SUPERSEDED = "superseded"
    REJECTED = "rejected"
    KEPT = "kept"
    """It lost and ran on to its end; its answer is kept as an alternative, unless its route only drains losers."""
    FAILED = "failed"
    FAILED_AFTER_COMMIT = "failed_after_commit"
    CLIENT_GONE = "client_gone"


class Arm(StrEnum):
    """The sides of an experiment: what hedging brings is what tells them apart."""

    HEDGED = "hedged"
    HOLDOUT = "holdout"
    """Never hedged by delay, whatever happens."""


class FailureClass(StrEnum):
    """What kind of failure an attempt met; decides who may be tried next (docs/design.md, failure classes)."""

    FATAL_REQUEST = "fatal_request"
    CONTENT_POLICY = "content_policy"
    UPSTREAM_AUTH = "upstream_auth"
    UPSTREAM_MISSING_MODEL = "upstream_missing_model"
    QUOTA_EXHAUSTED = "quota_exhausted"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    OVERLOADED = "overloaded"
    CONNECT = "connect"
    PROTOCOL = "protocol"
    EMPTY = "empty"
    TIMEOUT_FIRST_TOKEN = "timeout_first_token"
    TIMEOUT_STALL = "timeout_stall"
    TIMEOUT_TOTAL = "timeout_total"
    GATE = "gate"
    """A whole answer came, or the start of one, and a gate of the route rejected it."""


class Reason(StrEnum):
    """Why a hedge was not launched although its time had come."""

    SIDE_EFFECTS = "side_effects"
    CLIENT_OPT_OUT = "client_opt_out"
    DEADLINE = "deadline"
    TARGETS = "targets"
    BUDGET = "budget"
    BREAKER = "breaker"
    QUOTA = "quota"
    OUTAGE = "outage"
    TOO_LARGE = "too_large"
    CONDITION = "condition"
    ROLLOUT = "rollout"
    KILL_SWITCH = "kill_switch"
    BACKGROUND = "background"
    PROBABILITY = "probability"
    SHADOW = "shadow"
    CANCEL_FAILURE = "cancel_failure"
    HOLDOUT = "holdout"


class Failure(msgspec.Struct, frozen=True, gc=False):
    """One attempt's failure, with the upstream's own answer where there was one.

    `status` is the upstream's HTTP status, or the one its in-stream error frame means; None when nothing answered.
    `body` is the upstream's body, unchanged (for an in-stream error frame: its JSON), None when nothing answered.
    `retry_after` is in seconds. `message` is ours, for logs. `unsent`: the upstream never got the request.
    `in_stream`: it told the error inside a 200, so it had already begun to work.
    """

    kind: FailureClass
    message: str
    status: int | None = None
    headers: Headers | None = None
    body: bytes | None = None
    retry_after: float | None = None
    unsent: bool = False
    in_stream: bool = False

    def __repr__(self) -> str:
        # The upstream's words may quote a prompt or a key.
        return f"Failure({self.kind.value}, {self.message!r}, status={self.status})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("kind", self.kind.value), ("message", self.message), ("status", self.status)]
