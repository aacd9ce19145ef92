"""What the endpoints of OpenAI's API share: how an error looks, and how a stream is asked to report usage."""

from __future__ import annotations

from hedgerow.events import Failure
from hedgerow.wire import errors
from hedgerow.wire.base import Facts, Family, Protocol
from hedgerow.wire.body import Value, asking_for_usage, edit, quoted, replace_model, with_member


class OpenAIProtocol(Protocol):
    """A protocol of OpenAI's family."""

    family = Family.OPENAI

    def error_body(
        self, status: int, message: str, *, kind: str, code: str | None = None, param: str | None = None
    ) -> bytes:
        """OpenAI's error JSON."""
        return errors.openai_body(message, kind=kind, code=code, param=param)

    def error_frame(self, failure: Failure) -> bytes:
        """OpenAI's in-stream error."""
        return errors.openai_frame(failure)


class CompletionProtocol(OpenAIProtocol):
    """Completions, of chats or of texts: their streams report usage if `stream_options` ask for it."""

    asks_for_usage = True
    converts = True

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body with `model`, `stream` and `stream_options` edited in place; `facts` must be those of this body."""
        usage = usage and not (facts.stream and facts.wants_usage)
        stream = stream and not facts.stream
        renamed = model is not None and model != facts.model
        if not stream and not (usage and facts.has_options):
            if renamed and model is not None:
                body = replace_model(body, model, unique=True)
            return with_member(body, _ASKING) if usage else body
        members: dict[str, Value] = {}
        if renamed:
            members["model"] = quoted(model)
        if stream:
            members["stream"] = b"true"
        if usage:
            members["stream_options"] = asking_for_usage
        return edit(body, members, unique=True)


_ASKING = b'"stream_options":' + asking_for_usage(None)


def reports_usage(stream: bool, options: object) -> bool:
    """Whether an answer reports usage by itself: one that is no stream always does, a stream if `options` say so."""
    return not stream or (isinstance(options, dict) and options.get("include_usage") is True)
