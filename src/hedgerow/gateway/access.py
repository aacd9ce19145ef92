"""Who may use the gateway: clients that present one of its keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from hedgerow.errors import RequestError


class Access:
    """Checks bearer keys by digest, so that the time taken says nothing about the keys."""

    __slots__ = ("_digests",)

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = frozenset(_digest(key.encode()) for key in keys)

    def check(self, authorization: bytes | None) -> None:
        """Raises `RequestError` (401) unless `authorization` carries a known key."""
        if authorization is None:
            raise RequestError(
                401,
                "This gateway asks for a key: send 'Authorization: Bearer <key>' or 'x-api-key: <key>'.",
                code="invalid_api_key",
            )
        scheme, _, key = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or _digest(key.strip()) not in self._digests:
            raise RequestError(401, "This gateway does not know the key you sent.", code="invalid_api_key")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
