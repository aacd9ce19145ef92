"""For clients built on httpx: openai < 3, anthropic < 1, mistralai < 3, Groq, LlamaIndex."""

from __future__ import annotations

import httpx

from hedgerow.transports.async_transport import AsyncBody, AsyncHedging
from hedgerow.transports.sync_transport import SyncBody, SyncHedging


class _AsyncBody(AsyncBody, httpx.AsyncByteStream):
    pass


class _SyncBody(SyncBody, httpx.SyncByteStream):
    pass


class HedgeTransport(AsyncHedging, httpx.AsyncBaseTransport):
    """For httpx.AsyncClient(transport=HedgeTransport([...]))."""

    _library = httpx
    _body = _AsyncBody
    _plain_transport = httpx.AsyncHTTPTransport


class SyncHedgeTransport(SyncHedging, httpx.BaseTransport):
    """For httpx.Client(transport=SyncHedgeTransport([...]))."""

    _library = httpx
    _body = _SyncBody
    _plain_transport = httpx.HTTPTransport
