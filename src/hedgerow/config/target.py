"""Targets: where attempts can go."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from hedgerow.config.amounts import share
from hedgerow.config.base import DAY, Model, Patience
from hedgerow.config.fields import FILE, FLAG, duration, one_of, percentage, some_of, text, whole
from hedgerow.config.network import (
    API_KEY,
    API_KEYS,
    BASE_URL,
    FIELD_NAME,
    HEADERS,
    PASSTHROUGH,
    PROXY,
    SECRET_FILE,
    ApiKey,
    SecretFile,
)
from hedgerow.config.override import OVERRIDE
from hedgerow.config.price import ON_CANCEL, PRICE_OR_WORD, Price
from hedgerow.events import Headers
from hedgerow.policy.plan import OnFailure
from hedgerow.policy.terms import OnCancel
from hedgerow.wire.continuing import Form


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


class Breaker(Model):
    """When the target is left out because too many of its attempts fail or are slow."""

    failure_ratio: Annotated[float | None, percentage(0.01, 1.0)] = 0.5
    """The share of failures at which it is left out, once there are `minimum` results in the `window`."""
    failures: Annotated[int | None, whole(1, 10_000, off=True)] = None
    """So many failures in a row leave it out too."""
    slow_after: Annotated[float | None, duration(0.001, DAY, off=True)] = None
    """A first token later than this counts as slow."""
    slow_ratio: Annotated[float, share(0.01, 1.0)] = 1.0
    """The share of slow attempts at which it is left out."""
    minimum: Annotated[int, whole(1, 100)] = 20
    """With fewer results no ratio says anything."""
    window: Annotated[float, duration(1.0, DAY)] = 60.0
    """Results longer ago than this no longer count."""
    open_for: Annotated[float, duration(0.05, DAY)] = 30.0
    """How long it is left out before single attempts try it again."""
    successes: Annotated[int, whole(1, 100)] = 3
    """So many good ones of those bring it back."""


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
    api_keys: Annotated[tuple[SecretStr, ...], API_KEYS, Field(repr=False)] = ()
    """Several keys, instead of `api_key`, that requests are sent with in turn. What the provider says of its rate \
