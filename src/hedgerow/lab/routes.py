"""The lab as an HTTP service: which path goes where.

POST (see `protocols`)        a simulated answer
GET  /v1/models               the models, in the shape of the family whose headers the request has
GET  /v1beta/models           the models in Google's shape
*    /v1/..., /v1beta/...     an echo of the request, to test what passes through a gateway unchanged
GET  /lab/stats               the counters
GET  /lab/log?key=K&after=N   the latest requests; of one key; only those with a `seq` above N
POST /lab/reset               new books, optionally {"seed": 7}
POST /lab/behaviour           {"script": {...} or null, "fault": "429:0.1" or null}; what is left out stays
"""

from __future__ import annotations

from hashlib import sha256
from typing import TypeVar
from urllib.parse import parse_qs

import msgspec

from hedgerow.errors import ConfigError, RequestError
from hedgerow.http.exchange import Exchange
from hedgerow.lab.accounts import Record, Stats
from hedgerow.lab.answers import Clock
from hedgerow.lab.chunks import JSON
from hedgerow.lab.options import LabOptions
from hedgerow.lab.protocols import endpoint_at
from hedgerow.lab.protocols.models import anthropic_models, gemini_models, openai_models
from hedgerow.lab.protocols.openai_base import OPENAI_ERRORS
from hedgerow.lab.provider import Provider
from hedgerow.lab.script import FaultMix, Script

_T = TypeVar("_T")
_SECRET = frozenset({b"authorization", b"proxy-authorization", b"x-api-key", b"x-goog-api-key", b"api-key", b"cookie"})


class StatsAnswer(Stats, kw_only=True):
    """GET /lab/stats: the counters and whose they are; `uptime` in real seconds since start or reset."""

    name: str
    seed: int
    uptime: float
    clock: float
    """The lab's clock now, to compare with the times in the log."""


class LogAnswer(msgspec.Struct):
    """GET /lab/log: oldest first. Open requests are among them, as they are now."""

    records: list[Record]


class _Reset(msgspec.Struct, forbid_unknown_fields=True):
    seed: int | None = None


class _Behaviour(msgspec.Struct, forbid_unknown_fields=True):
    script: Script | msgspec.UnsetType | None = msgspec.UNSET
    fault: str | msgspec.UnsetType | None = msgspec.UNSET


class _Echo(msgspec.Struct):
    method: str
    target: str
    headers: list[tuple[str, str]]
    body_bytes: int
    body_sha256: str


class LabApp:
    """The request handler: call it with an exchange."""

    __slots__ = ("_clock", "provider")

    def __init__(self, options: LabOptions, clock: Clock) -> None:
        """Raises ConfigError when the options cannot work together."""
        self._clock = clock
        self.provider = Provider(options, clock)

    def __call__(self, exchange: Exchange) -> None:
        path, _, query = exchange.target.partition(b"?")
        endpoint = endpoint_at(path) if exchange.method == b"POST" else None
        try:
            if endpoint is not None:
                self.provider.answer(endpoint, exchange)
            else:
                self._route(exchange, path, query)
        except RequestError as error:
            errors = OPENAI_ERRORS if endpoint is None else endpoint.errors
            body = errors.body(error.status, code=error.code, message=error.message, param=error.param)
            exchange.respond(error.status, JSON, body)

    def _route(self, exchange: Exchange, path: bytes, query: bytes) -> None:
        match exchange.method, path:
            case b"GET", b"/lab/stats":
                self._reply(exchange, self._stats())
            case b"GET", b"/lab/log":
                self._reply(exchange, self._log(query))
            case b"POST", b"/lab/reset":
                self.provider.reset(_decode(exchange.body or b"{}", _Reset).seed)
                self._reply(exchange, self._stats())
            case b"POST", b"/lab/behaviour":
                self._behave(_decode(exchange.body, _Behaviour))
                self._reply(exchange, self._stats())
            case b"GET", b"/v1/models" | b"/v1beta/models":
                self.provider.accounts.stats.other_requests += 1
                exchange.respond(200, JSON, self._models(exchange, path))
            case _ if path.startswith((b"/v1/", b"/v1beta/")):
                self.provider.accounts.stats.other_requests += 1
                self._reply(exchange, _echo(exchange))
            case _:
                raise RequestError(404, f"No such path in the lab: {path.decode('latin-1')}", code="not_found")

    def _reply(self, exchange: Exchange, answer: msgspec.Struct) -> None:
        exchange.respond(200, JSON, msgspec.json.encode(answer))

    def _models(self, exchange: Exchange, path: bytes) -> bytes:
        options = self.provider.options
        names = {name for name, _ in exchange.headers}
        if path == b"/v1beta/models" or b"x-goog-api-key" in names:
            return gemini_models(options.models)
        if b"anthropic-version" in names:
            return anthropic_models(options.models)
        return openai_models(options.models, options.name)

    def _stats(self) -> StatsAnswer:
        provider = self.provider
        return StatsAnswer(
            **msgspec.structs.asdict(provider.accounts.stats),
            name=provider.options.name,
            seed=provider.seed,
            uptime=provider.uptime,
            clock=self._clock.time(),
        )

    def _log(self, query: bytes) -> LogAnswer:
        wanted = parse_qs(query.decode("latin-1"))
        key = wanted.get("key", [None])[0]
        after = wanted.get("after", ["-1"])[0]
        try:
            least = int(after)
        except ValueError:
            raise RequestError(400, f"after: expected a number, got {after!r}", param="after") from None
        log = self.provider.accounts.log
        return LogAnswer([record for record in log if record.seq > least and key in (None, record.key)])

    def _behave(self, wanted: _Behaviour) -> None:
        """Change nothing unless all of it can be understood."""
        if not isinstance(wanted.fault, msgspec.UnsetType):
            try:
                self.provider.faults = FaultMix(wanted.fault or "")
            except ConfigError as error:
                raise RequestError(400, str(error), param="fault") from error
        if not isinstance(wanted.script, msgspec.UnsetType):
            self.provider.script = wanted.script


def _decode(body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(400, f"Invalid request body: {error}") from error


def _echo(exchange: Exchange) -> _Echo:
    return _Echo(
        method=exchange.method.decode("latin-1"),
        target=exchange.target.decode("latin-1"),
        headers=[(name.decode("latin-1"), _shown(name, value)) for name, value in exchange.headers],
        body_bytes=len(exchange.body),
        body_sha256=sha256(exchange.body).hexdigest(),
    )


def _shown(name: bytes, value: bytes) -> str:
    """A header's value; of a secret only a fingerprint, enough to see that it is the same."""
    return f"sha256:{sha256(value).hexdigest()[:12]}" if name in _SECRET else value.decode("latin-1")
