"""Questions on the side, and which witness an upstream has."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from hedgerow.gateway.blueprint import TargetBlueprint
from hedgerow.gateway.build import Site
from hedgerow.gateway.headers import Incoming
from hedgerow.gateway.parts import Pooled
from hedgerow.http.client import Pool
from hedgerow.probe.calling import Answered
from hedgerow.probe.witness import Get, Witness
from hedgerow.probe.witness_gauges import gauges
from hedgerow.probe.witness_lab import LabWitness
from hedgerow.probe.witness_openrouter import OpenRouterWitness
from hedgerow.wire.base import Family

HOSTED = re.compile(
    r"(?:^|\.)(?:openai\.com|anthropic\.com|googleapis\.com|groq\.com|mistral\.ai|deepseek\.com|together\.(?:ai|xyz)"
    r"|fireworks\.ai|x\.ai|(?:openai|ai)\.azure\.com|bedrock[\w.-]*\.amazonaws\.com|cohere\.com|perplexity\.ai|cerebras\.ai|sambanova\.ai)$"
)
"""Hosts of providers that say nothing on the side; they are not asked."""
OPENROUTER = "openrouter.ai"
_VERSION = re.compile(r"/v\d+(?:alpha|beta)?(?:/openai)?/?$")
_PATIENCE = 5.0


def asker(target: TargetBlueprint, pool: Pool, family: Family, base_url: str) -> Get:
    """Asks for paths below `base_url`, with the target's key."""
    pooled = Pooled(pool, pool.origin, pool.settings, None)
    there = msgspec.structs.replace(target, base_url=base_url)
    seen = Site("", there, pooled).seen_by(family, 0)
    incoming = Incoming(b"accept: */*\r\n", None, opted_out=False)

    async def get(path: str) -> bytes | None:
        sink = Answered()
        call = seen.send(sink, method=b"GET", target=path.encode(), incoming=incoming, body=b"", resend=True)
        return await sink.wait(call, _PATIENCE)

    return get


async def witness_of(target: TargetBlueprint, pool: Pool, family: Family) -> Witness | None:
    """Who at this upstream can tell what it does; None when nobody can."""
    host = urlsplit(target.base_url).hostname or ""
    if host == OPENROUTER or host.endswith("." + OPENROUTER):
        return OpenRouterWitness(asker(target, pool, family, target.base_url.rstrip("/")))
    if HOSTED.search(host):
        return None
    get = asker(target, pool, family, _VERSION.sub("", target.base_url.rstrip("/")))
    lab = LabWitness(get)
    return lab if await lab.there() else await gauges(get)
