"""The protocols a lab speaks, one module each: how requests are read and how answers look. Pacing is in `answers`."""

from __future__ import annotations

from hedgerow.lab.endpoint import Endpoint
from hedgerow.lab.protocols import gemini
from hedgerow.lab.protocols.anthropic_messages import AnthropicCountTokens, AnthropicMessages
from hedgerow.lab.protocols.openai_chat import OpenAIChat
from hedgerow.lab.protocols.openai_completions import OpenAICompletions
from hedgerow.lab.protocols.openai_embeddings import OpenAIEmbeddings
from hedgerow.lab.protocols.openai_moderations import OpenAIModerations
from hedgerow.lab.protocols.openai_responses import OpenAIResponses
from hedgerow.lab.protocols.rerank import Rerank
from hedgerow.lab.protocols.translate import Translate

_GEMINI = gemini.Gemini()
_BY_PATH: dict[bytes, Endpoint] = {
    b"/v1/chat/completions": OpenAIChat(),
    b"/v1/completions": OpenAICompletions(),
    b"/v1/responses": OpenAIResponses(),
    b"/v1/embeddings": OpenAIEmbeddings(),
    b"/v1/moderations": OpenAIModerations(),
    b"/v1/rerank": Rerank(),
    b"/v1/translate": Translate(),
    b"/v1/messages": AnthropicMessages(),
    b"/v1/messages/count_tokens": AnthropicCountTokens(),
}


def endpoint_at(path: bytes) -> Endpoint | None:
    """What answers POST requests to this path; None: nothing of its own."""
    known = _BY_PATH.get(path)
    if known is None and gemini.PATH.fullmatch(path.decode("latin-1")):
        return _GEMINI
    return known
