"""Protocols: what a request forbids, where its first token is, how it fails, how it ends. No I/O, no clock."""

from __future__ import annotations

from hedgerow.wire.base import Family, Protocol
from hedgerow.wire.openai_chat import OpenAIChat
from hedgerow.wire.passthrough import Passthrough

_PASSTHROUGH: Protocol = Passthrough()
_PASSTHROUGH_ANTHROPIC: Protocol = Passthrough(Family.ANTHROPIC)
_POSTED: dict[bytes, Protocol] = {
    b"/v1/chat/completions": OpenAIChat(),
}


def lookup(method: bytes, path: bytes) -> Protocol:
    """The protocol spoken at `path` (a query is ignored); whatever is not understood is passed through."""
    known = _POSTED.get(path) or _POSTED.get(path.partition(b"?")[0])
    if known is not None and method == b"POST":
        return known
    return _PASSTHROUGH_ANTHROPIC if path.startswith(b"/v1/messages") else _PASSTHROUGH
