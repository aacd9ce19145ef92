"""What providers bill for attempts that are broken off, as far as anybody has written it down.

docs/costs.md has the sources.

Collected in November 2026 from documentation and public reports; nobody was asked and nothing was measured.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from hedgerow.config.target import Target
from hedgerow.policy.terms import OnCancel


class Billed(NamedTuple):
    """What a cancel costs while an answer is streamed, and where it is not; `refusals`: some errors cost something."""

    stream: OnCancel
    whole: OnCancel
    refusals: bool = False


_STOPS = Billed(OnCancel.GENERATED, OnCancel.GENERATED)
"""Servers of one's own: vLLM, SGLang, llama.cpp and the lab stop when the connection is closed."""
_STREAMS_STOP = Billed(OnCancel.GENERATED, OnCancel.FULL)
_AZURE = Billed(OnCancel.GENERATED, OnCancel.FULL, refusals=True)
_GOES_ON = Billed(OnCancel.FULL, OnCancel.FULL)
HOSTS = {
    "openai.azure.com": _AZURE,
    "cognitiveservices.azure.com": _AZURE,
    "services.ai.azure.com": _AZURE,
    "azure-api.net": _AZURE,
    **dict.fromkeys(
        (
            "api.openai.com",
            "api.anthropic.com",
            "openrouter.ai",
            "fireworks.ai",
            "together.ai",
            "together.xyz",
            "deepinfra.com",
            "cohere.ai",
            "cohere.com",
            "x.ai",
            "cloudflare.com",
            "deepseek.com",
        ),
        _STREAMS_STOP,
    ),
    **dict.fromkeys(
        (
            "amazonaws.com",
            "googleapis.com",
            "groq.com",
            "mistral.ai",
            "perplexity.ai",
            "replicate.com",
            "sambanova.ai",
            "nebius.ai",
            "nebius.com",
            "novita.ai",
            "zenmux.ai",
        ),
        _GOES_ON,
    ),
}
"""By the end of the host's name."""


def billed_on_cancel(target: Target, streams_stop: bool | None = None, whole_stop: bool | None = None) -> Billed:
    """As is configured, else as a probe has found out (None: it could not tell), else as is known of the provider."""
    known = _known(urlsplit(target.base_url).hostname or "")
    if target.billed_on_cancel is not None:
        return Billed(**target.billed_on_cancel, refusals=known.refusals)
    return Billed(_found(streams_stop, known.stream), _found(whole_stop, known.whole), known.refusals)


def _found(stops: bool | None, known: OnCancel) -> OnCancel:
    return known if stops is None else OnCancel.GENERATED if stops else OnCancel.FULL


def _known(host: str) -> Billed:
    return next((facts for end, facts in HOSTS.items() if host == end or host.endswith(f".{end}")), _STOPS)
