"""OpenTelemetry spans of requests and attempts: one SERVER span for what the caller sees, below it a CLIENT span for
each attempt, which links to the one it was launched for.

They are made of events: times are the events' own. What a span may say is in `span_attributes`.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from hedgerow import __version__
from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
    AttemptLaunched,
    Bill,
    Event,
    Failure,
    FirstToken,
    HedgeSkipped,
    Outcome,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    Role,
)
from hedgerow.telemetry import span_attributes as say
from hedgerow.telemetry.trace_context import Parent, Peer, Tracing, traceparent

_FAILED = (Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT)
_NOWHERE = Context()


class _Request:
    """A request that is not told to its end."""

    __slots__ = ("context", "ends", "finished", "launches", "span", "spans", "started", "state")

    def __init__(self, started: RequestStarted, span: Span, state: str) -> None:
        self.started = started
        self.span = span
        self.state = state
        self.context = set_span_in_context(span, _NOWHERE)
        self.spans: dict[int, Span] = {}
        self.launches: dict[int, AttemptLaunched] = {}
        self.ends: dict[int, AttemptEnded] = {}
        self.finished: RequestFinished | None = None


class Traces(Tracing):
    """A listener. `epoch` is the Unix time when the loop's clock showed 0."""

    kinds = (
        RequestStarted,
        AttemptLaunched,
        HedgeSkipped,
        FirstToken,
        AnswerRejected,
        AnswerNotJudged,
        AnswerRescued,
        AttemptEnded,
        RequestFinished,
        RequestBilled,
    )

    def __init__(self, provider: TracerProvider, *, epoch: float) -> None:
        self._tracer = provider.get_tracer("hedgerow", __version__)
        self._epoch = epoch
        self._peers: Mapping[str, Peer] = {}
        self._coming: dict[str, Parent | None] = {}
        self._open: dict[str, _Request] = {}

    # Of the gateway.

    def knows(self, peers: Mapping[str, Peer]) -> None:
        self._peers = peers

    def begins(self, request_id: str, parent: Parent | None) -> None:
        self._coming[request_id] = parent

    def fields(self, request_id: str, attempt: int) -> bytes:
        request = self._open.get(request_id)
        if request is None or (span := request.spans.get(attempt)) is None:
            return b""
        context = span.get_span_context()
        line = b"traceparent: %b\r\n" % traceparent(context.trace_id, context.span_id, context.trace_flags)
        return line + (b"tracestate: %b\r\n" % request.state.encode("latin-1") if request.state else b"")

    # As a listener.

    def __call__(self, event: Event) -> None:
        if isinstance(event, RequestStarted):
            self._started(event)
            return
        request = self._open.get(getattr(event, "request_id", ""))
        if request is None:
            return
        match event:
            case AttemptLaunched():
                self._launched(request, event)
            case FirstToken():
                self._note(request.spans.get(event.attempt), "hedgerow.first_token", event.at, {})
            case AttemptEnded():
                self._ended(request, event)
            case RequestFinished():
                self._finished(request, event)
            case RequestBilled():
                self._end(request, event.bills)
            case AnswerRejected():
                self._note(request.spans.get(event.attempt), "hedgerow.answer_rejected", event.at, say.of_note(event))
            case HedgeSkipped():
                self._note(request.span, "hedgerow.hedge_skipped", event.at, say.of_note(event))
            case AnswerNotJudged():
                self._note(request.span, "hedgerow.answer_not_judged", event.at, say.of_note(event))
            case AnswerRescued():
                self._note(request.span, "hedgerow.answer_rescued", event.at, say.of_note(event))

    def close(self) -> None:
        """No more events will come: end what is still open, as it stands."""
        for request in tuple(self._open.values()):
            self._end(request, ())

    def _started(self, event: RequestStarted) -> None:
        parent = self._coming.pop(event.request_id, None)
        span = self._tracer.start_span(
            say.span_name(event.protocol, event.model, event.route),
            context=_NOWHERE if parent is None else _context_of(parent),
            kind=SpanKind.SERVER,
            attributes=say.of_start(event),
            start_time=self._ns(event.at),
        )
        self._open[event.request_id] = _Request(event, span, "" if parent is None else parent.state)

    def _launched(self, request: _Request, event: AttemptLaunched) -> None:
        started = request.started
        recorded = request.span.is_recording()  # else it needs but a name for those below
        request.launches[event.attempt] = event
        request.spans[event.attempt] = self._tracer.start_span(
            say.span_name(started.protocol, event.model, started.route),
            context=request.context,
            kind=SpanKind.CLIENT,
            attributes=say.of_launch(event, started, self._peers.get(event.target)) if recorded else None,
            links=_links(request, event) if recorded else (),
            start_time=self._ns(event.at),
        )

    def _note(self, span: Span | None, name: str, at: float, said: say.Attributes) -> None:
        if span is not None:
            span.add_event(name, said, self._ns(at))

    def _ended(self, request: _Request, event: AttemptEnded) -> None:
        request.ends[event.attempt] = event
        if (span := request.spans.get(event.attempt)) is not None:
            span.set_attributes(say.of_attempt(event, request.started))
            if event.outcome in _FAILED:
                span.set_status(_error(event.failure))

    def _finished(self, request: _Request, event: RequestFinished) -> None:
        request.finished = event
        roles = [launch.role for launch in request.launches.values()]
        request.span.set_attributes(say.of_finish(event, request.ends, roles))
        # As a server sees it: who asks for what cannot be done has made no error of the server.
        if event.outcome in _FAILED and ((event.status or 500) >= 500 or event.outcome is not Outcome.FAILED):
            last = max(request.ends.values(), key=lambda end: end.ended_at, default=None)
            failure = None if last is None else last.failure
            request.span.set_attribute("error.type", say.error_type(failure))
            request.span.set_status(_error(failure))

    def _end(self, request: _Request, bills: tuple[Bill, ...]) -> None:
        """All is told of it: what ends here is handed to the exporter."""
        for bill in bills:
            if (span := request.spans.get(bill.attempt)) is not None:
                span.set_attributes(say.of_bill(bill))
        for attempt, span in request.spans.items():
            end = request.ends.get(attempt)
            span.end(None if end is None else self._ns(end.ended_at))
        request.span.set_attributes(say.of_bills(bills))
        finished = request.finished
        request.span.end(None if finished is None else self._ns(finished.ended_at))
        del self._open[request.started.request_id]

    def _ns(self, at: float) -> int:
        return round((at + self._epoch) * 1e9)


def _context_of(parent: Parent) -> Context:
    state = TraceState.from_header([parent.state]) if parent.state else None
    flags = TraceFlags(parent.flags)
    context = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags, trace_state=state)
    return set_span_in_context(NonRecordingSpan(context), _NOWHERE)


def _links(request: _Request, event: AttemptLaunched) -> tuple[Link, ...]:
    """To the attempt that this one was launched for: the newest that runs, or for a failover the last that ended."""
    earlier = [attempt for attempt in request.spans if attempt != event.attempt]
    ended = event.role is Role.FAILOVER
    fitting = [attempt for attempt in earlier if (attempt in request.ends) == ended] or earlier
    if not fitting:
        return ()
    if ended:
        fitting.sort(key=lambda attempt: end.ended_at if (end := request.ends.get(attempt)) else 0.0)
    link = Link(request.spans[fitting[-1]].get_span_context(), {"hedgerow.role": event.role.value})
    return (link,)


def _error(failure: Failure | None) -> Status:
    return Status(StatusCode.ERROR, None if failure is None else failure.message)
