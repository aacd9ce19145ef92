"""Transports for the HTTP clients that the official SDKs use: the gateway's core, in the process of its caller.

`hedgerow.transports.httpx2` is for openai >= 3 and anthropic >= 2, `hedgerow.transports.httpx` for what came before and
for the SDKs of Mistral, Groq, Cohere and LlamaIndex. They speak HTTP/1.1 to their targets, and need a loop of asyncio.
"""

from importlib.util import find_spec


def _missing() -> list[str]:
    """Packages that are imported when an answer needs them, which is too late to hear of them."""
    return [name for name in ("httptools", "brotli") if find_spec(name) is None]


if missing := _missing():
    raise ImportError(f"hedgerow's transports need {' and '.join(missing)}: pip install 'hedgerow[transports]'")
