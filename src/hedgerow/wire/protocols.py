"""All protocols, and which one is spoken where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hedgerow.wire.anthropic_messages import AnthropicMessages
from hedgerow.wire.base import Family, Protocol
from hedgerow.wire.gemini import Gemini
from hedgerow.wire.http_json import JsonEndpoint
from hedgerow.wire.openai_chat import OpenAIChat
from hedgerow.wire.openai_completions import OpenAICompletions
from hedgerow.wire.openai_embeddings import OpenAIEmbeddings
from hedgerow.wire.openai_responses import OpenAIResponses
from hedgerow.wire.passthrough import Passthrough

_PASSTHROUGH: Protocol = Passthrough()
_PASSTHROUGH_ANTHROPIC: Protocol = Passthrough(Family.ANTHROPIC)
_PASSTHROUGH_GEMINI: Protocol = Passthrough(Family.GEMINI)
_GEMINI: Protocol = Gemini()
JSON_ENDPOINT: Final[Protocol] = JsonEndpoint()
"""For the paths that routes list themselves."""
_BRIEF: Protocol = JsonEndpoint(Family.OPENAI)
"""For endpoints of small, whole answers that nothing changes."""
_POSTED: dict[bytes, Protocol] = {
    b"/v1/chat/completions": OpenAIChat(),
    b"/v1/completions": OpenAICompletions(),
    b"/v1/responses": OpenAIResponses(),
    b"/v1/embeddings": OpenAIEmbeddings(),
    b"/v1/moderations": _BRIEF,
    b"/v1/rerank": _BRIEF,
    b"/v1/messages": AnthropicMessages(),
}

PROTOCOLS: Final[Sequence[Protocol]] = (
    *_POSTED.values(),
    _GEMINI,
    _PASSTHROUGH,
    _PASSTHROUGH_ANTHROPIC,
    _PASSTHROUGH_GEMINI,
)
"""Whatever `lookup` may find."""


def lookup(method: bytes, target: bytes, *, anthropic: bool = False) -> Protocol:
    """The protocol spoken at `target` (a query is ignored); whatever is not understood is passed through.

    `anthropic`: the client says that it uses Anthropic's API, which has some paths in common with OpenAI's.
    """
    posted = method == b"POST"
    if posted and (known := _POSTED.get(target)) is not None:  # nearly always
        return known
    path = target.partition(b"?")[0]
    gemini = path.startswith(_GEMINIS)
    if posted:
        if (known := _POSTED.get(path)) is not None:
            return known
        if path.endswith(_GENERATE) and path.startswith(b"/") and not path.startswith(TWICE):
            return _GEMINI
        gemini = gemini or path.startswith(_ACTING)
    if gemini:
        return _PASSTHROUGH_GEMINI
    if anthropic or path.startswith(b"/v1/messages") or path == b"/v1/complete":
        return _PASSTHROUGH_ANTHROPIC
    return _PASSTHROUGH


_VERSIONS = (b"/v1", b"/v1beta", b"/v1alpha")
TWICE: Final = tuple(b"%b%b/" % (first, second) for first in _VERSIONS for second in _VERSIONS)
"""How a path begins where client and base URL both say the version of the API; nothing is served there."""
_GENERATE = (b":generateContent", b":streamGenerateContent")
_GEMINIS = (b"/v1beta/", b"/v1alpha/")
_ACTING = (b"/v1/models/", b"/v1/tunedModels/")
"""What is posted there, such as `:embedContent`, is Gemini's; to read and to delete there is OpenAI's too."""
