"""Outgoing proxies: which one the environment names for an origin, and the CONNECT handshake through it.

Only HTTP proxies; an https:// or socks:// proxy is refused with a `ConfigError` instead of being ignored.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hedgerow.errors import ConfigError
from hedgerow.http.client_settings import Origin

if TYPE_CHECKING:  # who only asks which proxy to take need not load an event loop
    import asyncio
    import socket

_REPLY_LIMIT = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?:[ \r]|$)")


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `authorization` is the value of Proxy-Authorization, never shown in a message."""

    host: str
    port: int
    authorization: bytes | None

    def __repr__(self) -> str:
        return f"Proxy({self.authority})"

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, url: str) -> Proxy:
        """Reads http://[user:password@]host[:port] (port 80 if not given). Raises `ConfigError`."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http":
            raise ConfigError([f"proxy: {parts.scheme}:// proxies are not supported, only http://host:port"])
        try:
            port = parts.port
        except ValueError:
            raise ConfigError(["proxy: the port is not a number from 0 to 65535"]) from None
        if not parts.hostname:
            raise ConfigError(["proxy: the URL names no host; write http://host:port"])
        authorization = None
        if parts.username is not None:
            userinfo = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = b"Basic " + base64.b64encode(userinfo.encode())
        return cls(parts.hostname, 80 if port is None else port, authorization)


def proxy_for(origin: Origin, environ: Mapping[str, str]) -> str | None:
    """The proxy URL the environment names for `origin`, or None.

    HTTPS_PROXY or HTTP_PROXY by the origin's scheme, then ALL_PROXY; lower case wins over upper case. NO_PROXY lists
    host suffixes, host:port, addresses and networks (10.0.0.0/8), or * for all. Loopback hosts are never proxied.

    httpoxy: a CGI server turns a client's `Proxy:` header into HTTP_PROXY, so the upper-case variable is not believed
    where REQUEST_METHOD says that this is a CGI process.
    """
    if _bypassed(origin, _lookup(environ, "no_proxy") or ""):
        return None
    if origin.scheme == "http" and "REQUEST_METHOD" in environ:
        return environ.get("http_proxy") or _lookup(environ, "all_proxy")
    return _lookup(environ, f"{origin.scheme}_proxy") or _lookup(environ, "all_proxy")


def _lookup(environ: Mapping[str, str], name: str) -> str | None:
    return environ.get(name) or environ.get(name.upper()) or None


def _bypassed(origin: Origin, no_proxy: str) -> bool:
    address = _ip(origin.host)
    if origin.host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = no_proxy.lower().replace(",", " ").split()
    return any(entry == "*" or _matches(origin, address, entry) for entry in entries)


def _matches(origin: Origin, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, entry: str) -> bool:
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    host, port = entry, ""
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        port = port.removeprefix(":")
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    if port and port != str(origin.port):
        return False
    if address is not None:
        return _ip(host) == address
    suffix = host.removeprefix("*").strip(".")
    return bool(suffix) and (origin.host == suffix or origin.host.endswith(f".{suffix}"))


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


async def open_tunnel(sock: socket.socket, origin: Origin, proxy: Proxy, *, loop: asyncio.AbstractEventLoop) -> None:
    """CONNECT to `origin` over a socket connected to `proxy` (RFC 9110 section 9.3.6). Raises `OSError` if refused."""
    authority = origin.authority.encode("ascii")
    head = b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n" % (authority, authority)
    if proxy.authorization is not None:
        head += b"proxy-authorization: %b\r\n" % proxy.authorization
    await loop.sock_sendall(sock, head + b"\r\n")
    reply = b""
    while b"\r\n\r\n" not in reply:
        piece = await loop.sock_recv(sock, 4096)
        if not piece:
            raise OSError("it closed the connection before answering CONNECT")
        reply += piece
        if len(reply) > _REPLY_LIMIT:
            raise OSError("its answer to CONNECT is too long")
    status = _STATUS.match(reply)
    if status is None:
        raise OSError("its answer to CONNECT is not HTTP")
    if not status[1].startswith(b"2"):
        hint = "; check user and password in the proxy URL" if status[1] == b"407" else ""
        raise OSError(f"it answered CONNECT with {status[1].decode()}{hint}")
    if not reply.endswith(b"\r\n\r\n"):
        raise OSError("it sent data before the tunnel was used")  # with TLS the client speaks first
