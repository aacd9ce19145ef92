"""Every error hedgerow raises, in one tree.

    HedgerowError
    ├── ConfigError              the configuration cannot work: file, line, key, what is allowed
    ├── RequestError             the client's request is at fault; carries the HTTP status to answer with
    ├── LedgerError              the ledger cannot be read or written
    └── UpstreamError            an upstream call did not give a whole answer
        ├── ConnectFailed        no connection: refused, unreachable, DNS, TLS, proxy, connect timeout
        ├── PoolExhausted        no free connection within the queue's length or timeout
        ├── UpstreamClosed       the upstream closed or reset before the end of its answer
        └── UpstreamProtocolError   the upstream's bytes are not HTTP

Messages say what happened and what to do next; they never contain a key, a prompt or an answer.
"""

from __future__ import annotations


class HedgerowError(Exception):
    """Root of the tree: `except HedgerowError` catches whatever hedgerow raises."""


class ConfigError(HedgerowError):
    """The configuration cannot work.

    `problems` holds one line per fault, each already naming file, line and key.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class RequestError(HedgerowError):
    """The client's request cannot be served as it is; `status` is the HTTP status to answer with."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param


class LedgerError(HedgerowError):
    """The ledger cannot be read or written: there is none, its database refuses, its tables are of a later version."""


class UpstreamError(HedgerowError):
    """An upstream call did not give a whole answer."""


class ConnectFailed(UpstreamError):
    """No connection to the upstream could be made; the request was not sent."""


class PoolExhausted(UpstreamError):
    """The target's connection cap is reached and no connection came free in time; the request was not sent."""


class UpstreamClosed(UpstreamError):
    """The upstream closed or reset the connection before its answer was whole."""


class UpstreamProtocolError(UpstreamError):
    """The upstream sent bytes that are not a valid HTTP/1.1 response."""
