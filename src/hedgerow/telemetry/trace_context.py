"""W3C Trace Context (https://www.w3.org/TR/trace-context-2/): how a request says of which trace it is a part.

Nothing here needs OpenTelemetry: a gateway without traces does not import it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import msgspec

FIELDS = frozenset({b"traceparent", b"tracestate"})
"""The header fields of a trace's context."""
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16


class Parent(msgspec.Struct, frozen=True, gc=False):
    """The span that a request was sent by. `state` is its `tracestate`, as it came; "" without one."""

    trace_id: int
    span_id: int
    flags: int
    state: str = ""


class Peer(msgspec.Struct, frozen=True, gc=False):
    """Where a target is: `provider` is a well-known `gen_ai.provider.name`, None where its host names none."""

    host: str
    port: int
    provider: str | None


class Tracing(ABC):
    """What makes a gateway's spans, as the gateway sees it; it hears of everything else as a listener."""

    @abstractmethod
    def knows(self, peers: Mapping[str, Peer]) -> None:
        """Where the targets are, by their names, from now on."""

    @abstractmethod
    def begins(self, request_id: str, parent: Parent | None) -> None:
        """A request is about to start."""

    @abstractmethod
    def fields(self, request_id: str, attempt: int) -> bytes:
        """The header lines by which an attempt, which was launched just now, is sent as a part of the trace."""


def parent_in(fields: Iterable[tuple[bytes, bytes]]) -> Parent | None:
    """The parent that a request's header fields name; None where there is none, or none that can be made out."""
    parents, states = [], []
    for name, value in fields:
        if name == b"traceparent":
            parents.append(value.strip())
        elif name == b"tracestate":
            states.append(value.strip())
    if len(parents) != 1 or (match := _TRACEPARENT.fullmatch(parents[0])) is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == b"ff" or (version == b"00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    state = b",".join(filter(None, states)).decode("latin-1")
    return Parent(int(trace_id, 16), int(span_id, 16), int(flags, 16), state)


def traceparent(trace_id: int, span_id: int, flags: int) -> bytes:
    """The value of a `traceparent` header."""
    return b"00-%032x-%016x-%02x" % (trace_id, span_id, flags)