limit holds for one of them: the others go on. See [the order of targets](order.md#several-keys)."""
    key_header: Annotated[str, one_of("auto", "authorization", "x-api-key", "api-key", "x-goog-api-key")] = "auto"
    """The header the key is sent in. `auto` is what the API asks for: `x-api-key` for Anthropic's, `x-goog-api-key` \
for Gemini's, else `Authorization: Bearer`, which Azure's `/openai/v1` takes too; its older paths want `api-key`."""
    model: Annotated[str | None, text()] = None
    """The model name sent to the target. Left out, the name the client asked for is sent unchanged."""
    stream_usage: Annotated[bool, FLAG] = True
    """Ask the target to report the tokens of every stream, so that they are on record; clients that did not ask do \
not see the report. Turn it off for a server that refuses `stream_options`."""
    override: Annotated[dict[str, Any], OVERRIDE] = Field(default_factory=dict)
    """Fields that requests to this target are sent with, whatever the client says, so that a light model can back a \
heavy one: `{model: gpt-5-nano, max_completion_tokens: 300, reasoning_effort: low}`. `null` removes a field. A dot \
leads into an object: `reasoning.effort`, `generationConfig.maxOutputTokens`. Not for embeddings."""
    account: Annotated[str | None, text()] = None
    """Targets of one account share a rate limit and a quota: when one is limited, the others are known to be. \
Left out, targets with the same host and key share one."""
    headers: Annotated[dict[str, SecretStr], HEADERS] = Field(default={}, repr=False)
    """More headers for every request to this target."""
    idempotency_header: Annotated[str | None, FIELD_NAME] = None
    """The header in which the target takes an idempotency key, such as `Idempotency-Key`: every attempt is then sent \
with a key of its own, and one that a broken connection left in doubt may be sent again. Left out, none is sent; \
neither OpenAI's nor Anthropic's API takes one."""
    continues: Annotated[str, one_of("off", *Form)] = "off"
    """How the target is asked to go on with an answer that another began, if it can: `continue_final_message` (vLLM, \
SGLang, llama.cpp), `prefix` (DeepSeek's beta API), `prefix_echo` (Mistral), `last_message` (Claude up to 4.5, \
OpenRouter)."""
    price: Annotated[Price | None, PRICE_OR_WORD] = None
    billed_on_cancel: Annotated[Mapping[str, OnCancel] | None, ON_CANCEL] = None
    """What the target bills for an attempt that is broken off: `full`, all of the answer, which it generates to the \
end; `generated`, the prompt and what was generated until then; `input`, the prompt; `none`, nothing. One for each of \
streams and whole answers if they differ: `{stream: generated, whole: full}`. Left out: what is known of the provider, \
see [costs](costs.md#what-a-cancel-costs)."""
    first_token: Annotated[float | None, duration(0.001, DAY, nullable=True)] = None
    """How long an attempt here may run without a first token, in place of the `timeouts.first_token` of its route: \
longer for a heavy model, shorter for a light one."""
    supports: Annotated[tuple[str, ...], some_of("tools", "vision", "json_schema", least=0)] = (
        "tools",
        "vision",
        "json_schema",
    )
    """What its model can do of that which not every model can: call tools, see images, keep to a JSON schema. A \
request that needs what is not listed is not sent here; one that no target of its route can answer is refused (400)."""
    max_context: Annotated[int | None, whole(1, 100_000_000, nullable=True)] = None
    """The tokens of prompt and answer that its model has room for. Longer requests, as far as their size tells, go to \
other targets, if any has more room."""
    only_for: Annotated[Literal["any", "primary", "hedge"], one_of("any", "primary", "hedge")] = "any"
    """`primary`: it gets no hedges. `hedge`: it is not asked first, unless all others of its route are left out or \
cannot answer the request; of every route one target must be for more than hedges. Either is asked after failures."""
    region: Annotated[str | None, text()] = None
    """Where it is, in a word of your own. Hedges, and attempts after a failure, go to targets of another region than \
the first one's before those of the same."""
    weight: Annotated[int, whole(1, 1_000)] = 1
    """How often the target is asked first, beside the others of a route whose `order` goes by weights."""
    breaker: Breaker = Breaker()
    on_cancel_failure: Annotated[OnFailure, one_of(*OnFailure)] = OnFailure.WARN
    """What is done once [`hedgerow probe`](probe.md) has found that the target goes on with what is cancelled there, \
so that a loser is paid for in full. The log tells it in any case (`warn`). `raise_delay` doubles the delay of hedges \
to it, and of those that start because it is late. `disable` lets no hedge go to it."""
    connections: Connections = Connections()
    tls: TargetTls = TargetTls()
    proxy: Annotated[str, PROXY, Field(repr=False)] = "env"
    """`env` obeys `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; `off` connects directly; a URL names the proxy."""

    @property
    def passthrough(self) -> bool:
        """Whether the client's own key is sent on."""
        return self.api_key == PASSTHROUGH

    @property
    def counts_money(self) -> bool:
        """Whether what it charges is said."""
        return self.price is not None and self.price.source != "off"

    @property
    def sent_model(self) -> str | None:
        """The model name sent to the target; None when it is the client's."""
        return self.override.get("model", self.model)

    @property
    def secret(self) -> str | None:
        """The key to send, in the clear; None when there is none or it is the client's."""
        if self.api_keys:
            return self.api_keys[0].get_secret_value()
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
        return self._account_of(self.secret)

    @property
    def more_keys(self) -> list[tuple[str, str]]:
        """The keys beside `secret`, each with the name of its account."""
        secrets = [key.get_secret_value() for key in self.api_keys[1:]]
        return [(self._account_of(secret), secret) for secret in secrets]

    def _account_of(self, secret: str) -> str:
        return f"{urlsplit(self.base_url).netloc}#{hashlib.sha256(secret.encode()).hexdigest()[:8]}"

    def extra_headers(self) -> Headers:
        """`headers` as they go on the wire."""
        return [(name.encode(), value.get_secret_value().encode()) for name, value in self.headers.items()]
