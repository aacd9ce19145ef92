"""Where a pool's connections go (`Origin`) and how many, how long and how trusted they are (`PoolSettings`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of an upstream. `host` is ASCII, lower-case, IPv6 without brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin of an http or https URL; path, query and userinfo are ignored.

        Raises `ValueError` saying what is wrong, without quoting the URL: it may hold a password.
        """
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS:
            raise ValueError("a base URL starts with http:// or https://")
        if not parts.hostname:
            raise ValueError("the base URL names no host")
        try:
            host = parts.hostname if ":" in parts.hostname else parts.hostname.encode("idna").decode("ascii")
            port = parts.port
        except ValueError as error:  # UnicodeError is one too
            raise ValueError("the base URL's host or port is not valid") from error
        return cls(parts.scheme, host, _DEFAULT_PORTS[parts.scheme] if port is None else port)

    @property
    def authority(self) -> str:
        """host:port, as messages and CONNECT name it; IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> bytes:
        """The Host header's value: without the port where it is the scheme's own."""
        if self.port != _DEFAULT_PORTS[self.scheme]:
            return self.authority.encode("ascii")
        return (f"[{self.host}]" if ":" in self.host else self.host).encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Limits, times (seconds) and trust of one pool."""

    max_connections: int = 1000
    """Open connections to this origin, dials under way included (config: `connections.max`)."""
    max_waiting: int = 1000
    """Requests that may wait for a connection beyond the cap (config: `connections.queue`)."""
    queue_timeout: float = 5.0
    """How long they may wait before `PoolExhausted` (config: `connections.queue_timeout`)."""
    connect_timeout: float = 5.0
    """For DNS, TCP, proxy and TLS together."""
    idle_timeout: float = 55.0
    """An unused connection older than this is closed and never used again.

    Just under the 60 s after which AWS load balancers and many servers close (nginx: 75 s), so that we close first and
    no request is written into a closing connection. Servers that close sooner (uvicorn and vLLM: 5 s) are noticed by
    their FIN, and what slips through the gap is sent once more (`client.py`, stale connections).
    """
    dns_ttl: float = 30.0
    """How long new connections may use a resolved address list; getaddrinfo does not tell the record's own TTL."""
    redial: bool = True
    """Replace a connection that a cancel has closed, in the background, so the next request pays no handshake."""
    ca_file: str | None = None
    """PEM file of the only authorities to trust, *instead of* the default ones.

    A target behind a private CA has no use for a certificate from a public one. To trust both, join the PEM files.
    """
    verify: bool = True
    """False switches certificate checks off: for tests."""
    proxy: str | None = field(default=None, repr=False)
    """http://[user:password@]host:port, or None for a direct connection (see `proxy.proxy_for`)."""
