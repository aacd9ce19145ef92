"""Ready-made providers.

The presets named after a provider meet that provider's published p50, p95 and p99 of time to first token: OpenRouter's
public endpoint statistics, 23 daily snapshots from 2026-07-31 to 2026-08-22 (as kept by
github.com/hashd1ve/openrouter-pulse at b5796272c48e), median over all endpoint-days with at least 1,000 requests in
the half hour measured. They mix all models, prompt sizes and users of the provider. Nothing else about these presets
is a provider's figure: the pace of tokens (12 ms, about 80 a second) and the length of answers are round numbers for
simulation.

`fast`, `steady` and `stragglers` are made up, for demonstrations and tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.errors import ConfigError
from hedgerow.lab.latency import HeavyTail, Shape, Stragglers


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A provider's times: first token by `shape`; then a median `gap` of seconds with log-sd `jitter` per token."""

    shape: Shape
    gap: float = 0.012
    jitter: float = 0.3
    tokens: int = 40
    """Length of an answer when the request sets no limit."""
    about: str


def _published(p50: int, p95: int, p99: int) -> Preset:
    about = f"published p50 {p50}, p95 {p95}, p99 {p99} ms"
    return Preset(shape=HeavyTail(p50 / 1000, p95 / 1000, p99 / 1000), about=about)


PRESETS: dict[str, Preset] = {
    "fast": Preset(shape=HeavyTail(0.02, 0.03, 0.05), gap=0.002, jitter=0.0, tokens=10, about="20 ms, hardly a tail"),
    "steady": Preset(shape=HeavyTail(0.3, 0.45, 0.6), about="300 ms, a light tail (p99 = 2 x p50)"),
    "stragglers": Preset(
        shape=Stragglers(0.2, sigma=0.2, share=0.05, factor=10.0), about="200 ms, but 5 % of requests take 10 x as long"
    ),
    "openai": _published(1072, 5991, 13393),
    "azure": _published(1968, 7953, 15679),
    "anthropic": _published(1844, 5427, 8556),
    "bedrock": _published(1509, 4053, 7043),
    "vertex": _published(1301, 4552, 7757),
    "ai-studio": _published(1579, 4690, 12309),
    "deepseek": _published(1014, 2472, 4858),
    "deepinfra": _published(547, 2296, 5400),
    "novita": _published(1210, 4093, 9972),
    "groq": _published(266, 880, 1741),
    "together": _published(740, 4991, 11101),
    "parasail": _published(661, 2935, 6558),
    "xai": _published(913, 3685, 10192),
    "cloudflare": _published(669, 2020, 7104),
    "moonshot": _published(3558, 11002, 19659),
}


def preset(name: str) -> Preset:
    """The preset of this name. Raises ConfigError with the names there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError([f"preset: no {name!r}; there are {', '.join(PRESETS)}"]) from None
