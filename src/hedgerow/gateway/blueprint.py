"""What a serving process is told: the settings, checked and worked out, as plain records that can be sent to it.

Reading a configuration takes pydantic, a YAML parser and a command line; serving takes none of them, and their 14 MB
would stay for as long as the process runs. So nothing here or in what it imports knows `hedgerow.config`; the way from
there to here is `gateway.drafting`. Times are seconds, sizes bytes.
"""

from __future__ import annotations

from math import inf

import msgspec

from hedgerow.events import Headers
from hedgerow.http.client_settings import PoolSettings
from hedgerow.http.limits import Limits
from hedgerow.ledger.settings import LedgerSettings
from hedgerow.policy.account import UNLIMITED
from hedgerow.policy.account import Limits as Allowance
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.cancelling import Probed
from hedgerow.policy.plan import OnFailure
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy
from hedgerow.policy.terms import Listed, OnCancel
from hedgerow.unshown import Unshown
from hedgerow.wire.base import Family
from hedgerow.wire.continuing import Form


class _Part(Unshown, msgspec.Struct, frozen=True, kw_only=True):
    """A record that may hold keys."""


class Key(_Part, frozen=True, kw_only=True):
    """A key of a target, and the account whose it is."""

    account: str
    secret: str


class TargetBlueprint(_Part, frozen=True, kw_only=True):
    """One target. `secret` is the key to send, None when there is none or (`passthrough`) the client's is sent on.

    Where `versioned` is False the URL is as SDKs take it: those of Anthropic and Google add the version of the API.
    One that `withholds` gets no header field and no part of a query that a client may have a key of another place in.
    `more_keys`: those beside `secret`. `only_for`: "any", "primary" or "hedge". From `price` on six fields say what it
    charges, see `Terms`; `beside_book`: what is said of that beside the price book, None where nothing is from there;
    `price_from` and `on_cancel_from`: who says so.
    """

    base_url: str
    account: str
    secret: str | None
    passthrough: bool
    model: str | None
    headers: Headers
    pool: PoolSettings
    families: tuple[Family, ...] = (Family.OPENAI,)
    versioned: bool = True
    withholds: bool = False
    key_header: str = "auto"
    stream_usage: bool = True
    override: tuple[tuple[str, bytes | None], ...] = ()
    price: Price | None = None
    listed: tuple[Listed, ...] = ()
    beside_book: str | None = None
    on_cancel: OnCancel = OnCancel.GENERATED
    on_cancel_whole: OnCancel = OnCancel.GENERATED
    bills_refusals: bool = False
    price_from: str = "none"
    on_cancel_from: str = "default"
    weight: int = 1
    first_token: float | None = None
    idempotency_header: str | None = None
    continues: Form | None = None
    more_keys: tuple[Key, ...] = ()
    only_for: str = "any"
    region: str | None = None
    lacks: frozenset[str] = frozenset()
    max_context: int | None = None
    breaker: BreakerSettings = BreakerSettings()
    on_cancel_failure: OnFailure = OnFailure.WARN
    probed: Probed | None = None


class Reading(msgspec.Struct, frozen=True, gc=False):
    """How a route reads requests and answers.

    `reasoning_counts`: a model's reasoning is a first token. `as_stream`: whole answers are asked for as streams.
    `on_stall`: what becomes of an answer that breaks off after commit: "error", "restart", "continue".
    `allow`: what may be hedged of that which `Facts.needs` leave for it. `traits`: header fields that conditions name,
    as (name, value, condition). `total`: seconds that a request may take. `session`: what tells a session, the first
    that is there: header fields, or the user that the body names (`session.USER`). `needs`: not every
    target can do everything.
    """

    reasoning_counts: bool = True
    as_stream: bool = False
    allow: frozenset[str] = frozenset()
    on_stall: str = "error"
    traits: tuple[tuple[bytes, bytes, str], ...] = ()
    total: float = inf
    session: tuple[str, ...] = ()
    needs: bool = False


class Replay(msgspec.Struct, frozen=True, gc=False):
    """What becomes of a request that comes again with the idempotency key of an earlier one.

    It is given the earlier one's answer, for `window` seconds after that was whole. A request whose clients have all
    gone runs on for `linger` seconds. With `streams` that holds for streamed answers as well.
    """

    window: float
    linger: float = 10.0
    streams: bool = False


class RouteBlueprint(_Part, frozen=True, kw_only=True):
    """One route: the names of its targets in order, and how it hedges."""

    targets: tuple[str, ...]
    policy: Policy
    reading: Reading = Reading()
    endpoints: tuple[str, ...] = ()
    replay: Replay | None = None
    keep: KeepSettings | None = None


class Certificate(_Part, frozen=True, kw_only=True):
    """PEM files for HTTPS towards clients."""

    cert: str
    key: str


class TracesBlueprint(_Part, frozen=True, kw_only=True):
    """Where spans go. What is None is as OpenTelemetry's environment variables say; `sample` is a share of 1."""

    endpoint: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    service_name: str | None = None
    sample: float | None = None


class ServerBlueprint(_Part, frozen=True, kw_only=True):
    """The gateway's own side. `host` None is every interface; without `api_keys` whoever can connect may ask.

    Without `admin_token` there is no admin API. `metrics_tokens`: who may scrape, None is whoever can connect.
    `metrics_shared`: the folder where several processes' numbers come together. `reload`: "watch", "signal" or "off".
    `prices_every`: how often prices are fetched anew.
    `log_format`: "console" or "json".
    """

    host: str | None
    port: int
    reuse_port: bool
    certificate: Certificate | None
    api_keys: tuple[str, ...]
    http: Limits
    held_bytes: int
    answer_bytes: int
    replay_bytes: int
    drain: float
    log_level: str
    event_log: str | None = None
    admin_token: str | None = None
    metrics: bool = False
    metrics_tokens: tuple[str, ...] | None = None
    metrics_shared: str | None = None
    reload: str = "watch"
    redis: str | None = None
    ledger: LedgerSettings | None = None
    prices_every: float | None = None
    traces: TracesBlueprint | None = None
    log_format: str = "console"
    access_log: bool = False


class Blueprint(_Part, frozen=True, kw_only=True):
    """Everything. Each route's targets are among `targets`, `default_route` is among `routes`."""

    targets: dict[str, TargetBlueprint]
    routes: dict[str, RouteBlueprint]
    default_route: str
    budget: Allowance = UNLIMITED
    tenant_budget: Allowance = UNLIMITED
    server: ServerBlueprint


Stamp = tuple[int, int, int]
"""Of a file: when it was changed (nanoseconds), its size, its inode."""


class Source(_Part, frozen=True, kw_only=True):
    """The file that the blueprint comes from, with its stamp from before it was read.

    `reader` is the command that reads it again: it writes the new blueprint to stdout (msgpack) and warnings to stderr,
    or it writes all that is wrong to stderr and exits with 2. `beside` is another file that it depends on, with its
    stamp; it may not be there yet.
    """

    file: str
    stamp: Stamp | None
    reader: tuple[str, ...]
    beside: tuple[str, Stamp | None] | None = None
