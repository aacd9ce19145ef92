"""Which header fields go from the client to the upstream, and back.

Hop-by-hop fields (RFC 9110 section 7.6.1), the client's credentials, cookies (whoever answers first would get those of
the others) and our own `x-hedgerow-*` stop here; everything else passes as it came.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from math import inf
from urllib.parse import unquote_to_bytes

import msgspec

from hedgerow.errors import RequestError
from hedgerow.events import Headers
from hedgerow.http.head import field_lines, fields_in, joined
from hedgerow.unshown import Unshown

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
KEYS = frozenset({b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Where the SDKs of Anthropic, Azure and Google put a key."""
_TIMEOUT = b"x-stainless-timeout"
"""The official SDKs' own timeout, in seconds; it is sent on, too."""
_IDEMPOTENCY = b"idempotency-key"
_READ = KEYS | {b"authorization", b"connection", _TIMEOUT, _IDEMPOTENCY}
_NOT_UPSTREAM = HOP_BY_HOP | _READ | {b"accept-encoding", b"content-length", b"cookie", b"expect", b"host"}
_NOT_DOWNSTREAM = HOP_BY_HOP | {b"content-length", b"alt-svc", b"set-cookie"}
_PREFIX = b"x-hedgerow-"
_OURS = len(_PREFIX)  # comparing a slice costs half as much as `startswith`


class Incoming(Unshown, msgspec.Struct, frozen=True, gc=False):
    """A client's header fields, read once.

    `forward` is the block of fields to send upstream, each ended by CRLF. `authorization` is the client's own
    credential as an `authorization` value, None if it sent none; `patience` how many seconds the client itself waits,
    of which `deadline` is what it asked us for; `tenant` a fingerprint of its key, where tenants are told apart;
    `traits` the conditions of its route that it meets; `credential` the field or fields it came in, as lines;
    `request_id` the name it gave the request, "" if none; `key` its `Idempotency-Key`, b"" if none, which is not in
    `forward`; `session` a fingerprint of what it belongs to, `needs` and `context` as in `Ask`,
    where they matter.
    """

    forward: bytes
    authorization: bytes | None
    opted_out: bool
    credential: bytes = b""
    patience: float = inf
    tenant: str = ""
    traits: frozenset[str] = frozenset()
    deadline: float = inf
    request_id: str = ""
    key: bytes = b""
    scope: bytes = b""
    session: str = ""
    needs: frozenset[str] = frozenset()
    context: int = 0


def read(headers: Headers) -> Incoming:
    """Sort a request's header fields into what is forwarded and what is ours.

    Raises `RequestError` (400) for a client that wants to go on with another protocol, and for a deadline, a request id
    or an idempotency key that is none.
    """
    forward: list[bytes] = []
    authorization: bytes | None = None
    credential = key = b""
    request_id = ""
    opted_out = False
    patience = deadline = inf
    for name, value in headers:
        if name not in _NOT_UPSTREAM:
            if name[:_OURS] != _PREFIX:
                forward += (name, b": ", value, b"\r\n")
            elif name == b"x-hedgerow-hedge" and value.lower() == b"off":
                opted_out = True
            elif name == b"x-hedgerow-deadline-ms":
                deadline = min(deadline, _milliseconds(value))
            elif name == b"x-hedgerow-request-id":
                request_id = _request_id(value)
        elif name in _READ:
            if name == b"authorization":
                authorization = value
                credential += b"authorization: %b\r\n" % value
            elif name in KEYS:
                authorization = b"Bearer " + value if authorization is None else authorization
                credential += b"%b: %b\r\n" % (name, value)
            elif name == _TIMEOUT:
                forward += (name, b": ", value, b"\r\n")
                patience = min(patience, _number(value) or inf)
            elif name == _IDEMPOTENCY:
                key = _idempotency_key(value)
            elif value.lower() not in _PLAIN_CONNECTION:
                if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
                    raise RequestError(400, NO_WEBSOCKETS, code="unsupported_upgrade")
                return read(_without_listed(headers))
    patience = min(patience, deadline)
    block = b"".join(forward)
    return Incoming(block, authorization, opted_out, credential, patience, "", _NO_TRAITS, deadline, request_id, key)


_NO_TRAITS: frozenset[str] = frozenset()
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_IDEMPOTENCY_KEY = re.compile(rb"[\x20-\x7e]{1,255}")


def _request_id(value: bytes) -> str:
    """Raises `RequestError` (400): whoever names a request will look for that name."""
    if _REQUEST_ID.fullmatch(value) is None:
        message = "x-hedgerow-request-id must be 1 to 128 letters, digits, '.', '_', ':' or '-'."
        raise RequestError(400, message, code="invalid_request_id")
    return value.decode()


def _idempotency_key(value: bytes) -> bytes:
    """Raises `RequestError` (400): a request that was to be answered once must not be taken for another."""
    if _IDEMPOTENCY_KEY.fullmatch(value) is None:
        message = "Idempotency-Key must be 1 to 255 printable ASCII characters."
        raise RequestError(400, message, code="invalid_idempotency_key")
    return value


def _milliseconds(value: bytes) -> float:
    """Seconds. Raises `RequestError` (400): a deadline that is not understood must not pass for none."""
    number = _number(value)
    if not number:
        message = "x-hedgerow-deadline-ms must be a number of milliseconds above 0."
        raise RequestError(400, message, code="invalid_deadline")
    return number / 1000


def _number(value: bytes) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0.0 <= number < inf else None


NO_WEBSOCKETS = (
    "hedgerow does not carry WebSockets (such as the Realtime API): a session cannot be hedged. "
    "Connect to the provider itself."
)


