"""Request heads as bytes: built once by the caller, refused when a header would smuggle another line.

RFC 9110 section 5.5 and RFC 9112 section 3. The pool sends a head as it is; only a plain-HTTP proxy needs it changed
(`absolute_form`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_VALUE = re.compile(rb"[^\x00\r\n]*")


def request_head(
    method: bytes,
    target: bytes,
    host: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    content_length: int | None,
) -> bytes:
    """The complete head of an HTTP/1.1 request, ending in an empty line.

    `target` is in origin form (b"/v1/models?limit=2"). `headers` must hold neither host nor content-length; they are
    written from `host` and `content_length` (None: no such header, for requests without a body).

    Raises `ValueError` naming the part at fault, never quoting it (a header value may be a key): a name or method that
    is no token, a target with blanks or control characters, a value with CR, LF or NUL.
    """
    if not _TOKEN.fullmatch(method):
        raise ValueError("the request method is not a token")
    if not _TARGET.fullmatch(target):
        raise ValueError("the request target is empty or has blanks, control characters or bytes outside ASCII")
    lines = [b"%b %b HTTP/1.1\r\n%b" % (method, target, _line(b"host", host))]
    lines += [_line(name, value) for name, value in headers]
    if content_length is not None:
        lines.append(b"content-length: %d\r\n" % content_length)
    lines.append(b"\r\n")
    return b"".join(lines)


def _line(name: bytes, value: bytes) -> bytes:
    if not _TOKEN.fullmatch(name):
        raise ValueError("a request header's name is not a token")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"the value of request header {name.decode()!r} holds a line break or NUL")
    return b"%b: %b\r\n" % (name, value)


def field_lines(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Header fields of an answer as on the wire, each ended by CRLF. Raises `ValueError` for a line break in one."""
    pieces: list[bytes] = []
    for name, value in fields:
        pieces += (name, b": ", value, b"\r\n")
    return joined(pieces)


def joined(pieces: Sequence[bytes]) -> bytes:
    """Fields given as name, b": ", value, b"\\r\\n" each, as one block. Raises `ValueError` for a line break in one."""
    lines = b"".join(pieces)
    count = len(pieces) // 4
    if lines.count(b"\r") != count or lines.count(b"\n") != count:
        raise ValueError("a response field contains a line break")
    return lines


def fields_in(lines: bytes) -> list[tuple[bytes, bytes]]:
    """The fields that `field_lines` wrote."""
    fields = []
    for line in lines.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b": ")
        fields.append((name, value))
    return fields


def absolute_form(head: bytes, origin: bytes, authorization: bytes | None) -> bytes:
    """`head` for a plain-HTTP proxy: the target in absolute form (RFC 9112 section 3.2.2).

    `origin` is scheme and authority, b"http://host:port"; `authorization` the Proxy-Authorization value, if any.
    """
    method, _, rest = head.partition(b" ")
    if authorization is not None:
        first, _, rest = rest.partition(b"\r\n")
        rest = b"%b\r\nproxy-authorization: %b\r\n%b" % (first, authorization, rest)
    return b"%b %b%b" % (method, origin, rest)
