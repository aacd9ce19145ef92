"""Which requests may be hedged, whatever base URL the client was given."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from hedgerow.wire import lookup

_ENDPOINT = re.compile(
    rb"/(chat/completions|responses|embeddings|rerank"
    rb"|(?<!/fim/)(?<!/agents/)completions"  # Mistral has others that are called so
    rb"|(?<!/chat/)moderations"
    rb"|(?<=/v1/)messages)$"  # and OpenAI's threads have messages
)
_KEPT = b"/hedgerow/requests/"
_GEMINI = re.compile(rb"/models/[^/]+:\w+$")


def kept_path(path: bytes) -> bytes | None:
    """The path, as the gateway knows it, of a GET for what losers have said (`x-hedgerow-alternatives`)."""
    at = path.find(_KEPT)
    return None if at < 0 else b"/v1" + path[at:]


@lru_cache(1024)
def hedged_path(path: bytes, listed: Collection[bytes] = ()) -> bytes | None:
    """The path, as the gateway knows it, of a POST that may be hedged; None of one that is to go as it is.

    `listed`: further paths that may be.
    """
    bare, mark, query = path.partition(b"?")
    if bare in listed:
        return path
    if (found := _ENDPOINT.search(bare)) is not None:
        return b"/v1" + found[0] + mark + query
    if (found := _GEMINI.search(bare)) is not None and lookup(b"POST", b"/v1beta" + found[0]).hedgeable:
        return b"/v1beta" + found[0] + mark + query
    return None
