"""Which header fields go from the client to the upstream, and back.

Hop-by-hop fields (RFC 9110 section 7.6.1), the client's credentials and our own `x-hedgerow-*` stop here; everything
else passes as it came.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hedgerow.events import Headers

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_UPSTREAM = HOP_BY_HOP | {
    b"accept-encoding",
    b"authorization",
    b"content-length",
    b"expect",
    b"host",
    b"x-api-key",
}
_NOT_DOWNSTREAM = HOP_BY_HOP | {b"content-length", b"alt-svc"}
_PREFIX = b"x-hedgerow-"


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """A client's header fields, read once.

    `forward` is the block of fields to send upstream, each ended by CRLF. `authorization` is the client's own
    credential as an `authorization` value, None if it sent none.
    """

    forward: bytes
    authorization: bytes | None
    opted_out: bool


def read(headers: Headers) -> Incoming:
    """Sort a request's header fields into what is forwarded and what is ours."""
    forward: list[bytes] = []
    authorization: bytes | None = None
    opted_out = False
    dropped = _listed_in_connection(headers)
    for name, value in headers:
        if name in _NOT_UPSTREAM:
            if name == b"authorization":
                authorization = value
            elif name == b"x-api-key" and authorization is None:
                authorization = b"Bearer " + value
        elif name.startswith(_PREFIX):
            opted_out = opted_out or (name == b"x-hedgerow-hedge" and value.lower() == b"off")
        elif name not in dropped:
            forward.append(b"%b: %b\r\n" % (name, value))
    return Incoming(b"".join(forward), authorization, opted_out)


def to_client(headers: Headers, *, keep_length: bool = False) -> Headers:
    """An upstream's header fields without those that belong to its connection with us."""
    dropped = _listed_in_connection(headers)
    return [
        field
        for field in headers
        if (field[0] not in _NOT_DOWNSTREAM or (keep_length and field[0] == b"content-length"))
        and field[0] not in dropped
        and not field[0].startswith(_PREFIX)
    ]


def value_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a field, None when it is absent."""
    for field, value in headers:
        if field == name:
            return value
    return None


_NOBODY: frozenset[bytes] = frozenset()


def _listed_in_connection(headers: Headers) -> frozenset[bytes]:
    """Fields that `Connection` declares hop-by-hop; almost always none."""
    listed = value_of(headers, b"connection")
    if listed is None or listed.lower() in (b"keep-alive", b"close"):
        return _NOBODY
    return frozenset(name.strip().lower() for name in listed.split(b","))
