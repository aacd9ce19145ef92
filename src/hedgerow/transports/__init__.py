"""Transports for the HTTP clients that the official SDKs use: the gateway's core, in the process of its caller.

`hedgerow.transports.httpx2` is for openai >= 3, anthropic >= 1 and mistralai >= 3, `hedgerow.transports.httpx` for what
came before and for the SDKs of Groq and LlamaIndex. They speak HTTP/1.1 to their targets, and need a loop of asyncio.
"""

import sys
from importlib.util import find_spec

from hedgerow.extras import install


def _found(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        return False


_NEEDED = ("httptools", "brotli", *(("backports.zstd",) if sys.version_info < (3, 14) else ()))
"""Some are imported when an answer needs them, which is too late to hear of it."""

if missing := [name for name in _NEEDED if not _found(name)]:
    raise ImportError(f"hedgerow's transports need {' and '.join(missing)}: {install('transports')}")
