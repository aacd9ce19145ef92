"""What comes after the win where losers run on for a while: what they say is kept beside the answer, or only counted.

A request of a route that cancels its losers has none of this.
"""

from __future__ import annotations

import hashlib
import sys
from asyncio import TimerHandle
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from hedgerow.events import Outcome, Usage
from hedgerow.gateway.keeping import Content, Keeping, Record
from hedgerow.gateway.trial import answer_in
from hedgerow.policy.alternatives import NO_DOCUMENT, KeepSettings, Saying
from hedgerow.policy.billing import cost
from hedgerow.policy.price import Price
from hedgerow.wire.request import forbids_storing
from hedgerow.wire.whole import is_event_stream

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.flight import Flight
    from hedgerow.gateway.landing import Landing
    from hedgerow.gateway.sharing import Shared

NO_STORE = "cache-control: no-store"
"""The trait of a request whose client forbids to store anything of it."""
_LOOK = 4096
"""Bytes of a stream that may come before it is looked again at what it costs."""
_IGNORE: Callable[[bytes], object] = len


def aftermath_of(flight: Flight, target: bytes, body: bytes) -> Aftermath | None:
    """What is to come after the win; None where losers do not run on, or nothing of the request may be kept."""
    settings = flight.route.keep
    if settings is None or not flight.protocol.hedgeable:
        return None
    if settings.drains:
        return Aftermath(flight, settings, None)
    if NO_STORE in flight.ask.traits or forbids_storing(body):
        return None
    digest = content_of(flight.protocol.name, flight.route.name, target, body) if settings.by_content else None
    return Aftermath(flight, settings, None if digest is None else (flight.ask.tenant, digest))


def content_of(protocol: str, route: str, target: bytes, body: bytes) -> bytes:
    """A digest, the same for requests that ask the same: order of keys, blanks and streaming make no difference."""
    try:
        asked = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        pass
    else:
        for key in ("stream", "stream_options"):
            asked.pop(key, None)
        body = msgspec.json.encode(asked, order="sorted")
    return hashlib.sha256(b"\0".join((protocol.encode(), route.encode(), target, body))).digest()


def say_it_won(flight: Landing, winner: Attempt, body: bytes) -> None:
    """A winner's stream is whole."""
    if flight.aftermath is not None:
        flight.aftermath.say(winner, body, winner.usage(), won=True)


class Straggler:
    """A loser that runs on. It stands where a `Trial` would, and hears what becomes of its attempt."""

    __slots__ = ("_aftermath", "_attempt", "_done", "_looked", "_timer", "closed")

    def __init__(self, aftermath: Aftermath, attempt: Attempt, timer: TimerHandle) -> None:
        self._aftermath = aftermath
        self._attempt = attempt
        self._timer = timer
        self._looked = 0
        self._done = False
        self.closed: bool | None = None

    def begin(self) -> None:
        """A first token is here, or the whole of an answer that is not streamed."""
        if self._attempt.whole is not None:
            self._keep(self._attempt.whole)
            return
        if self._aftermath.drains:
            self._attempt.held_limit = sys.maxsize
        self.feed(b"")

    def feed(self, data: bytes) -> None:
        """Another piece of the stream."""
        attempt, scanner = self._attempt, self._attempt.scanner
        if scanner is None or self._done:
            return
        if self._aftermath.drains:
            attempt.held.clear()
        if scanner.watch(data):
            self.over(clean=True)
            if attempt.call is not None:
                attempt.call.deliver_to(_IGNORE)
                self._aftermath.flight.linger(attempt.call)
        elif attempt.received - self._looked > _LOOK:
            self._looked = attempt.received
            if not self._aftermath.affords(attempt):
                self.break_off()

    def over(self, *, clean: bool) -> None:
        """The stream ended, or broke off."""
        attempt, scanner = self._attempt, self._attempt.scanner
        if self._done or scanner is None:
            return
        failure = scanner.ending(clean).failure
        if failure is None:
            self._keep(b"".join(attempt.held))
        else:
            self._aftermath.flight.lost(attempt, failure)

    def too_long(self) -> None:
        """More has come than may be held."""
        self.break_off()

    def break_off(self) -> None:
        """It takes too long or costs too much."""
        if not self._done:
            self._attempt.cancel()
            self._aftermath.flight.speak(self._attempt, Outcome.SUPERSEDED, None)

    def resume(self) -> None:
        """It has lost: it never has to."""

    def give_up(self) -> None:
        """The attempt is over."""
        self._done = True
        self._timer.cancel()

    def _keep(self, body: bytes) -> None:
        attempt, flight = self._attempt, self._aftermath.flight
        usage = None if attempt.scanner is None else attempt.scanner.ending(True).usage
        flight.well(attempt)
        self._aftermath.say(attempt, body, usage)
        flight.speak(attempt, Outcome.KEPT, None, usage)


