"""For clients built on httpx: openai < 3, anthropic < 2, Mistral, Groq, Cohere, LlamaIndex."""

from __future__ import annotations

import httpx

from hedgerow.transports.async_transport import AsyncHedging
from hedgerow.transports.sync_transport import SyncHedging


class HedgeTransport(AsyncHedging, httpx.AsyncBaseTransport):
    """See `AsyncHedging`: httpx.AsyncClient(transport=HedgeTransport([...]))."""

    _library = httpx


class SyncHedgeTransport(SyncHedging, httpx.BaseTransport):
    """See `SyncHedging`: httpx.Client(transport=SyncHedgeTransport([...]))."""

    _library = httpx
