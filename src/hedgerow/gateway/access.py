"""Who may use the gateway: clients that present one of its keys, and operators with the admin token."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from hedgerow.errors import RequestError
from hedgerow.events import Headers


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


class Token:
    """The admin token, of which only the digest is kept."""

    __slots__ = ("_digest", "fingerprint")

    def __init__(self, token: str) -> None:
        self._digest = _digest(token.encode())
        self.fingerprint = f"token {self._digest.hex()[:8]}"
        """Says in logs which token it was."""

    def check(self, headers: Headers) -> None:
        """Raises `RequestError` (401) unless the token has come as `Authorization: Bearer`."""
        authorization = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, token = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(_digest(token.strip()), self._digest):
            message = "The admin API asks for its own token (server.admin): send 'Authorization: Bearer <token>'."
            raise RequestError(401, message, code="invalid_admin_token")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
