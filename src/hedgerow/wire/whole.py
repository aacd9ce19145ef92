"""What every scanner of a whole JSON document shares: nothing is decided before its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import Accepted, Ending, Verdict
from hedgerow.wire.sse import BOM, without_bom
from hedgerow.wire.words import NO_WORDS, Words, tier_at_end

_EVENT_STREAM = (b"data:", b"event:", b"id:", b"retry:", b":")


class WholeBody(ABC):
    """A scanner of one whole document; a protocol fills in what makes it an adequate answer."""

    __slots__ = ("document", "headers", "usage")
    sign: ClassVar[None] = None

    def __init__(self, headers: Headers) -> None:
        self.headers = headers
        self.usage: Usage | None = None
        """What the document reports; `judge` notes it."""
        self.document = b""

    @abstractmethod
    def judge(self, body: bytes) -> Verdict:
        """What a complete 2xx body means."""

    def collected(self, stream: bytes) -> bytes | None:
        """The document that an event stream amounts to, None where it is not whole or not clear."""
        return None

    def feed(self, data: bytes) -> Verdict | None:
        """Nothing is decided before the end."""
        return None

    def eof(self, held: bytes) -> Verdict:
        """Whether this is an adequate answer; a stream that was not asked for is read as the document it stands for."""
        if held[:1] == b"{":  # as nearly all are
            self.document = held
            return self.judge(held)
        self.document = held = without_bom(held)
        if is_event_stream(held) and (document := self.collected(held)) is not None:
            self.document = document
            verdict = self.judge(document)
            return Accepted(document) if isinstance(verdict, Accepted) else verdict
        return self.judge(held)

    def watch(self, data: bytes) -> bool:
        """The answer was whole when it was committed."""
        return True

    def ending(self, clean: bool) -> Ending:
        """The answer was whole when it was committed."""
        return Ending(None, self.usage)

    def words(self) -> Words:
        """None that are known."""
        return NO_WORDS

    def tier(self) -> str | None:
        """The one that the document names last."""
        return tier_at_end(self.document)


def is_event_stream(body: bytes) -> bool:
    """Whether this starts as a stream of server-sent events does, whatever its content type says."""
    return body[:256].removeprefix(BOM).lstrip(b" \t\r\n").startswith(_EVENT_STREAM)


def not_json(body: bytes) -> Failure:
    """The failure of a body that does not start as JSON does."""
    start = body[:64].removeprefix(BOM).lstrip()[:1]
    why = {b"<": "an HTML page instead of JSON", b"": "the answer has no body"}.get(start, "the body is not JSON")
    return Failure(FailureClass.PROTOCOL, why)
