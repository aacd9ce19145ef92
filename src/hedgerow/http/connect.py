"""One new connection to an origin: DNS, TCP, proxy, TLS, under one timeout, with an error that names the phase."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from hedgerow.errors import ConnectFailed
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.client_tls import start_transport, tls_context
from hedgerow.http.proxy import Proxy, open_tunnel
from hedgerow.http.resolve import Resolver, connect_first

_P = TypeVar("_P", bound=asyncio.BaseProtocol)


class _Progress:
    """How far a dial has come, for the message of a timeout."""

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase = "DNS"


class Connector:
    """Opens connections to one origin, directly or through a proxy.

    The CA bundle is read here, once per process, not while a request waits. Raises `ConfigError` for an unusable proxy
    URL or CA file.
    """

    def __init__(self, origin: Origin, settings: PoolSettings, *, loop: asyncio.AbstractEventLoop) -> None:
        self._origin = origin
        self._settings = settings
        self._loop = loop
        self.proxy = Proxy.of(settings.proxy) if settings.proxy else None
        self._context = tls_context(settings.ca_file, settings.verify) if origin.scheme == "https" else None
        via = self.proxy or origin
        self._resolver = Resolver(via.host, via.port, ttl=settings.dns_ttl, loop=loop)

    def close(self) -> None:
        self._resolver.close()

    async def connect(self, make: Callable[[], _P]) -> _P:
        """A connected protocol. Raises `ConnectFailed` and nothing else but `CancelledError`."""
        progress = _Progress()
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                return await self._connect(make, progress)
        except OSError as error:  # TimeoutError is one
            timed_out = isinstance(error, TimeoutError) and error.errno is None
            reason = f"no answer within {self._settings.connect_timeout:g} s" if timed_out else _reason(error)
            if progress.phase == "TCP":
                self._resolver.forget()
            via = f" through proxy {self.proxy.authority}" if self.proxy else ""
            raise ConnectFailed(
                f"cannot connect to {self._origin.authority}{via}: {progress.phase}: {reason}"
            ) from error

    async def _connect(self, make: Callable[[], _P], progress: _Progress) -> _P:
        origin, context = self._origin, self._context
        addresses = await self._resolver.addresses()
        progress.phase = "TCP"
        sock = await connect_first(addresses, loop=self._loop)
        if self.proxy is not None and context is not None:
            progress.phase = "proxy"
            try:
                await open_tunnel(sock, origin, self.proxy, loop=self._loop)
            except BaseException:
                sock.close()
                raise
        if context is not None:
            progress.phase = "TLS"
        return await start_transport(self._loop, make, sock, context=context, hostname=origin.host)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        message = error.verify_message.rstrip(".")
        hint = "; name a private CA's file in tls.ca_file" if "issuer" in message or "self" in message else ""
        return f"the certificate is not trusted: {message}{hint}"
    if isinstance(error, ssl.SSLError):
        return f"the handshake failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return str(error.strerror or error) or type(error).__name__
