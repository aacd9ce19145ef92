"""What the async and the sync transport have in common: from a client's request to the exchange, and to its errors."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.events import FailureClass, Headers
from hedgerow.http.client_settings import Origin
from hedgerow.transports.door import Door
from hedgerow.transports.exchange import Broken
from hedgerow.transports.paths import hedged_path, kept_path
from hedgerow.transports.watch import Watch

_OURS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"x-stainless-timeout"})
"""Not for the gateway. The SDK's timeout is a limit for silences, which `Watch` keeps, and not for whole streams."""
_STAINLESS = "x-stainless-lang"
"""Sent by SDKs that obey `x-should-retry`: of OpenAI, Anthropic, Groq and others."""
_ERRORS: dict[bytes, str] = {
    b"closed": "RemoteProtocolError",
    FailureClass.CONNECT.encode(): "ConnectError",
    FailureClass.PROTOCOL.encode(): "RemoteProtocolError",
    FailureClass.TIMEOUT_FIRST_TOKEN.encode(): "ReadTimeout",
    FailureClass.TIMEOUT_STALL.encode(): "ReadTimeout",
    FailureClass.TIMEOUT_TOTAL.encode(): "ReadTimeout",
}


class Asked:
    """A request under way: its exchange, and what its client waits for."""

    def __init__(self, door: Door, request: Any, target: bytes, content: bytes) -> None:
        """In the loop. `request` is httpx's, with its body `content` read."""
        headers: Headers = [(name.lower(), value) for name, value in request.headers.raw if name.lower() not in _OURS]
        self.exchange = door.ask(request.method.encode(), target, headers, content, origin_of(request.url))
        self._watch = Watch(self.exchange, request.extensions.get("timeout", {}))
        self.first = b""
        """What has been read of the body with the head."""
        self._obeys = _STAINLESS in request.headers

    async def head(self) -> tuple[int, Headers]:
        """Status and header fields of the answer. Raises `Broken`; nothing is open then."""
        exchange = self.exchange
        try:
            status, fields = await exchange.head()
        except BaseException:
            self.close()
            raise
        if status >= 500 and exchange.over:
            await self._look(dict(fields))
        return status, fields

    async def _look(self, fields: dict[bytes, bytes]) -> None:
        """Raises `Broken` where no upstream has answered. But when several attempts were made and the client would ask
        again after an error, though not after an answer that says so, that is the answer.
        """
        why = _ERRORS.get(fields.get(b"x-hedgerow-failure", b""))
        if why is None or (self._obeys and b"x-should-retry" in fields):
            return
        said = await self.exchange.rest()
        self.close()
        raise Broken(self._watch.overdue or why if why == "ConnectError" else why, _message(said))

    def close(self) -> None:
        """The client wants no more: whatever runs for it is broken off."""
        self.exchange.gone()


def origin_of(url: Any) -> Origin:
    """Of a URL of httpx."""
    return Origin(url.scheme, url.raw_host.decode("ascii").strip("[]"), url.port or _PORTS[url.scheme])


_PORTS = {"http": 80, "https": 443}


class _Error(msgspec.Struct):
    message: str


class _Body(msgspec.Struct):
    error: _Error


def _message(body: bytes) -> str:
    return msgspec.json.decode(body, type=_Body).error.message


def path_of(door: Door, request: Any) -> bytes | None:
    """The path of a request that is the gateway's to answer; None of others."""
    asked = request.url.raw_path
    path = None
    if request.method == "POST":
        path = hedged_path(asked, door.paths)
    elif request.method == "GET":
        path = kept_path(asked)
    return path if path is not None and door.takes(origin_of(request.url), asked) else None
