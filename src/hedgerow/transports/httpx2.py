"""For clients built on httpx2: openai >= 3, anthropic >= 1, mistralai >= 3."""

from __future__ import annotations

import httpx2

from hedgerow.transports.async_transport import AsyncBody, AsyncHedging
from hedgerow.transports.sync_transport import SyncBody, SyncHedging


class _AsyncBody(AsyncBody, httpx2.AsyncByteStream):
    pass


class _SyncBody(SyncBody, httpx2.SyncByteStream):
    pass


class HedgeTransport(AsyncHedging, httpx2.AsyncBaseTransport):
    """For httpx2.AsyncClient(transport=HedgeTransport([...]))."""

    _library = httpx2
    _body = _AsyncBody
    _plain_transport = httpx2.AsyncHTTPTransport


class SyncHedgeTransport(SyncHedging, httpx2.BaseTransport):
    """For httpx2.Client(transport=SyncHedgeTransport([...]))."""

    _library = httpx2
    _body = _SyncBody
    _plain_transport = httpx2.HTTPTransport