def tenant_of(incoming: Incoming, *, checked: bool) -> str:
    """A fingerprint of a client's key that says nothing of the key; "" without one.

    However its scheme and spaces are written and whichever field it is in, as with `Access`: a key has one budget.
    Where that has `checked` it, the key is all that counts: else a client had as many budgets as it can make up fields.
    Otherwise all that it presents counts together: many clients share a dummy in one field, and their keys are others.
    """
    if incoming.authorization is None:
        return ""
    keys = {_plain(b"authorization", incoming.authorization)}
    if not checked:
        keys |= {_plain(name, value) for name, value in fields_in(incoming.credential)}
    return hashlib.sha256(b"\n".join(sorted(keys))).hexdigest()[:16]


def _plain(field: bytes, value: bytes) -> bytes:
    """A key as an `authorization` value, always written the same way."""
    scheme, _, key = value.partition(b" ") if field == b"authorization" else (b"bearer", b"", value)
    return b"%b %b" % (scheme.lower(), key.strip())


def traits_of(headers: Headers, wanted: Collection[tuple[bytes, bytes, str]]) -> frozenset[str]:
    """The conditions among `wanted` (header, value, name of the condition) that these fields meet."""
    found = {(name, value.strip().lower()) for name, value in headers}
    return frozenset(trait for name, value, trait in wanted if (name, value) in found)


def forbids_storing(headers: Headers) -> bool:
    """Whether the client asks that its answer be kept nowhere (RFC 9111 section 5.2.1.5)."""
    return any(name == b"cache-control" and b"no-store" in value.lower() for name, value in headers)


def speaks_anthropic(headers: Headers) -> bool:
    """Whether the client uses Anthropic's API: some of its paths are OpenAI's too."""
    return any(name == b"anthropic-version" for name, _ in headers)


def speaks_gemini(target: bytes, headers: Headers) -> bool:
    """Whether the client uses Gemini's API: its version may be spelled `/v1` too."""
    return target.startswith(b"/v1beta/") or any(name == b"x-goog-api-key" for name, _ in headers)


def key_in_query(target: bytes, incoming: Incoming) -> tuple[bytes, Incoming]:
    """`target` without a `key=` in its query, which becomes the client's credential: Google's APIs take it there."""
    path, _, query = target.partition(b"?")
    kept: list[bytes] = []
    key = b""
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if unquote_to_bytes(name) in _KEY_NAMES:
            key = key or unquote_to_bytes(value).strip()
        else:
            kept.append(part)
    target = b"?".join((path, b"&".join(kept))) if any(kept) else path
    if incoming.authorization is not None or not _KEY.fullmatch(key):
        return target, incoming
    line = b"x-goog-api-key: %b\r\n" % key
    return target, msgspec.structs.replace(incoming, authorization=b"Bearer " + key, credential=line)


_KEY_NAMES = (b"key", b"$key")
_KEY = re.compile(rb"[\x21-\x7e]+")


def to_client(headers: Headers) -> bytes:
    """An upstream's header fields, as lines, without those that belong to its connection with us."""
    pieces: list[bytes] = []
    for name, value in headers:
        if name not in _NOT_DOWNSTREAM:
            if name[:_OURS] != _PREFIX:
                pieces += (name, b": ", value, b"\r\n")
        elif name == b"connection" and value.lower() not in _PLAIN_CONNECTION:
            return to_client(_without_listed(headers))
    return joined(pieces)


def declared_length(headers: Headers) -> Headers:
    """The content-length field alone."""
    return [field for field in headers if field[0] == b"content-length"]


_PLAIN_CONNECTION = (b"keep-alive", b"close", b"")


def _without_listed(headers: Headers) -> Headers:
    """The fields without `Connection` and those that it declares hop-by-hop; rare."""
    listed = b",".join(value for name, value in headers if name == b"connection")
    dropped = {name.strip().lower() for name in listed.split(b",")} | {b"connection"}
    return [field for field in headers if field[0] not in dropped]


_SECRET = re.compile(
    rb"auth|key|token|secret|passw|pwd|credential|bearer|jwt|assertion|signature|^sig$|session|^(?:x|cf)-access|cert|cookie"
    rb"|organi[sz]ation|project|tenant|account|subscription|^code$",
    re.IGNORECASE,
)
"""Of names of fields, and of parts of a query, that may hold a key, or say whose it is."""
_LIKE_A_KEY = re.compile(rb"\s*(?:(?:bearer|basic|digest|negotiate)\s|sk-|eyJ[\w-]+\.)", re.IGNORECASE)
"""Values that are keys whatever they are called: with a scheme, of a well-known form, a JWT."""


def without_keys(lines: bytes) -> bytes:
    """The block of fields `lines` without those that may hold a key, or that say whose it is."""
    return field_lines([(name, value) for name, value in fields_in(lines) if not _may_hold_key(name, value)])


def _may_hold_key(name: bytes, value: bytes) -> bool:
    return name != _IDEMPOTENCY and (_SECRET.search(name) is not None or _LIKE_A_KEY.match(value) is not None)


def without_keys_in_query(target: bytes) -> bytes:
    """The request target without the parts of its query that may hold a key, or say whose it is."""
    path, _, query = target.partition(b"?")
    kept = [
        part
        for part in query.split(b"&")
        if not _may_hold_key(*map(unquote_to_bytes, part.replace(b"+", b" ").partition(b"=")[::2]))
    ]
    return b"?".join((path, b"&".join(kept))) if any(kept) else path


def without(lines: bytes, names: Collection[bytes]) -> bytes:
    """The block of fields `lines` without those of these names."""
    return field_lines([field for field in fields_in(lines) if field[0] not in names])
