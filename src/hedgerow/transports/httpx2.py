"""For clients built on httpx2: openai >= 3, anthropic >= 2."""

from __future__ import annotations

import httpx2

from hedgerow.transports.async_transport import AsyncHedging
from hedgerow.transports.sync_transport import SyncHedging


class HedgeTransport(AsyncHedging, httpx2.AsyncBaseTransport):
    """See `AsyncHedging`: AsyncOpenAI(http_client=httpx2.AsyncClient(transport=HedgeTransport([...])))."""

    _library = httpx2


class SyncHedgeTransport(SyncHedging, httpx2.BaseTransport):
    """See `SyncHedging`: OpenAI(http_client=httpx2.Client(transport=SyncHedgeTransport([...])))."""

    _library = httpx2
