"""The settings, typed: what a hedgerow.yaml may say. Every key is described here and nowhere else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from hedgerow.config.fields import (
    FILE,
    FLAG,
    NAMES,
    OUTPUT,
    PATHS,
    REQUIRED_FILE,
    Leaf,
    duration,
    one_of,
    percentage,
    size,
    some_of,
    text,
    whole,
)
from hedgerow.config.network import (
    ADDRESS,
    API_KEY,
    API_KEYS,
    BASE_URL,
    HEADERS,
    PASSTHROUGH,
    PROXY,
    SECRET_FILE,
    Address,
    ApiKey,
    SecretFile,
)
from hedgerow.events import Headers

_DAY = 86_400.0
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

TOTAL = 600.0
FIRST_TOKEN = 60.0
STALL = 30.0
"""The defaults of `Timeouts`."""

Patience = Annotated[float, duration(0.001, _DAY)]
"""A timeout in seconds; never nought, never endless."""


class Model(BaseModel):
    """Immutable, knows all its keys, and keeps values (which may be secrets) out of its error messages."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_sections(cls, data: Any) -> Any:
        """A section with nothing below it (all of it commented out) means its defaults."""
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or not cls._is_section(key)}

    @classmethod
    def _is_section(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        return field is not None and not any(isinstance(each, Leaf) for each in field.metadata)


class Connections(Model):
    """The pool of connections to one target."""

    max: Annotated[int, whole(1, 100_000)] = 1000
    """Most connections open at once; a request beyond that waits in the queue."""
    queue: Annotated[int, whole(0, 1_000_000)] = 1000
    """Most requests waiting for a connection; one beyond that fails at once and goes to the next target."""
    queue_timeout: Patience = 5.0
    """How long a request may wait for a connection before it fails and goes to the next target."""
    connect_timeout: Patience = 5.0
    """How long DNS, TCP and TLS may take together."""
    idle_timeout: Patience = 55.0
    """How long an unused connection is kept open for the next request. The default is just under the 60s after which \
many load balancers close, so that hedgerow closes first."""


class TargetTls(Model):
    """How the target's certificate is checked."""

    verify: Annotated[bool, FLAG] = True
    """Check the certificate and the host name. Turn it off only on a test bench."""
    ca_file: Annotated[Path | None, FILE] = None
    """PEM file of the authorities to trust instead of the system's, for a private CA."""


class Target(Model):
    """One place an attempt can go."""

    protocol: Annotated[tuple[str, ...], some_of("openai", "anthropic", "gemini", "http", least=1)] = ("openai",)
    """Which APIs the target speaks: `openai` (chat completions, completions, responses, embeddings and all else below \
`/v1`), `anthropic` (messages), `gemini` (generateContent), `http` (a route's own `endpoints`). A request goes to \
those of its route's targets that speak its API; several may be listed."""
    base_url: Annotated[str, BASE_URL]
    """The URL in front of `/chat/completions`, `/messages` or `/models/...:generateContent`, such as \
`https://api.openai.com/v1`."""
    api_key: Annotated[ApiKey, API_KEY] = None
    """The key sent to the target. `passthrough` sends the client's own; left out, none is sent."""
    api_key_file: Annotated[SecretFile | None, SECRET_FILE] = None
    """A file that holds the key (a mounted secret), instead of `api_key`. Read at start."""
    key_header: Annotated[str, one_of("auto", "authorization", "x-api-key", "api-key", "x-goog-api-key")] = "auto"
    """The header the key is sent in. `auto` is what the API asks for: `x-api-key` for Anthropic's, `x-goog-api-key` \
for Gemini's, else `Authorization: Bearer`. Azure wants `api-key`."""
    model: Annotated[str | None, text()] = None
    """The model name sent to the target. Left out, the name the client asked for is sent unchanged."""
    stream_usage: Annotated[bool, FLAG] = True
    """Ask the target to report the tokens of every stream, so that they are on record; clients that did not ask do \
not see the report. Turn it off for a server that refuses `stream_options`."""
    account: Annotated[str | None, text()] = None
    """Targets of one account share a rate limit and a quota: when one is limited, the others are known to be. \
Left out, targets with the same host and key share one."""
    headers: Annotated[dict[str, SecretStr], HEADERS, Field(repr=False)] = {}
    """More headers for every request to this target."""
    connections: Connections = Connections()
    tls: TargetTls = TargetTls()
    proxy: Annotated[str, PROXY, Field(repr=False)] = "env"
    """`env` obeys `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; `off` connects directly; a URL names the proxy."""

    @property
    def passthrough(self) -> bool:
        """Whether the client's own key is sent on."""
        return self.api_key == PASSTHROUGH

    @property
    def secret(self) -> str | None:
        """The key to send, in the clear; None when there is none or it is the client's."""
        if self.api_key_file is not None:
            return self.api_key_file.secret.get_secret_value()
        return self.api_key.get_secret_value() if isinstance(self.api_key, SecretStr) else None

    @property
    def account_name(self) -> str:
        """`account`, or the host with a fingerprint of the key; safe to log."""
        if self.account is not None:
            return self.account
        host = urlsplit(self.base_url).netloc
        if self.secret is None:
            return f"{host}#{PASSTHROUGH}" if self.passthrough else host
        return f"{host}#{hashlib.sha256(self.secret.encode()).hexdigest()[:8]}"

    def extra_headers(self) -> Headers:
        """`headers` as they go on the wire."""
        return [(name.encode(), value.get_secret_value().encode()) for name, value in self.headers.items()]


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


class ServerTls(Model):
    """HTTPS towards clients. Left out, the server speaks plain HTTP."""

    cert: Annotated[Path, REQUIRED_FILE]
    """PEM file of the certificate, followed by its chain."""
    key: Annotated[Path, REQUIRED_FILE]
    """PEM file of the certificate's private key."""


class Limits(Model):
    """How much memory one request may use."""

    header_bytes: Annotated[int, size(_KIB, 16 * _MIB)] = 64 * _KIB
    """Largest head of a request; beyond it the answer is 431."""
    body_bytes: Annotated[int, size(_KIB, 4 * _GIB)] = 64 * _MIB
    """Largest body of a request; beyond it the answer is 413."""
    held_bytes: Annotated[int, size(_KIB, _GIB)] = 4 * _MIB
    """Most bytes of one attempt's stream held back until its first token; beyond it the attempt fails."""
    answer_bytes: Annotated[int, size(_KIB, 4 * _GIB)] = 64 * _MIB
    """Largest non-streaming answer of an attempt; beyond it the attempt fails."""


class ServerTimeouts(Model):
    """How patient the server is with its clients."""

    header: Patience = 10.0
    """How long a client may take to send the head of a request; beyond it the answer is 408."""
    body: Patience = 60.0
    """The longest silence while the body of a request arrives; beyond it the answer is 408. Once this time has passed \
the body must also have come at 1 KiB a second on average."""
    idle: Patience = 75.0
    """How long an unused client connection is kept open."""
    drain: Annotated[float, duration(0.0, _DAY)] = 30.0
    """How long requests under way may still take after SIGTERM before they are cut. New connections are refused at \
once, idle ones closed after 250ms."""


class ServerSettings(Model):
    """The gateway's own side."""

    listen: Annotated[Address, ADDRESS] = Address("127.0.0.1", 8080)
    """Where to listen. IPv6 addresses go in brackets and quotes: `"[::1]:8080"`. `:8080` is every interface."""
    tls: ServerTls | None = None
    api_keys: Annotated[tuple[SecretStr, ...], API_KEYS] = ()
    """Keys of which clients must present one as `Authorization: Bearer` or `x-api-key`. Empty: whoever can connect \
may ask."""
    limits: Limits = Limits()
    timeouts: ServerTimeouts = ServerTimeouts()
    reuse_port: Annotated[bool, FLAG] = False
    """Listen with `SO_REUSEPORT`, so that several gateway processes can share the port."""
    default_route: Annotated[str | None, text()] = None
    """The route of requests that name no model or, on paths that are only handed through, one that is no route. \
Left out: the first one."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], one_of("debug", "info", "warning", "error")] = (
        "info"
    )
    """How much is logged. Prompts, answers and keys never are."""
    event_log: Annotated[Path | None, OUTPUT] = None
    """A file to which one line of JSON is added for everything that happens to requests and attempts: when each was \
sent, its first token, tokens, outcome, why no hedge started. No prompts, answers or keys."""
