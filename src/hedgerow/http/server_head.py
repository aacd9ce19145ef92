"""Judge a parsed request head: what llhttp lets through and a gateway must not.

llhttp in its strict default already refuses: repeated or malformed content-length, content-length next to
transfer-encoding, a last coding other than chunked, malformed chunk sizes and extensions, folded lines, blanks before a
colon, control characters and bare CR or LF. This module adds the rest (RFC 9112 sections 2.3, 3.2 and 6.1; RFC 9110
section 10.1.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hedgerow.events import Headers

METHODS: Final = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"))
PLAIN: Final = 0
WANTS_CONTINUE: Final = 1
"""The client waits for `100 Continue` before it sends the body."""
HAS_UPGRADE: Final = 2
"""There is an upgrade field, which this server ignores as RFC 9110 section 7.8 allows."""
HAS_CONNECTION: Final = 4
"""There is a connection field."""
CHUNKED: Final = 8
NO_HOST: Final = 16

_JUDGED: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"connection"))
_FLAGS: Final = {b"upgrade": HAS_UPGRADE, b"connection": HAS_CONNECTION}
_REASONS: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Content Too Large",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    505: "HTTP Version Not Supported",
}

ErrorBody = Callable[[int, str], tuple[bytes, bytes]]
"""(status, message) -> (content type, body) of an answer the server itself gives."""


class Refused(Exception):
    """The request is answered by the server itself with `status` and the connection is closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def plain_error_body(status: int, message: str) -> tuple[bytes, bytes]:
    """The default `ErrorBody`: the message as one line of text."""
    return b"text/plain; charset=utf-8", message.encode() + b"\n"


def refusal_bytes(refused: Refused, error_body: ErrorBody) -> bytes:
    """The whole answer to a refused request."""
    content_type, body = error_body(refused.status, refused.message)
    return b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
        refused.status,
        _REASONS[refused.status].encode(),
        content_type,
        len(body),
        body,
    )


def head_bytes(target: bytes, headers: Headers) -> int:
    """Size of a head as `Limits.header_bytes` counts it; never more than it had on the wire."""
    return len(target) + sum(len(name) + len(value) + 3 for name, value in headers)


def judge_head(method: bytes, headers: Headers, body_limit: int) -> int:
    """Raise `Refused`, or say what is special about the request: `PLAIN` or flags, for `judge_version`."""
    if method not in METHODS:
        raise Refused(501, "This method is not supported.")
    hosts = flags = length = 0
    framed = False
    for name, value in headers:
        if name in _JUDGED:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                if framed:
                    raise Refused(400, "The request states its length twice.")
                framed = True
                if not value.isdigit():
                    raise Refused(400, "The content-length is not a number.")
                length = int(value)  # llhttp has refused what does not fit 64 bits, so this is short
                if length > body_limit:
                    raise Refused(413, f"The body is larger than {body_limit} bytes.")
            elif name == b"transfer-encoding":
                if framed:
                    raise Refused(400, "The request states its length twice.")
                framed = True
                flags |= _coding(value)
            else:
                flags |= _FLAGS.get(name) or _expectation(value)
    if hosts != 1:
        if hosts:
            raise Refused(400, "The request has more than one host field.")
        flags |= NO_HOST
    return flags if length or flags & CHUNKED else flags & ~WANTS_CONTINUE


def judge_version(version: str, flags: int) -> int:
    """Raise `Refused` where version and head do not go together, else return what is left of `flags`."""
    if version == "1.1":
        if flags & NO_HOST:
            raise Refused(400, "The request has no host field.")
        return flags
    if version != "1.0":
        raise Refused(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    if flags & CHUNKED:
        raise Refused(400, "HTTP/1.0 has no transfer-encoding.")
    return flags & ~WANTS_CONTINUE


def _coding(value: bytes) -> int:
    if value.lower() != b"chunked":
        raise Refused(400, "The only transfer-encoding known here is chunked.")
    return CHUNKED


def _expectation(value: bytes) -> int:
    if value.lower() != b"100-continue":
        raise Refused(417, "The only expectation known here is 100-continue.")
    return WANTS_CONTINUE
