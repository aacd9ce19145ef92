"""A target at run time: where it is, how to talk to it, and the pool of connections to it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from hedgerow.gateway.headers import KEYS, Incoming, without, without_keys, without_keys_in_query
from hedgerow.http.client import Pool
from hedgerow.http.head import field_lines, fields_in
from hedgerow.http.upstream import Call, Sink
from hedgerow.policy.plan import Place
from hedgerow.wire.base import KEY_HEADERS, Family
from hedgerow.wire.continuing import Form
from hedgerow.wire.override import Tree

_VERSION = re.compile(rb"/v1(?:alpha|beta)?\d*(?=/)")
"""What the path of a base URL stands for."""
_SAFE = (b"GET", b"HEAD", b"OPTIONS")


class KeyStyle(msgspec.Struct, frozen=True):
    """How a target wants a key: `name` is the header; `bearer` puts the scheme `Bearer` in front."""

    name: bytes
    bearer: bool

    def line(self, authorization: bytes) -> bytes:
        """The header line of a credential given as the value of an `authorization` header."""
        value = authorization
        if not self.bearer and value[:7].lower() == b"bearer ":
            value = value[7:].strip()
        return b"%b: %b\r\n" % (self.name, value)


def key_style(header: str, family: Family) -> KeyStyle:
    """What the setting `key_header` means for requests of this family."""
    if header == "auto":
        header = KEY_HEADERS.get(family, "authorization")
    return KeyStyle(header.encode(), header == "authorization")


_ADDED = {Family.ANTHROPIC: "/v1", Family.GEMINI: "/v1beta"}
"""What the SDKs add to their base URL."""


def base_path(base_url: str, family: Family, *, versioned: bool) -> bytes:
    """The path that stands for the client's `/v1`. With `versioned` False the URL is as the SDK of this family takes
    it.
    """
    path = urlsplit(base_url).path.rstrip("/")
    if not versioned and family in _ADDED and _VERSION.search(f"{path}/".encode()) is None:
        path += _ADDED[family]
    return path.encode("ascii")


class Target:
    """One configured target, as the requests of one family see it.

    `base_path` is the path of its base URL (what stands for the client's `/v1`), `authorization` its key as the value
    of an `authorization` header; None together with `passthrough` sends the client's own. `headers` are extra fields,
    CRLF-ended; the client's of the same names are not sent on.
    """

    __slots__ = (
        "_as_sent",
        "_base_path",
        "_common",
        "_extra",
        "_foreign",
        "_heads",
        "_key",
        "_passthrough",
        "_pool",
        "_style",
        "_withholds",
        "continues",
        "key_field",
        "mark",
        "model",
        "name",
        "override",
        "place",
        "stream_usage",
    )

    def __init__(
        self,
        place: Place,
        pool: Pool,
        *,
        host: bytes,
        base_path: bytes,
        model: str | None,
        authorization: bytes | None,
        passthrough: bool,
        headers: bytes,
        style: KeyStyle,
        as_sent: bool,
        stream_usage: bool,
        override: Tree | None = None,
        key_field: bytes = b"",
        continues: Form | None = None,
        withholds: bool = False,
    ) -> None:
        """With `as_sent` a client's own key is sent on in the field it came in, and not as `style` says; with
        `withholds` no field and no part of a query that may hold another is.
        """
        self._withholds = withholds
        self.stream_usage = stream_usage
        """Whether streams are asked to report their tokens."""
        self.override = override
        """Fields that requests are sent here with, whatever the client says; None where there are none."""
        self.continues = continues
        """How it is asked to go on with an answer that another began; None where it cannot."""
        self.key_field = key_field
        """The header in which it takes a key for each attempt; b"" where it takes none."""
        self._style = style
        self._as_sent = as_sent
        self._foreign = KEYS - {style.name}
        """What a client's key for another API comes in: it is not sent here."""
        self.place = place
        self.name = place.candidate.target
        self.mark = field_lines([(b"x-hedgerow-target", self.name.encode())])
        self.model = model
        self._pool = pool
        self._base_path = base_path
        self._key = b"" if authorization is None else style.line(authorization)
        self._passthrough = passthrough
        # We ask for identity: the first token is looked for in plain bytes, and chunks are forwarded as they come.
        self._common = b" HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\n%b" % (host, headers)
        self._extra = frozenset(name for name, _ in fields_in(headers))
        self._heads: dict[bytes, bytes] = {}

    def send(
        self,
        sink: Sink,
        *,
        method: bytes,
        target: bytes,
        incoming: Incoming,
        body: bytes,
        resend: bool,
    ) -> Call:
        """Start a request. `target` is the client's path and query, `/v1/...`; `incoming` its header fields.

        `resend` allows a second try on a fresh connection when a kept-alive one turns out to be closed; methods that
        change nothing may always have one.
        """
        start = self._heads.get(target) or self._start_line(target)
        forward = incoming.forward
        if self._passthrough and incoming.authorization is not None:
            own = without(incoming.credential, self._foreign) if self._as_sent else b""
            start += own or self._style.line(incoming.authorization)
        if self._extra:
            forward = without(forward, self._extra)
        if self._withholds:
            forward = without_keys(forward)
        if body or method in (b"POST", b"PUT", b"PATCH"):
            head = b"%b %b%bcontent-length: %d\r\n\r\n" % (method, start, forward, len(body))
        else:
            head = b"%b %b%b\r\n" % (method, start, forward)
        return self._pool.send(sink, head, body, method=method, resend=resend or method in _SAFE)

    def _start_line(self, target: bytes) -> bytes:
        """Everything of the head that depends on the request's target alone; kept for those without a query."""
        asked = target
        if self._withholds and b"?" in target:
            target = without_keys_in_query(target)
        version = _VERSION.match(target)
        start = self._base_path + target[0 if version is None else version.end() :] + self._common + self._key
        if b"?" not in asked and len(self._heads) < 64:
            self._heads[asked] = start
        return start
