"""Several clients that asked the same with one idempotency key, as one exchange: what it is told, all of them hear."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from hedgerow.events import Headers
from hedgerow.http.exchange import Exchange, Listener
from hedgerow.unshown import Unshown
from hedgerow.wire.sse import keep

if TYPE_CHECKING:
    from hedgerow.gateway.once import Once

_READ: Headers = []
JOINED = b"x-hedgerow-replayed: joined\r\n"


class Told(Unshown, msgspec.Struct, gc=False):
    """An answer as far as it has come. `streamed`: in pieces, and not with one `respond`."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    fields: bytes
    streamed: bool
    pieces: list[bytes]

    def give(self, exchange: Exchange, mark: bytes) -> None:
        """Answer with what has come; one that is streamed goes on, or is ended, by whoever called."""
        body = b"".join(self.pieces)
        if self.streamed:
            exchange.start(self.status, self.headers, self.fields + mark)
            if body:
                exchange.write(body)
        else:
            exchange.respond(self.status, self.headers, body, self.fields + mark)


class Seat:
    """One of the clients; its connection's `Listener`."""

    __slots__ = ("_party", "exchange", "mark", "paused")

    def __init__(self, party: Party, exchange: Exchange, mark: bytes) -> None:
        self._party = party
        self.exchange = exchange
        self.mark = mark
        self.paused = False
        exchange.listener = self

    def on_disconnect(self) -> None:
        """The client has gone."""
        self._party.left(self)

    def on_pause(self) -> None:
        """The client reads too slowly."""
        self.paused = True
        self._party.pace()

    def on_resume(self) -> None:
        """The client has caught up."""
        self.paused = False
        self._party.pace()


class Party:
    """Stands in the place of its first client's exchange.

    It goes on while anybody waits, and for `linger` seconds after the last has left: who asks again then joins. What
    has been said is kept for those who join late, for as long as `Once` has room for it.
    """

    __slots__ = (
        "_later",
        "_linger",
        "_once",
        "_paused",
        "_seats",
        "_timer",
        "body",
        "digest",
        "headers",
        "joinable",
        "kept",
        "key",
        "listener",
        "method",
        "peer",
        "request_id",
        "size",
        "started",
        "target",
        "told",
        "window",
    )

    def __init__(
        self,
        once: Once,
        key: object,
        digest: bytes,
        first: Exchange,
        *,
        linger: float,
        window: float,
        later: Callable[[float, Callable[[], None]], TimerHandle],
    ) -> None:
        self._once = once
        self.key = key
        self.digest = digest
        """Of the body: the same key with another one is a mistake."""
        self._linger = linger
        self.window = window
        """Seconds for which the answer is kept when it is whole; 0 keeps none."""
        self._later = later
        self._timer: TimerHandle | None = None
        self.method, self.target, self.body, self.peer = first.method, first.target, first.body, first.peer
        self.headers = _READ
        self.listener: Listener | None = None
        self.started = False
        self.request_id = ""
        self.told: Told | None = None
        self.size = 0
        """Bytes of the answer that are kept."""
        self.joinable = True
        """All that has been said is kept."""
        self._paused = False
        first.body = b""  # the party has it
        self._seats = [Seat(self, first, b"")]

    def join(self, exchange: Exchange) -> None:
        """One more client: it hears what the others have heard, then what they hear."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        exchange.body = b""
        if self.told is not None:
            self.told.give(exchange, JOINED)
        self._seats.append(Seat(self, exchange, JOINED))
        self.pace()

    # The exchange of whoever answers.

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        """The whole answer, to all."""
        self.started = True
        self.told = Told(status, headers, fields, False, [])
        self._record(body)
        for seat in tuple(self._seats):
            seat.exchange.respond(status, headers, body, fields + seat.mark)
        self._over(whole=True)

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        """The start of a streamed answer, to all."""
        self.started = True
        self.told = Told(status, headers, fields, True, [])
        for seat in tuple(self._seats):
            seat.exchange.start(status, headers, fields + seat.mark)

    def write(self, data: bytes) -> None:
        """A piece of it, to all."""
        self._record(data)
        for seat in tuple(self._seats):
            seat.exchange.write(data)

    def end(self) -> None:
        """Its end, to all."""
        for seat in tuple(self._seats):
            seat.exchange.end()
        self._over(whole=True)

    def abort(self) -> None:
        """It breaks off, for all."""
        for seat in tuple(self._seats):
            seat.exchange.abort()
        self._over(whole=False)

    # What its clients do.

    def left(self, seat: Seat) -> None:
        """A client has gone."""
        self._seats.remove(seat)
        if self._seats:
            self.pace()
        elif self._linger > 0:
            self.pace()
            self._timer = self._later(self._linger, self._all_gone)
        else:
            self._all_gone()

    def pace(self) -> None:
        """Read on while anybody does: what the others have not read is kept anyway; once it is not, wait for all."""
        slow = [seat.paused for seat in self._seats]
        paused = any(slow) if not self.joinable else bool(slow) and all(slow)
        if paused != self._paused and self.listener is not None:
            self._paused = paused
            if paused:
                self.listener.on_pause()
            else:
                self.listener.on_resume()

    def give_up(self) -> None:
        """Nobody will answer."""
        self._over(whole=False)

    def _all_gone(self) -> None:
        self._timer = None
        listener = self.listener
        self._over(whole=False)
        if listener is not None:
            listener.on_disconnect()

    def _record(self, data: bytes) -> None:
        told = self.told
        if told is None or not self.joinable:
            return
        if self._once.has_room(self, len(data)):
            keep(told.pieces, data)
            return
        self.joinable = False
        told.pieces.clear()
        self.pace()

    def _over(self, *, whole: bool) -> None:
        self.listener = None
        self._seats = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._once.over(self, whole=whole)
        self.joinable = False
