"""The schema `hedge-case/1`, typed. A key that is not here is an error, never skipped."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Name = Literal["primary", "backup"]
NAMES: tuple[Name, ...] = ("primary", "backup")
Window = tuple[float, float]
"""The earliest and the latest that is right."""
OutcomeWord = Literal["won", "lost_cancelled", "failed", "failed_after_commit", "not_started", "client_gone"]
Protocol = Literal[
    "openai.chat",
    "openai.completions",
    "openai.responses",
    "openai.embeddings",
    "anthropic.messages",
    "gemini.generate",
    "bedrock.converse",
    "http",
]


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class Breaker(_Part):
    """So many failures in a row take an upstream out, for so long."""

    failures: int
    open_ms: float | UnsetType = UNSET


class Throttle(_Part):
    """The tokens of gRPC's retry throttling."""

    max_tokens: float
    token_ratio: float


class Adaptive(_Part):
    """A delay that is learned; `initial_ms` until something is."""

    initial_ms: float = 300
    min_ms: float = 50


class Policy(_Part):
    """Overrides of the defaults. Times are milliseconds."""

    hedge_after_ms: float | Literal["adaptive"] = 300
    max_attempts: int = 2
    ttft_timeout_ms: float = 2000
    idle_timeout_ms: float = 1500
    total_timeout_ms: float = 8000
    reasoning_counts: bool = True
    retry_same_upstream: int = 0
    pool_max_connections: int | UnsetType = UNSET
    breaker: Breaker | UnsetType = UNSET
    throttle: Throttle | UnsetType = UNSET
    adaptive: Adaptive | UnsetType = UNSET
    hedge_budget_tokens: float | UnsetType = UNSET
    pin_probe_ms: float | UnsetType = UNSET


class BodyPart(_Part):
    """A piece of a long body: `text`, or `repeat` so many times."""

    text: str | UnsetType = UNSET
    repeat: str | UnsetType = UNSET
    count: int | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.text is UNSET) == (self.repeat is UNSET) or (self.repeat is UNSET) != (self.count is UNSET):
            raise ValueError("a part of a body is `text`, or `repeat` with `count`")

    @property
    def content(self) -> str:
        """All of it."""
        if isinstance(self.text, str):
            return self.text
        return self.repeat * self.count if isinstance(self.repeat, str) and isinstance(self.count, int) else ""


class Request(_Part):
    """What the client sends."""

    method: str
    path: str
    headers: list[tuple[str, str]] = []
    body: Any = UNSET
    body_text: str | UnsetType = UNSET
    body_parts: list[BodyPart] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if [self.body, self.body_text, self.body_parts].count(UNSET) < 2:
            raise ValueError("a request has one of `body`, `body_text` and `body_parts`")

    def content(self) -> bytes | None:
        """The bytes of the body; None when there is none."""
        if isinstance(self.body_text, str):
            return self.body_text.encode()
        if isinstance(self.body_parts, list):
            return "".join(part.content for part in self.body_parts).encode()
        return None if self.body is UNSET else json.dumps(self.body, ensure_ascii=False).encode()


class ClientScript(_Part):
    """What the client does apart from asking."""

    disconnect_at_ms: float


class UpstreamScript(_Part):
    """How an upstream answers. Delays are milliseconds."""

    status: int = 200
    headers: list[tuple[str, str]] = []
    header_delay_ms: float = 0
    chunks: list[list[Any]] = []
    end: Literal["close", "reset", "hang"] = "close"
    connect: Literal["refuse", "blackhole"] | UnsetType = UNSET
    on_reused_connection: Literal["close_without_response"] | UnsetType = UNSET
    first_request: Literal["close_without_response"] | UnsetType = UNSET
    http: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        for chunk in self.chunks:
            _piece(chunk)

    def pieces(self) -> Iterator[tuple[float, bytes]]:
        """The body: each piece with its delay in seconds after the one before."""
        return map(_piece, self.chunks)


def _piece(chunk: list[Any]) -> tuple[float, bytes]:
    match chunk:
        case [int() | float() as delay, str(text)]:
            return delay / 1000, text.encode()
        case [int() | float() as delay, "b64", str(text)]:
            return delay / 1000, base64.b64decode(text, validate=True)
        case [int() | float() as delay, "repeat", str(text), int(count)]:
            return delay / 1000, text.encode() * count
    raise ValueError("a chunk is [delay, text], [delay, 'b64', text] or [delay, 'repeat', text, count]")


class ErrorExpected(_Part):
    """The error that the client must be told."""

    in_stream: bool
    status: int | UnsetType = UNSET
    code: str | int | UnsetType | None = UNSET
    type: str | UnsetType | None = UNSET


