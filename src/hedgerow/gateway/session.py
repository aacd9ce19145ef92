"""Which session a request belongs to, as a fingerprint that says nothing of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hedgerow.events import Headers
from hedgerow.wire.user import user_of

USER = "user"
"""Stands for what the body names, where else the name of a header field stands."""


def session_of(by: Sequence[str], headers: Headers, body: bytes) -> str:
    """The first of `by` that the request has; "" where it has none."""
    for name in by:
        found = user_of(body) if name == USER else _field(name.encode(), headers)
        if found:
            return hashlib.blake2b(found, digest_size=8).hexdigest()
    return ""


def _field(name: bytes, headers: Headers) -> bytes:
    return next((value.strip() for each, value in headers if each == name), b"")