class Aftermath:
    """Of one request: whom it lets run on, and what is kept of them and of the winner."""

    __slots__ = ("_attempts", "_content", "_earlier", "_keeping", "_record", "_running", "_settings", "flight")

    def __init__(self, flight: Flight, settings: KeepSettings, content: Content | None) -> None:
        self.flight = flight
        self._settings = settings
        self._content = content
        self._keeping: Keeping = flight.keeping
        self._record: Record | None = None
        self._running: dict[Attempt, Straggler] = {}
        self._attempts = 0
        self._earlier: list[Saying] = []
        if content is not None and self._keeping.shared is not None and not self._keeping.has(content):
            self._keeping.shared.run(self._ask_others(self._keeping.shared, content))

    @property
    def drains(self) -> bool:
        """Whether losers are only read to their ends."""
        return self._settings.drains

    @property
    def keeps(self) -> bool:
        """Whether something is or will be kept of the request."""
        return self._record is not None

    def takes(self, loser: Attempt) -> bool:
        """Whether this loser runs on."""
        if loser.rejection is not None or not self.affords(loser):
            return False
        straggler = Straggler(self, loser, self.flight.later(self._settings.time, lambda: straggler.break_off()))
        self._running[loser] = straggler
        self._keeping.stragglers.add(straggler)
        return True

    def affords(self, attempt: Attempt) -> bool:
        """Whether it may go on, by what it has come to: of a whole answer that is what is expected of it."""
        settings, ask = self._settings, self.flight.ask
        if settings.nanousd is None and settings.tokens is None:
            return True
        usage = attempt.usage()
        made = None if usage is None else usage.output_tokens
        if made is None:
            made = 0 if ask.stream else ask.expected_output
        read = attempt.input_tokens if usage is None or usage.input_tokens is None else usage.input_tokens
        price = self._price(attempt)
        return settings.allows(0 if price is None else price.cost(read, made), read + made)

    def won(self) -> None:
        """The winner is about to be delivered."""
        flight, keeping = self.flight, self._keeping
        if not self.drains and (self._running or self._earlier or keeping.has(self._content)):
            whose = flight.request_id, flight.route.name, flight.ask.tenant
            self._record = Record(*whose, self._content, 1 + len(self._running), self._settings.ttl)
            keeping.open(self._record, self._earlier)
        for loser, straggler in tuple(self._running.items()):  # now that what they say has a place
            loser.run_on(straggler)

    def say(self, attempt: Attempt, body: bytes, usage: Usage | None, *, won: bool = False) -> None:
        """An attempt's answer is whole."""
        if self._record is None:
            return
        flight, now = self.flight, self.flight.time()
        first = attempt.first_token_at if flight.ask.stream else None
        saying = Saying(
            request_id=flight.request_id,
            attempt=attempt.index,
            target=attempt.target.name,
            role=attempt.role,
            won=won,
            first_token=None if first is None else first - attempt.launched_at,
            took=now - attempt.launched_at,
            at=now,
            answer=answer_in(flight, body),
            document=self._document(body),
            usage=usage,
            nanousd=self._cost(attempt, usage),
        )
        self._keeping.add(self._record, saying)

    def over(self, attempt: Attempt) -> None:
        """This attempt has ended, however it did."""
        straggler = self._running.pop(attempt, None)
        if straggler is None:
            return
        self._keeping.stragglers.discard(straggler)
        if self._record is not None:
            self._keeping.passed(self._record)
        if self._attempts and not self._running:
            self.flight.settle(self._attempts)

    def landed(self, attempts: int) -> bool:
        """The request is over for its client after so many attempts; whether some of them run on."""
        if self._record is not None:
            self._keeping.passed(self._record)
        self._attempts = attempts
        return bool(self._running)

    async def _ask_others(self, shared: Shared, content: Content) -> None:
        self._earlier = await shared.asked_before(content)

    def _document(self, body: bytes) -> msgspec.Raw:
        try:
            if is_event_stream(body):
                body = self.flight.protocol.as_document(body)
            msgspec.json.decode(body)
        except (ValueError, RecursionError):
            return NO_DOCUMENT
        return msgspec.Raw(body)

    def _cost(self, attempt: Attempt, usage: Usage | None) -> int | None:
        price = self._price(attempt)
        if price is None or usage is None:
            return None
        return cost(usage, price, None if attempt.scanner is None else attempt.scanner.words().service_tier)

    def _price(self, attempt: Attempt) -> Price | None:
        flight, target = self.flight, attempt.target
        return flight.route.hedger.terms(target.name).price(flight.question.model(target))
