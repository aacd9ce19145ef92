"""What the ledger holds: the columns of its tables, as records. Times are Unix microseconds, money nano-dollars.

docs/ledger.md says what each column means.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hedgerow.unshown import Unshown

OPEN: Final = "open"
"""The outcome of what was still under way when it was written."""
LOST: Final = "lost"
"""The outcome of what was under way when its gateway process died."""


class RequestRow(msgspec.Struct, gc=False):
    """One request."""

    process: int
    number: int
    request_id: str
    route: str
    protocol: str
    stream: bool
    model: str | None
    tenant: str
    arm: str | None
    outcome: str
    status: int | None
    error_class: str | None
    attempts: int
    hedges: int
    winner: int | None
    winner_target: str | None
    winner_role: str | None
    hedge_reason: str | None
    hedge_detail: str | None
    failover_reason: str | None
    failover_detail: str | None
    gate: str | None
    repeats: int
    started_at: int
    first_token_at: int | None
    ended_at: int | None
    billed_at: int | None
    unhedged_at: int | None
    input_tokens: int | None
    cached_input_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    token_source: str | None
    certainty: str | None
    cost_nanousd: int | None
    least_nanousd: int | None
    most_nanousd: int | None
    extra_nanousd: int | None


class AttemptRow(msgspec.Struct, gc=False):
    """One attempt."""

    process: int
    number: int
    attempt: int
    target: str
    model: str | None
    role: str
    outcome: str
    stream: bool | None
    status: int | None
    error_class: str | None
    error: str | None
    finish_reason: str | None
    service_tier: str | None
    verdict: str | None
    gate: str | None
    gate_detail: str | None
    rescued_after: int | None
    launched_at: int
    sent_at: int | None
    headers_at: int | None
    first_token_at: int | None
    ended_at: int | None
    received_bytes: int | None
    input_tokens: int | None
    cached_input_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    token_source: str | None
    certainty: str | None
    cost_nanousd: int | None
    least_nanousd: int | None
    most_nanousd: int | None


class ContentRow(Unshown, msgspec.Struct, gc=False):
    """What was asked or answered; `size` is the bytes that it had, of which the beginning is here if `truncated`."""

    process: int
    number: int
    attempt: int
    part: str
    content: str
    size: int
    truncated: bool


Histogram = dict[int, int]
"""How many values lie in which bucket, by its lower end (`hedgerow.ledger.histogram`)."""


class _Hour(msgspec.Struct, kw_only=True, gc=False):
    """What both kinds of hourly rows have. `hour` is its begin. Costs are apart by certainty; `unpriced` had none."""

    hour: int
    route: str
    stream: bool
    outcome: str
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    exact_nanousd: int
    estimated_nanousd: int
    at_least_nanousd: int
    unpriced: int
    first_token_us: Histogram
    total_us: Histogram


class RequestHour(_Hour, kw_only=True, gc=False):
    """The requests of one hour that have all these words in common ("" where there is none)."""

    tenant: str
    arm: str
    winner_target: str
    winner_role: str
    hedge_reason: str
    requests: int
    attempts: int
    hedges: int
    extra_nanousd: int


class AttemptHour(_Hour, kw_only=True, gc=False):
    """The attempts of one hour that have all these words in common ("" where there is none)."""

    target: str
    model: str
    role: str
    error_class: str
    attempts: int
