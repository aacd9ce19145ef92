"""Request hedging for LLM APIs: the first good answer wins, the loser is cancelled, the spend is capped.

In process: `hedge`, `race` and `chain` call async callables, `hedged` decorates one, `Hedger` is made once and called
often, `hedge_sync` is for sync code; each gives a `Result` or raises `EveryAttemptFailed`. `hedged_completion` is the
plain form for text. `http_client` and `http_client_sync` are for the official SDKs, with `HttpTarget`s; what they are
made of is in `hedgerow.transports`.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0.dev0"

TYPE_CHECKING = False  # as type checkers know it; `typing` itself takes most of what importing this would take
if TYPE_CHECKING:
    from typing import Any

    from hedgerow.client.calls import chain, hedge, race
    from hedgerow.client.completion import Completion, hedged_completion
    from hedgerow.client.decorator import hedged
    from hedgerow.client.hedger import Hedger
    from hedgerow.client.result import Alternative, AttemptRecord, EveryAttemptFailed, Result
    from hedgerow.client.settings import Breaker, Outage, Policy
    from hedgerow.client.stream import Held, Winner
    from hedgerow.client.sync import hedge_sync
    from hedgerow.client.target import Target
    from hedgerow.transports.clients import http_client, http_client_sync
    from hedgerow.transports.targets import HttpTarget

    __all__ = [
        "Alternative",
        "AttemptRecord",
        "Breaker",
        "Completion",
        "EveryAttemptFailed",
        "Hedger",
        "Held",
        "HttpTarget",
        "Outage",
        "Policy",
        "Result",
        "Target",
        "Winner",
        "chain",
        "hedge",
        "hedge_sync",
        "hedged",
        "hedged_completion",
        "http_client",
        "http_client_sync",
        "race",
    ]

_HOMES = {
    "Alternative": "result",
    "AttemptRecord": "result",
    "Breaker": "settings",
    "Completion": "completion",
    "EveryAttemptFailed": "result",
    "Hedger": "hedger",
    "Held": "stream",
    "Outage": "settings",
    "Policy": "settings",
    "Result": "result",
    "Target": "target",
    "Winner": "stream",
    "chain": "calls",
    "hedge": "calls",
    "hedge_sync": "sync",
    "hedged": "decorator",
    "hedged_completion": "completion",
    "race": "calls",
}
_TRANSPORTS = {"HttpTarget": "targets", "http_client": "clients", "http_client_sync": "clients"}


def __getattr__(name: str) -> Any:
    """The public names, each imported when it is first asked for: the gateway needs none of them."""
    if name == "__all__":
        return _all()
    if (home := _HOMES.get(name)) is not None:
        return getattr(import_module(f"hedgerow.client.{home}"), name)
    if (home := _TRANSPORTS.get(name)) is not None:
        return getattr(import_module(f"hedgerow.transports.{home}"), name)
    raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")


def _all() -> list[str]:
    """What `from hedgerow import *` brings: without their extra no transports, for which it need not fail."""
    try:
        import_module("hedgerow.transports")
    except ImportError:
        return sorted(_HOMES)
    return sorted({*_HOMES, *_TRANSPORTS})


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_TRANSPORTS})
