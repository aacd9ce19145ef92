"""Answers under way: timers on the loop that write to an exchange, and stop when the client leaves, if the lab minds.

No answer has a task of its own; it is a chain of timers, one armed at a time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hedgerow.http.exchange import Exchange
from hedgerow.lab.accounts import Accounts, Ending, Record
from hedgerow.lab.chunks import JSON, Body, Chunks, Errors, Fields
from hedgerow.lab.plan import Plan
from hedgerow.lab.script import Fault, Script


class Timer(Protocol):
    """An armed timer."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The two methods of an event loop that answers need."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer: ...


@dataclass(frozen=True, slots=True)
class Visit:
    """What every answer needs: whom to answer, when, with which response headers and errors, and where to book it.

    `runs_on`: it is generated to its end though nobody is there any more.
    """

    clock: Clock
    exchange: Exchange
    accounts: Accounts
    record: Record
    fields: Fields
    errors: Errors
    runs_on: bool = False


class Answer(ABC):
    """One request being answered. Sub-classes say what happens in `begin` and when the timer fires (`_due`)."""

    __slots__ = ("_accounts", "_clock", "_errors", "_exchange", "_fields", "_left", "_record", "_runs_on", "_timer")

    def __init__(self, visit: Visit) -> None:
        self._clock = visit.clock
        self._exchange = visit.exchange
        self._accounts = visit.accounts
        self._record = visit.record
        self._fields = visit.fields
        self._errors = visit.errors
        self._runs_on = visit.runs_on
        self._left: tuple[Ending, int] | None = None
        """How a request ends whose client has left, and the tokens there were by then; None while it is there."""
        self._timer: Timer | None = None
        visit.exchange.listener = self

    @abstractmethod
    def begin(self) -> None:
        """The request has come."""

    @abstractmethod
    def _due(self) -> None:
        """The timer has fired."""

    def _arm(self, when: float) -> None:
        self._timer = self._clock.call_at(when, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._due()

    def _generated(self, now: float) -> int:
        """Tokens generated so far."""
        return self._record.tokens

    def _head(self, status: int, now: float) -> None:
        self._record.status = status
        self._record.headers_at = now

    def _close(self, ending: Ending) -> None:
        if self._left is not None:
            ending, before = self._left
            self._record.tokens_after = self._record.tokens - before
        self._accounts.close(self._record, ending, self._clock.time())

    def on_disconnect(self) -> None:
        """The client has gone: generate no more, unless this lab does not mind that nobody listens."""
        record = self._record
        record.left_at = now = self._clock.time()
        generated = self._generated(now)
        if record.headers_at is None:
            ending = Ending.CANCELLED_BEFORE_HEADERS
        elif record.first_token_at is None:
            ending = Ending.CANCELLED_BEFORE_TOKEN
        else:
            ending = Ending.CANCELLED_MID_STREAM
        if self._runs_on and self._timer is not None:
            self._left = ending, generated
            return
        if self._timer is not None:
            self._timer.cancel()
        record.tokens = generated
        self._accounts.close(record, ending, now)

    def on_pause(self) -> None:  # noqa: B027  # nothing to do is a good answer
        """Only a stream cares."""

    def on_resume(self) -> None:  # noqa: B027  # as above
        """Only a stream cares."""


class Refusal(Answer):
    """An error status, at once or after the script's delay (in seconds of real time)."""

    __slots__ = ("_delay", "_script")

    def __init__(self, visit: Visit, script: Script, *, delay: float) -> None:
        super().__init__(visit)
        self._script = script
        self._delay = delay

    def begin(self) -> None:
        if self._delay:
            self._arm(self._record.started_at + self._delay)
        else:
            self._due()

    def _due(self) -> None:
        script = self._script
        fields = [*self._fields, *JSON, *((name.encode(), value.encode()) for name, value in script.headers.items())]
        if script.retry_after is not None:
            fields.append((b"retry-after", b"%d" % math.ceil(script.retry_after)))
            fields.append((b"retry-after-ms", b"%d" % round(script.retry_after * 1000)))
        status = script.status or 500
        self._head(status, self._clock.time())
        body = self._errors.body(status, code=script.code, retry_after=script.retry_after)
        self._exchange.respond(status, fields, body)
        self._close(Ending.FAILED)


class Planned(Answer):
    """An answer that follows a plan."""

    __slots__ = ("_limit", "_plan", "_strikes_at")

    def __init__(self, visit: Visit, plan: Plan) -> None:
        super().__init__(visit)
        self._plan = plan
        self._strikes_at = plan.strikes_at
        self._limit = plan.tokens if self._strikes_at is None else self._strikes_at

    def _error_status(self) -> int:
        return self._plan.script.status or 503


class Stream(Planned):
    """A streamed answer: headers and the protocol's opening at once, then token by token."""

    __slots__ = ("_chunks", "_next", "_paused")
    _next: float

    def __init__(self, visit: Visit, plan: Plan, chunks: Chunks) -> None:
        super().__init__(visit, plan)
        self._chunks = chunks
        self._paused = False

    def begin(self) -> None:
        if self._plan.script.fault is Fault.HANG:
            return
        self._head(200, self._clock.time())
        self._exchange.start(200, self._fields + self._chunks.stream_fields)
        self._exchange.write(self._chunks.opening())
        self._next = self._record.started_at + self._plan.due(0)
        self._arm(self._next)

    def _due(self) -> None:
        """Send the token whose timer fired and any that came due since, or what stands in its place."""
        record = self._record
        now = self._clock.time()
        ready: list[bytes] = []
        due = True  # the timer's own token, even where the clock's grain makes it a little early
        while due and record.tokens < self._limit:
            ready.append(self._chunks.token(record.tokens))
            record.tokens += 1
            self._next += self._plan.gap_before(record.tokens)
            due = self._next <= now
        if ready:
            if record.first_token_at is None:
                record.first_token_at = now
            self._exchange.write(b"".join(ready))
        if record.tokens == self._limit and self._strikes_at is None:
            self._finish()
        elif record.tokens == self._limit and due:
            self._strike()
        elif not self._paused:
            self._arm(self._next)

    def _finish(self) -> None:
        self._exchange.write(self._chunks.tail())
        self._exchange.end()
        self._close(Ending.COMPLETED)

    def _strike(self) -> None:
        exchange, script = self._exchange, self._plan.script
        match script.fault:
            case Fault.STALL:
                return  # until the client leaves
            case Fault.CUT:
                exchange.abort()
            case Fault.ERROR:
                after = self._record.tokens
                exchange.write(self._chunks.error_frame(self._error_status(), code=script.code, after=after))
                exchange.end()
            case _:
                exchange.end()
        self._close(Ending.FAILED)

    def on_pause(self) -> None:
        """The client reads slowly: hold back; what falls due meanwhile is sent on resume."""
        self._paused = True
        if self._timer is not None:
            self._timer.cancel()

    def on_resume(self) -> None:
        self._paused = False
        self._arm(self._next)

    def on_disconnect(self) -> None:
        """A stream that was held back goes on as well."""
        if self._paused and self._runs_on:
            self.on_resume()
        super().on_disconnect()


class Whole(Planned):
    """An answer in one body, sent when its last token is due."""

    __slots__ = ("_body",)

    def __init__(self, visit: Visit, plan: Plan, body: Body) -> None:
        super().__init__(visit, plan)
        self._body = body

    def begin(self) -> None:
        plan = self._plan
        if plan.script.fault is not Fault.HANG:
            last = max(0, self._limit - 1) if self._strikes_at is None else self._limit
            self._arm(self._record.started_at + plan.due(last))

    def _generated(self, now: float) -> int:
        if self._plan.script.fault is Fault.HANG:
            return 0
        return min(self._limit, self._plan.generated(now - self._record.started_at))

    def _due(self) -> None:
        record, exchange, script = self._record, self._exchange, self._plan.script
        fields = self._fields + JSON
        body = self._body.whole()
        self._head(200, self._clock.time())
        if self._strikes_at is None:
            record.tokens, record.first_token_at = self._plan.tokens, record.headers_at
            exchange.respond(200, fields, body)
            self._close(Ending.COMPLETED)
            return
        record.tokens = self._strikes_at
        if script.fault is Fault.ERROR:
            exchange.respond(200, fields, self._errors.body(self._error_status(), code=script.code))
        else:
            exchange.start(200, fields)
            exchange.write(body[: len(body) // 2])
            if script.fault is Fault.STALL:
                return  # until the client leaves
            exchange.abort() if script.fault is Fault.CUT else exchange.end()
        self._close(Ending.FAILED)
