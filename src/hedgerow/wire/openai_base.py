"""What the endpoints of OpenAI's API share: how an error looks."""

from __future__ import annotations

from hedgerow.events import Failure
from hedgerow.wire import errors
from hedgerow.wire.base import Family, Protocol


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
