"""What was asked and answered, for a ledger that keeps it (`server.ledger.content`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from hedgerow.events import Failure
from hedgerow.gateway.aftermath import NO_STORE
from hedgerow.gateway.delivery import Delivery
from hedgerow.ledger.book import ContentBook
from hedgerow.ledger.record import PROMPT, Part
from hedgerow.wire.base import Protocol
from hedgerow.wire.request import forbids_storing
from hedgerow.wire.sse import keep
from hedgerow.wire.whole import is_event_stream

log = logging.getLogger("hedgerow.gateway")

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.landing import Landing

STREAMED: Final = 16
"""How many times longer than what is kept a stream may be that is put together: tokens on the wire have much around."""


def among(listeners: Iterable[object]) -> ContentBook | None:
    """What keeps prompts and answers, of those who listen."""
    return next((listener for listener in listeners if isinstance(listener, ContentBook)), None)


def recording_of(book: ContentBook, flight: Landing, body: bytes) -> Recording | None:
    """What records a request, whose prompt is told at once; None where its client forbids to store anything."""
    if not flight.protocol.hedgeable or NO_STORE in flight.ask.traits or forbids_storing(body):
        return None
    book.tell(flight.request_id, PROMPT, Part.PROMPT, body, len(body))
    return Recording(book, flight.request_id, flight.protocol)


class Recording:
    """Of one request."""

    __slots__ = ("_book", "_pieces", "_protocol", "_request_id", "_room", "_size")

    def __init__(self, book: ContentBook, request_id: str, protocol: Protocol) -> None:
        self._book = book
        self._request_id = request_id
        self._protocol = protocol
        self._pieces: list[bytes] = []  # of the stream that its client gets
        self._room = 0
        self._size = 0

    def of(self, delivery: Delivery) -> Delivery:
        """The same delivery, with what goes through it kept."""
        self._pieces, self._size = [], 0
        self._room = STREAMED * self._book.limit
        return Recorded(delivery, self._heard)

    def _heard(self, data: bytes) -> None:
        self._size += len(data)
        if (room := self._room) > 0:
            self._room = room - len(data)
            keep(self._pieces, data if len(data) <= room else data[:room])

    def unused(self, attempt: Attempt) -> None:
        """An attempt has ended whose answer nobody gets: what is there of it is kept."""
        body = b"".join(attempt.held) if attempt.whole is None else attempt.whole
        if body and not attempt.committed:
            self._tell(attempt.index, Part.UNUSED, body, len(body))

    def answered(self, winner: Attempt) -> None:
        """The request is over for its client, who got this attempt's answer, or some of it."""
        body, size = (b"".join(self._pieces), self._size) if winner.whole is None else (winner.whole, len(winner.whole))
        self._pieces = []
        if body:
            self._tell(winner.index, Part.ANSWER, body, size)

    def _tell(self, attempt: int, part: Part, body: bytes, size: int) -> None:
        try:
            if is_event_stream(body):
                words = self._words(body)
                body, size = words, len(words) if size == len(body) else size
            self._book.tell(self._request_id, attempt, part, body, size)
        except Exception as error:  # no traceback: it may quote what was said
            name = type(error).__name__
            log.error("request %s: hedgerow itself cannot keep what was said (%s)", self._request_id, name)

    def _words(self, stream: bytes) -> bytes:
        """The document that a stream amounts to; of one that has not come to its end, what it says so far."""
        try:
            return self._protocol.as_document(stream)
        except (ValueError, RecursionError):
            return self._protocol.answer_so_far(stream).text.encode("utf-8", "replace") or stream


class Recorded:
    """Delivers a stream, and has every piece heard."""

    __slots__ = ("_delivery", "_hear", "_write")

    def __init__(self, delivery: Delivery, hear: Callable[[bytes], None]) -> None:
        self._delivery = delivery
        self._hear = hear
        self._write = delivery.write

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the winner's pieces."""
        return self._pass_on

    def _pass_on(self, data: bytes) -> None:
        self._hear(data)
        self._write(data)

    def end(self, flight: Landing, winner: Attempt) -> Failure | None:
        """The stream is whole."""
        return self._delivery.end(flight, winner)

    def break_off(self, flight: Landing, winner: Attempt, failure: Failure) -> int | None:
        """The stream cannot be completed."""
        return self._delivery.break_off(flight, winner, failure)
