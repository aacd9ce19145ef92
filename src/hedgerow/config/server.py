"""The gateway's own side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import SecretStr, model_validator

from hedgerow.config.base import DAY, GIB, KIB, MIB, Model, Patience
from hedgerow.config.fields import FLAG, OUTPUT, REQUIRED_FILE, duration, one_of, problem, size, text
from hedgerow.config.hedge import Cap
from hedgerow.config.ledger import Ledger
from hedgerow.config.metrics import Metrics
from hedgerow.config.network import ADDRESS, API_KEYS, TOKEN, TOKEN_FILE, Address, SecretFile
from hedgerow.config.price import Prices
from hedgerow.config.redis import REDIS
from hedgerow.config.traces import Traces


class ServerTls(Model):
    """HTTPS towards clients. Left out, the server speaks plain HTTP."""

    cert: Annotated[Path, REQUIRED_FILE]
    """PEM file of the certificate, followed by its chain."""
    key: Annotated[Path, REQUIRED_FILE]
    """PEM file of the certificate's private key."""


class Limits(Model):
    """How much memory requests may use."""

    header_bytes: Annotated[int, size(KIB, 16 * MIB)] = 64 * KIB
    """Largest head of a request; beyond it the answer is 431."""
    body_bytes: Annotated[int, size(KIB, 4 * GIB)] = 64 * MIB
    """Largest body of a request; beyond it the answer is 413."""
    held_bytes: Annotated[int, size(KIB, GIB)] = 4 * MIB
    """Most bytes of one attempt's stream held back until its first token; beyond it the attempt fails."""
    answer_bytes: Annotated[int, size(KIB, 4 * GIB)] = 64 * MIB
    """Largest non-streaming answer of an attempt; beyond it the attempt fails."""
    replay_bytes: Annotated[int, size(64 * KIB, 64 * GIB)] = 64 * MIB
    """Most bytes of answers that are kept to be given again (`idempotency`), of all routes together; one answer may \
take an eighth. When there is no room, those that would be forgotten first go first."""


class ServerTimeouts(Model):
    """How patient the server is with its clients."""

    header: Patience = 10.0
    """How long a client may take to send the head of a request; beyond it the answer is 408."""
    body: Patience = 60.0
    """The longest silence while the body of a request arrives; beyond it the answer is 408. Once this time has passed \
the body must also have come at 1 KiB a second on average."""
    idle: Patience = 75.0
    """How long an unused client connection is kept open."""
    drain: Annotated[float, duration(0.0, DAY)] = 30.0
    """How long requests under way may still take after SIGTERM before they are cut. New connections are refused at \
once, idle ones closed after 250ms."""


class Admin(Model):
    """Who may look at and change the running gateway over `/admin/api`. Without a token nobody."""

    token: Annotated[SecretStr | None, TOKEN] = None
    """What must come as `Authorization: Bearer`: at least 16 characters, and none of `api_keys`."""
    token_file: Annotated[SecretFile | None, TOKEN_FILE] = None
    """A file that holds the token (a mounted secret), instead of `token`."""

    @property
    def secret(self) -> str | None:
        """The token in the clear; None when there is none."""
        token = self.token if self.token_file is None else self.token_file.secret
        return None if token is None else token.get_secret_value()

    @model_validator(mode="after")
    def _one_token(self) -> Admin:
        if self.token is not None and self.token_file is not None:
            raise problem("is given twice: drop token or token_file", at=("token_file",))
        return self


class ServerSettings(Model):
    """The gateway's own side."""

    listen: Annotated[Address, ADDRESS] = Address("127.0.0.1", 8080)
    """Where to listen. IPv6 addresses go in brackets and quotes: `"[::1]:8080"`. `:8080` is every interface."""
    tls: ServerTls | None = None
    api_keys: Annotated[tuple[SecretStr, ...], API_KEYS] = ()
    """Keys of which clients must present one as `Authorization: Bearer` or `x-api-key`. Empty: whoever can connect \
may ask."""
    admin: Admin = Admin()
    metrics: Metrics = Metrics()
    budget: Cap = Cap()
    """What all routes together may add in further attempts; each route's own budget holds as well."""
    tenant_budget: Cap = Cap()
    """What the further attempts of one client key may come to, over all routes."""
    prices: Prices = Prices()
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
    log_format: Annotated[Literal["console", "json"], one_of("console", "json")] = "console"
    """How the log is written on stderr: `console` for people, `json` for machines: one object a line, with what it is \
about (`request_id`, `route`, `target`...) in fields of their own."""
    access_log: Annotated[bool, FLAG] = False
    """Log a line for every request that is over, whatever `log_level` says: path, status, route, target, times, \
tokens."""
    event_log: Annotated[Path | None, OUTPUT] = None
    """A file to which one line of JSON is added for everything that happens to requests and attempts: when each was \
sent, its first token, tokens, outcome, why no hedge started. No prompts, answers or keys."""
    ledger: Ledger = Ledger()
    probes: Annotated[Path | None, OUTPUT] = None
    """Where [`hedgerow probe`](probe.md) writes what it finds, and `serve` reads it. Left out, beside this file and \
named like it, such as `hedgerow.probes.json`."""
    redis: Annotated[SecretStr | None, REDIS] = None
    """A Redis in which several gateways (or processes, see `reuse_port`) share the answers of losers that routes keep \
(`losers: keep`), so that each can show what another has kept. Left out, each has its own. Needs `hedgerow[redis]`."""
    traces: Traces | None = None
    reload: Annotated[Literal["watch", "signal", "off"], one_of("watch", "signal", "off")] = "watch"
    """When this file is read again: `watch`, within seconds of its change, on SIGHUP and over the admin API; \
`signal`, on SIGHUP and over the admin API only; `off`, never. A faulty file changes nothing and is told in the log."""

    @model_validator(mode="after")
    def _token_of_its_own(self) -> ServerSettings:
        clients = [key.get_secret_value() for key in self.api_keys]
        for section, part in (("admin", self.admin), ("metrics", self.metrics)):
            key = (section, "token" if part.token is not None else "token_file")
            if part.secret in clients:
                raise problem("is one of server.api_keys, so every client has it", at=key)
        if self.metrics.secret is not None and self.metrics.secret == self.admin.secret:
            raise problem("is the admin token: who scrapes could change the gateway", at=key)
        return self
