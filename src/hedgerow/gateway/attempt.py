"""One attempt: the sink of one upstream call, and what is held back until its first token."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from hedgerow.errors import ConnectFailed, PoolExhausted, UpstreamClosed, UpstreamError
from hedgerow.events import Failure, FailureClass, Headers, Role, Usage
from hedgerow.gateway.forwarder import Forwarder
from hedgerow.gateway.trial import Trial
from hedgerow.http.upstream import Call
from hedgerow.policy.gates.gate import Rejection
from hedgerow.policy.health import Probe
from hedgerow.wire import encoding
from hedgerow.wire.base import Accepted, Scanner, Verdict
from hedgerow.wire.failures import as_event_stream, as_json
from hedgerow.wire.sse import keep
from hedgerow.wire.whole import is_event_stream

if TYPE_CHECKING:
    from hedgerow.gateway.aftermath import Straggler
    from hedgerow.gateway.flight import Flight
    from hedgerow.gateway.target import Target


_IGNORE: Callable[[bytes], object] = len
"""Takes what follows the end marker: it is nobody's business."""
_NONE: Headers = []
ERROR_BODY_LIMIT = 5.0
"""Seconds from an error's head to the end of its body; then its status says enough, and the next target is asked."""


class Attempt(Forwarder):
    """Feeds the scanner, holds bytes until commit, then hands every piece on."""

    __slots__ = (
        "_decoder",
        "_error_limit",
        "_feed",
        "_flight",
        "call",
        "committed",
        "done",
        "ended",
        "first_token_at",
        "headers",
        "headers_at",
        "held",
        "held_limit",
        "index",
        "launched_at",
        "probe",
        "rejection",
        "role",
        "scanner",
        "status",
        "target",
        "trial",
        "whole",
    )

    def __init__(self, flight: Flight, index: int, target: Target, role: Role, now: float, held_limit: int) -> None:
        self._time = flight.time
        self.received = 0
        self._flight = flight
        self.held_limit = held_limit
        self._feed: Callable[[bytes], Verdict | None] | None = None
        self._error_limit: TimerHandle | None = None
        self._decoder: encoding.Decoder | None = None
        self.index = index
        self.target = target
        self.role = role
        self.launched_at = self.last_data_at = now
        self.probe: Probe | None = None
        self.headers_at: float | None = None
        self.first_token_at: float | None = None
        self.call: Call | None = None
        self.status: int | None = None
        self.headers = _NONE
        self.scanner: Scanner | None = None
        self.held: list[bytes] = []
        self.committed = False
        self.whole: bytes | None = None
        """The body, once it has ended (before commit)."""
        self.done = False
        """The protocol's end marker has been seen (after commit)."""
        self.trial: Trial | Straggler | None = None
        """What judges the answer, where the route has gates; what hears it, of a loser that runs on."""
        self.rejection: Rejection | None = None
        """Which gate rejected its answer, and why."""
        self.ended = False
        """It is over, and its AttemptEnded event has been spoken."""

    def on_head(self, status: int, headers: Headers) -> None:
        flight = self._flight
        self.headers_at = now = self._time()
        self.status = status
        self.headers = headers
        flight.route.hedger.reported(self.target.place, headers, self.launched_at, now)
        if flight.protocol.accepts_head:
            self.scanner = flight.question.scanner(headers)
            self.first_token_at = self.last_data_at = now
            flight.run.accepted(self.index)
            return
        if (decoder := encoding.decoder(headers)) is not None:
            self._decoder = decoder
            self.headers = headers = encoding.decoded(headers)
        if 200 <= status < 300:
            self.scanner = scanner = flight.question.scanner(headers)
            self._feed = None if scanner.sign is None else scanner.feed
        else:
            self._error_limit = flight.later(ERROR_BODY_LIMIT, self._error_overdue)

    def on_data(self, data: bytes) -> None:
        """A piece before commit: it is held back."""
        if self._decoder is not None and not (data := self._decoded(data)):
            return
        self.received += len(data)
        self.last_data_at = self._time()
        held = self.held
        if held:
            keep(held, data)
        else:
            held.append(data)
        if self.received > self.held_limit:
            (self.trial or self).too_long()
        elif (feed := self._feed) is not None and (verdict := feed(data)) is not None:
            self._judged(verdict)

    def on_end(self) -> None:
        whole = self._decoder is None or self._decoder.complete
        if self.committed:
            self.body_over(clean=whole)
            return
        if self.ended:
            return
        if not whole:
            self._flight.lost(self, self._cut_short("its compressed body is cut short"))
            return
        body = b"".join(self.held)
        flight, scanner = self._flight, self.scanner
        if scanner is None:
            flight.lost(self, flight.protocol.classify(self.status or 0, self.headers, body))
        elif self.trial is not None and self.first_token_at is not None:
            self.trial.over(clean=True)
        elif isinstance(verdict := scanner.eof(body), Accepted):
            self.whole = body
            if verdict.instead is not None and not flight.question.collects:
                self.whole = verdict.instead
                self.headers = (as_event_stream if is_event_stream(self.whole) else as_json)(self.headers)
            self.first_token_at = self._time()
            flight.answered(self)
        else:
            flight.lost(self, verdict)

    def on_error(self, error: UpstreamError) -> None:
        if self.committed:
            self.body_over(clean=False)
            return
        if self.ended:
            return
        if self.trial is not None and self.first_token_at is not None:
            self.trial.over(clean=False)
            return
        if isinstance(error, ConnectFailed | PoolExhausted):
            ours = isinstance(error, PoolExhausted)
            self._flight.lost(self, Failure(FailureClass.CONNECT, str(error), unsent=True), blame=not ours)
        else:
            cut = FailureClass.CONNECT if isinstance(error, UpstreamClosed) else FailureClass.PROTOCOL
            self._flight.lost(self, self._cut_short(str(error), cut))

    def deliver_to(self, write: Callable[[bytes], None]) -> None:
        """From commit on: hand over what is held, then every piece as it comes."""
        call, scanner = self.call, self.scanner
        if call is None or scanner is None:
            return
        self.committed = True
        held, self.held = b"".join(self.held), []
        trial = self.trial
        if trial is not None:
            trial.resume()
        forward = self._start(write, scanner, held)
        call.deliver_to(forward if self._decoder is None else self._forward_decoded)
        if scanner.watch(b""):
            self._complete()
        elif trial is not None and trial.closed is not None:
            self.body_over(clean=trial.closed)

    def between_events(self) -> bool:
        """Whether what was delivered so far ends with a blank line."""
        return not self.committed or super().between_events()

    def cancel(self) -> None:
        """Close its connection, if it has one."""
        if self.call is not None:
            self.call.cancel()

    def end(self) -> None:
        """It is over: nothing of it may happen any more."""
        self.ended = True
        if self._error_limit is not None:
            self._error_limit.cancel()
        if self.trial is not None:
            self.trial.give_up()
            self.let_go()

    def let_go(self) -> None:
        """Forget its trial: they hold each other, and no cycle is to be left to the collector."""
        self.trial = None
        self._feed = None

    def hold(self, trial: Trial | Straggler) -> None:
        """Have its answer judged, and the pieces that follow looked at by its trial until it is committed."""
        self.trial = trial
        self._feed = trial.feed
        trial.begin()

    def run_on(self, straggler: Straggler) -> None:
        """It has lost and is to be heard to its end all the same."""
        if self.trial is not None:
            self.trial.give_up()
        self.trial = straggler
        if self.first_token_at is not None:
            self.hold(straggler)

    def tally(self) -> int:
        """Bytes of the body that have come, decoded; after it the scanner has seen them all."""
        if self.committed:
            self._catch_up()
        return self.received

    def usage(self) -> Usage | None:
        """The tokens that are known when the attempt ends now."""
        self.tally()
        return None if self.scanner is None else self.scanner.ending(False).usage

    def _forward_decoded(self, data: bytes) -> None:
        if self._decoder is not None and (data := self._decoded(data)):
            self._forward(data)

    def _decoded(self, data: bytes) -> bytes:
        """What this piece of a compressed body stands for; b"" when that is nothing yet, or not to be made out."""
        decoder = self._decoder
        if decoder is None or self.ended:
            return b""
        try:
            return decoder.feed(data)
        except ValueError as error:
            self.cancel()
            if self.committed:
                self.body_over(clean=False)
            else:
                self._flight.lost(self, self._cut_short(str(error)))
            return b""

    def body_over(self, *, clean: bool) -> None:
        """The body of a committed answer ended, or broke off."""
        if not self.done and self.scanner is not None:
            self._catch_up()
            self._flight.ended(self.scanner.ending(clean))

    def _complete(self) -> None:
        """The protocol's end marker has come."""
        self.done = True
        call = self.call
        if call is not None and self.scanner is not None:
            call.deliver_to(_IGNORE)
            self._flight.ended(self.scanner.ending(True))
            self._flight.linger(call)

    def _judged(self, verdict: Verdict) -> None:
        if isinstance(verdict, Accepted):
            self.first_token_at = self.last_data_at
            self._flight.answered(self)
            return
        self.cancel()
        self._flight.lost(self, verdict)

    def give_up(self, why: str) -> None:
        """Break off before commit: it failed."""
        self.cancel()
        self._flight.lost(self, self._cut_short(why))

    def too_long(self) -> None:
        """More has come than may be held."""
        self.give_up(f"more than {self.held_limit} bytes came before a first token")

    def _error_overdue(self) -> None:
        self.give_up(f"its body was not whole within {ERROR_BODY_LIMIT:g} s")

    def _cut_short(self, why: str, kind: FailureClass = FailureClass.PROTOCOL) -> Failure:
        """What an answer means whose body will not come whole: of an error the status says most."""
        if self.scanner is not None or self.status is None:
            return Failure(kind, why)
        failure = self._flight.protocol.classify(self.status, self.headers, b"")
        return msgspec.structs.replace(failure, body=None, message=f"{failure.message}, and {why}")
