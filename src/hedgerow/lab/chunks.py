"""What an answer looks like, whatever the protocol: the pacing (`answers`) asks for pieces and knows no JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

Fields = list[tuple[bytes, bytes]]

JSON: Fields = [(b"content-type", b"application/json")]
EVENT_STREAM: Fields = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What is known of an answer before its first token."""

    answer_id: str
    """E.g. "chatcmpl-NAME-7"."""
    model: str
    speaker: str
    """The provider's name; the answer's first word, so that a reader sees who is speaking."""
    input_tokens: int
    cached_tokens: int = 0
    """Those of the input that come from a cache."""
    tokens: int
    """How many there will be if nothing goes wrong."""
    cut_short: bool
    """The client's token limit ends the answer."""


class Errors(Protocol):
    """How a family of protocols words its errors."""

    def body(
        self,
        status: int,
        *,
        code: str | None = None,
        message: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> bytes:
        """The usual error of this status. `code` and `message` replace the usual ones; `retry_after` in seconds."""


class Body(ABC):
    """An answer that comes in one piece."""

    __slots__ = ()

    @abstractmethod
    def whole(self) -> bytes:
        """The body of an answer that is not streamed."""


class Chunks(Body):
    """An answer that can also be streamed: `opening`, a `token` at a time, `tail`."""

    __slots__ = ()

    stream_fields = EVENT_STREAM

    @abstractmethod
    def opening(self) -> bytes:
        """What comes at once with the headers: bytes, but no content yet."""

    @abstractmethod
    def token(self, token: int) -> bytes:
        """The bytes with token `token` (from 0), always asked for in order."""

    @abstractmethod
    def tail(self) -> bytes:
        """What follows the last token, the protocol's end marker included."""

    @abstractmethod
    def error_frame(self, status: int, *, code: str | None, after: int) -> bytes:
        """An error inside a 200 stream, in place of token `after`."""
