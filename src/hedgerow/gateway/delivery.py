"""How the answer of a committed stream reaches the client: as it comes, or as one document at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hedgerow.events import Failure, FailureClass
from hedgerow.gateway import answers
from hedgerow.gateway.headers import declared_length, to_client
from hedgerow.wire.failures import as_json
from hedgerow.wire.sse import keep
from hedgerow.wire.usage_filter import UsageFilter

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.landing import Landing
    from hedgerow.http.exchange import Exchange


class Delivery(Protocol):
    """The way of one committed stream to its client."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the winner's pieces."""

    def end(self, flight: Landing, winner: Attempt) -> Failure | None:
        """The stream is whole."""

    def break_off(self, flight: Landing, winner: Attempt, failure: Failure) -> int | None:
        """The stream cannot be completed. Returns the status of the answer."""


class Forwarding:
    """Hands the winner's bytes on as they come. With `filtered`, without the usage that the client did not ask for."""

    __slots__ = ("_exchange", "_filter")

    def __init__(self, flight: Landing, exchange: Exchange, winner: Attempt, *, filtered: bool) -> None:
        self._exchange = exchange
        self._filter = UsageFilter() if filtered else None
        fields = to_client(winner.headers) + answers.marks(flight, winner)
        if flight.protocol.accepts_head:
            exchange.start(winner.status or 200, declared_length(winner.headers), fields)
        else:
            exchange.start(200, (), fields + answers.unbuffered(winner.headers))

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the winner's pieces."""
        return self._exchange.write if self._filter is None else self._write

    def end(self, flight: Landing, winner: Attempt) -> Failure | None:
        """The stream is whole."""
        self._flush()
        self._exchange.end()
        return None

    def break_off(self, flight: Landing, winner: Attempt, failure: Failure) -> int | None:
        """The stream cannot be completed: say so in it, then let it look broken. Returns the status of the answer."""
        self._flush()
        frame = flight.protocol.error_frame(failure) if failure.body is None else b""
        if frame:  # the upstream told no error of its own
            self._exchange.write(frame if winner.between_events() else b"\n\n" + frame)
        self._exchange.abort()
        return winner.status

    def _write(self, data: bytes) -> None:
        if self._filter is not None and (out := self._filter.feed(data)):
            self._exchange.write(out)

    def _flush(self) -> None:
        if self._filter is not None and (rest := self._filter.rest()):
            self._exchange.write(rest)


class Collecting:
    """Puts the winner's stream together to the one document that the client wants."""

    __slots__ = ("_exchange", "_left", "_overflow", "_pieces")

    def __init__(self, exchange: Exchange, limit: int, overflow: Callable[[Failure], None]) -> None:
        """`overflow` is called when more than `limit` bytes have come."""
        self._exchange = exchange
        self._left = limit
        self._overflow = overflow
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep a piece."""
        self._left -= len(data)
        if self._left >= 0:
            keep(self._pieces, data)
        else:
            self._pieces.clear()
            self._overflow(Failure(FailureClass.PROTOCOL, "the answer is longer than limits.answer_bytes"))

    def end(self, flight: Landing, winner: Attempt) -> Failure | None:
        """The stream is whole: give the client its document. A failure where it cannot be put together."""
        try:
            document = flight.protocol.as_document(b"".join(self._pieces))
        except ValueError as error:
            return Failure(FailureClass.PROTOCOL, str(error))
        headers = as_json(winner.headers)
        self._exchange.respond(200, (), document, to_client(headers) + answers.marks(flight, winner))
        return None

    def break_off(self, flight: Landing, winner: Attempt, failure: Failure) -> int | None:
        """Nothing has reached the client, so it can still be told properly. Returns the status of the answer."""
        answer = answers.failure_answer(flight, winner, failure)
        self._exchange.respond(answer.status, (), answer.body, answer.fields)
        return answer.status


Hear = Callable[["Landing", "Attempt", bytes], None]
"""Told of a body. It must hold neither of the other two: they hold it."""


class Overheard:
    """Delivers a stream, and when it is whole lets it be looked at."""

    __slots__ = ("_delivery", "_hear", "_pieces", "_room", "_write")

    def __init__(self, delivery: Delivery, hear: Hear, room: int) -> None:
        """`hear` gets the whole body, but not one of more than `room` bytes."""
        self._delivery = delivery
        self._hear = hear
        self._room = room
        self._pieces: list[bytes] = []
        self._write = delivery.write

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the winner's pieces."""
        return self._keep

    def _keep(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room >= 0:
            keep(self._pieces, data)
        else:
            self._pieces.clear()
        self._write(data)

    def end(self, flight: Landing, winner: Attempt) -> Failure | None:
        """The stream is whole."""
        failure = self._delivery.end(flight, winner)
        if failure is None and self._pieces:
            self._hear(flight, winner, b"".join(self._pieces))
        return failure

    def break_off(self, flight: Landing, winner: Attempt, failure: Failure) -> int | None:
        """The stream cannot be completed."""
        return self._delivery.break_off(flight, winner, failure)
