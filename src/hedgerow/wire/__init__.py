"""Protocols: what a request forbids, where its first token is, how it fails, how it ends. No I/O, no clock.

Each is read when the first of them is asked for: who hedges in process needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.wire.protocols import JSON_ENDPOINT, PROTOCOLS, TWICE, lookup

__all__ = ["JSON_ENDPOINT", "PROTOCOLS", "TWICE", "lookup"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hedgerow.wire import protocols

    return globals().setdefault(name, getattr(protocols, name))