class ClientExpected(_Part):
    """What the client must get."""

    status: int | UnsetType | None = UNSET
    text: str | UnsetType = UNSET
    text_by_choice: dict[str, str] | UnsetType = UNSET
    text_one_of: list[str] | UnsetType = UNSET
    text_length: int | UnsetType = UNSET
    finish: str | UnsetType | None = UNSET
    error: ErrorExpected | UnsetType | None = UNSET
    must_contain: list[str] | UnsetType = UNSET
    must_not_contain: list[str] | UnsetType = UNSET
    order: list[str] | UnsetType = UNSET
    count: dict[str, int] | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    header_equals: dict[str, str] | UnsetType = UNSET
    header_contains: dict[str, str] | UnsetType = UNSET
    headers_absent: list[str] | UnsetType = UNSET
    done_by_ms: float | UnsetType = UNSET
    terminator: Literal["required", "forbidden", "any"] | UnsetType = UNSET


class UpstreamRequestExpected(_Part):
    """What an upstream must have received."""

    body_json_contains: Any = UNSET
    body_bytes_contain: list[str] | UnsetType = UNSET
    body_sha256_equals: Name | UnsetType = UNSET


class UsageExpected(_Part):
    """Tokens on record."""

    input: int | UnsetType = UNSET
    output: int | UnsetType = UNSET
    input_min: int | UnsetType = UNSET
    output_min: int | UnsetType = UNSET
    source: Literal["reported", "partial", "estimated"] | UnsetType = UNSET


class AttemptExpected(_Part):
    """What is on record about the attempt at one upstream."""

    error_class: str | UnsetType | None = UNSET
    http_status: int | UnsetType | None = UNSET
    in_stream: bool | UnsetType = UNSET
    usage: UsageExpected | UnsetType = UNSET
    requests_seen: int | UnsetType = UNSET
    billed: Literal["yes", "no", "likely", "unknown"] | UnsetType = UNSET


class RecordExpected(_Part):
    """What must be on record."""

    attempts: dict[Name, AttemptExpected] | UnsetType = UNSET
    request_status: Literal["ok", "error", "client_gone"] | UnsetType = UNSET
    hedge_skipped: str | UnsetType | None = UNSET
    hedge_won: bool | UnsetType = UNSET
    breaker: dict[Literal["primary", "backup", "loser"], Literal["ignored", "counts", "pinned"]] | UnsetType = UNSET
    breaker_state: dict[Name, Literal["closed", "open", "half_open"]] | UnsetType = UNSET
    cooldown_ms: dict[Name, Window] | UnsetType = UNSET
    cooldown_capped: bool | UnsetType = UNSET
    latency_sample: dict[Name, bool] | UnsetType = UNSET
    failures: dict[Name, int] | UnsetType = UNSET
    transparent_retries: int | UnsetType = UNSET
    hedges_denied_by_budget: int | UnsetType = UNSET
    hedges_denied_by_throttle: int | UnsetType = UNSET
    cost_is_lower_bound: bool | UnsetType = UNSET


class Expected(_Part):
    """What must come true of each run of a step. Times are milliseconds from the request's arrival."""

    winner: Literal["primary", "backup", "any"] | UnsetType | None = UNSET
    contacted: list[Name] | UnsetType = UNSET
    contacted_counts: dict[str, int] | UnsetType = UNSET
    backup_start_ms: Window | UnsetType = UNSET
    first_token_ms: Window | UnsetType = UNSET
    outcomes: dict[Name, OutcomeWord] | UnsetType = UNSET
    client: ClientExpected | UnsetType = UNSET
    upstream_closed_by_ms: dict[Name, float] | UnsetType = UNSET
    upstream_request: dict[Name, UpstreamRequestExpected] | UnsetType = UNSET
    open_upstream_sockets_max: int | UnsetType = UNSET
    log_must_not_contain: list[str] | UnsetType = UNSET
    record: RecordExpected | UnsetType = UNSET


class Step(_Part):
    """A request, sent `repeat` times, `concurrency` at once; or only a wait."""

    wait_ms: float | UnsetType = UNSET
    request: Request | UnsetType = UNSET
    client: ClientScript | UnsetType = UNSET
    upstreams: dict[Name, UpstreamScript] = {}
    expect: Expected | UnsetType = UNSET
    repeat: int = 1
    concurrency: int = 1

    def __post_init__(self) -> None:
        if (self.wait_ms is UNSET) == (self.request is UNSET):
            raise ValueError("a step has a `request` or only `wait_ms`")
        if (self.request is UNSET) != (self.expect is UNSET):
            raise ValueError("a request needs an `expect`")


class Source(_Part):
    """Where it was reported."""

    kind: Literal["issue", "pull", "doc", "discussion", "commit"]
    url: str
    repo: str | UnsetType = UNSET
    number: int | UnsetType = UNSET
    what: str | UnsetType = UNSET


class Case(_Part):
    """One file."""

    schema: Literal["hedge-case/1"]
    id: str
    topic: str
    protocol: Protocol
    title: str
    sources: list[Source]
    reported: str
    right: str
    policy: Policy
    steps: list[Step]
    sim: bool
    notes: str | UnsetType = UNSET


def given(part: msgspec.Struct) -> Mapping[str, Any]:
    """The keys that a file gave, with their values."""
    return {name: value for name in part.__struct_fields__ if (value := getattr(part, name)) is not UNSET}
