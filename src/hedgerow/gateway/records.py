"""The records that tell of a request: those of each one only where somebody listens (`Hedger.watched`) or learns."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hedgerow.cost import MOST_NANOUSD
from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AttemptEnded,
    AttemptLaunched,
    Failure,
    FailureClass,
    FirstToken,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
    WonAlone,
)
from hedgerow.gateway import used
from hedgerow.policy.billing import bills, reported_cost
from hedgerow.policy.gates.gate import Rejection
from hedgerow.policy.price import STANDARD
from hedgerow.wire.words import NO_WORDS

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.landing import Landing

log = logging.getLogger("hedgerow.gateway")
_WON, _PRIMARY = Outcome.WON, Role.PRIMARY  # a member of an enum is slow to look up
_OUR_FAULT = Failure(FailureClass.PROTOCOL, "hedgerow itself failed; its log says how")
_WORD = 200
"""Characters of a model's name, and of an upstream's own words, that are told; anything may be sent."""


def started(flight: Landing) -> None:
    """A request begins."""
    flight.route.hedger.emit(
        RequestStarted(
            flight.request_id,
            flight.route.name,
            flight.protocol.name,
            flight.facts.stream,
            flight.started_at,
            _told(flight.facts.model),
            flight.ask.tenant,
            flight.run.arm,
        )
    )


def launched(flight: Landing, attempt: Attempt) -> None:
    """An attempt begins."""
    target = attempt.target
    launch = flight.request_id, attempt.index, target.name, attempt.role, attempt.launched_at
    flight.route.hedger.emit(AttemptLaunched(*launch, _told(flight.question.model(target))))


def skipped(flight: Landing, reason: Reason, detail: str, role: Role) -> None:
    """A hedge or failover was due and is not launched, now."""
    hedger = flight.route.hedger
    hedger.emit(HedgeSkipped(flight.request_id, hedger.name, reason, flight.time(), detail, role))


def first_token(flight: Landing, attempt: Attempt) -> None:
    """An attempt has won."""
    hedger, ask, launched_at = flight.route.hedger, flight.ask, attempt.launched_at
    if not (flight.protocol.hedgeable or hedger.watched):
        return
    at = launched_at if attempt.first_token_at is None else attempt.first_token_at
    what = attempt.index, attempt.target.name, attempt.role, launched_at, at
    if flight.protocol.hedgeable:
        hedger.first_token(ask, *what)
    else:
        hedger.tell(FirstToken(ask.request_id, *what, ask.stream, ask.input_tokens))


def rejected(flight: Landing, attempt: Attempt, rejection: Rejection, *, delivered: bool) -> None:
    """A gate rejected an attempt's answer, now."""
    hedger = flight.route.hedger
    told = attempt.target.name, rejection.gate, rejection.detail
    hedger.emit(AnswerRejected(flight.request_id, hedger.name, attempt.index, *told, flight.time(), delivered))


def not_judged(flight: Landing, attempt: Attempt, why: str) -> None:
    """A gate could not judge an attempt's answer, now."""
    hedger = flight.route.hedger
    hedger.emit(AnswerNotJudged(flight.request_id, hedger.name, attempt.index, attempt.target.name, why, flight.time()))


def ended(
    flight: Landing, attempt: Attempt, outcome: Outcome, failure: Failure | None, usage: Usage | None
) -> Usage | None:
    """An attempt is over, now. Returns its usage, where anybody wants to hear of it.

    Where nobody listens, the end of an only attempt that has won is no news: nothing is learned from it, and it spent
    no budget.
    """
    if flight.recording is not None and outcome is not _WON:
        flight.recording.unused(attempt)
    hedger = flight.route.hedger
    tell = hedger.emit if flight.protocol.hedgeable else hedger.tell
    if not hedger.watched and (is_no_news(flight, outcome) or not flight.protocol.hedgeable):
        return usage
    event = _end(flight, attempt, outcome, failure, usage)
    tell(event)
    flight.ends = (*flight.ends, event)
    return event.usage


def is_no_news(flight: Landing, outcome: Outcome) -> bool:
    """Whether that is how the only attempt of a request ended whom nobody listens to."""
    return outcome is _WON and len(flight.attempts) == 1


def won_alone(flight: Landing, winner: Attempt, usage: Usage | None) -> bool:
    """Tell of a request whose first attempt has won, now, to who only counts; False where its events are needed."""
    hedger, protocol, first, status = flight.route.hedger, flight.protocol, winner.first_token_at, winner.status
    if (tally := hedger.tally) is None or not protocol.hedgeable or len(flight.attempts) > 1 or flight.ends:
        return False
    if first is None or status is None or not 200 <= status < 300 or winner.role is not _PRIMARY:
        return False
    if flight.rescue is not None or flight.aftermath is not None or winner.rejection is not None:
        return False
    tier = None if winner.scanner is None else winner.scanner.tier()
    if tier is not None and tier.lower() not in STANDARD:  # it decides the price
        return False
    target = winner.target
    usage = None if usage is None else usage.bounded()
    if usage is None or not (known := reported_cost(usage, hedger.terms(target.name), flight.question.model(target))):
        return False
    tally(
        WonAlone(
            hedger.name,
            protocol.name,
            flight.facts.stream,
            target.name,
            flight.started_at,
            None if winner.call is None else winner.call.sent_at,
            winner.headers_at,
            first,
            flight.time(),
            status,
            flight.run.arm,
            usage,
            None if known[0] is None else min(known[0], MOST_NANOUSD),
        )
    )
    return True


def crashed(flight: Landing, attempt: Attempt) -> None:
    """Something of ours has raised, and an attempt is broken off for it: nothing is learned from that."""
    if any(end.attempt == attempt.index for end in flight.ends):
        return  # that has been told
    event = _end(flight, attempt, Outcome.FAILED, _OUR_FAULT, None)
    flight.route.hedger.tell(event)
    flight.ends = (*flight.ends, event)


def _end(
    flight: Landing, attempt: Attempt, outcome: Outcome, failure: Failure | None, usage: Usage | None
) -> AttemptEnded:
    """How an attempt ended, with what its answer says of itself; without that where it cannot be made out."""
    try:
        usage, received = used.usage(flight, attempt, usage), attempt.tally()
        said = NO_WORDS if attempt.scanner is None else attempt.scanner.words()
    except Exception:  # what began must end, or it would be under way for ever
        log.exception("request %s: hedgerow itself failed at an answer's end; please report it", flight.request_id)
        usage, received, said = None, attempt.received, NO_WORDS
    return AttemptEnded(
        flight.request_id,
        attempt.index,
        attempt.target.name,
        attempt.role,
        outcome,
        attempt.launched_at,
        attempt.headers_at,
        attempt.first_token_at,
        flight.time(),
        attempt.status,
        received,
        failure,
        usage,
        flight.ask.stream,
        attempt.input_tokens,
        _told(flight.question.model(attempt.target)),
        None if attempt.call is None else attempt.call.sent_at,
        _told(said.finish_reason),
        _told(said.service_tier),
        used.limit(flight, attempt.target),
    )


def finished(
    flight: Landing,
    winner: Attempt | None,
    first_token_at: float | None,
    launched: int,
    hedges: tuple[int, ...],
    outcome: Outcome,
    status: int | None,
    usage: Usage | None,
) -> None:
    """A request is over, now, after so many attempts, `hedges` among them."""
    if flight.recording is not None and winner is not None:
        flight.recording.answered(winner)
    rejection = None if winner is None else winner.rejection
    flight.route.hedger.emit(
        RequestFinished(
            flight.request_id,
            flight.route.name,
            flight.protocol.name,
            flight.facts.stream,
            flight.started_at,
            first_token_at,
            flight.time(),
            status,
            winner.index if winner is not None else None,
            launched,
            outcome,
            usage,
            None if rejection is None else rejection.gate,
            flight.run.arm,
            flight.unhedged_at,
            hedges,
        )
    )


def billed(flight: Landing) -> None:
    """None of a request's attempts runs any more."""
    hedger = flight.route.hedger
    try:
        came_to = bills(flight.ends, hedger.terms, metered=flight.protocol.hedgeable)
    except Exception:  # it is over all the same, and this is the last that is told of it
        log.exception("request %s: hedgerow itself failed to say what it cost; please report it", flight.request_id)
        came_to = ()
    hedger.emit(RequestBilled(flight.request_id, flight.route.name, flight.time(), came_to))
    for each in came_to:
        if each.nanousd is None and flight.protocol.hedgeable and hedger.watched:
            flight.unpriced(each.target, next(end.model for end in flight.ends if end.attempt == each.attempt))


def _told(word: str | None) -> str | None:
    if word is None or word.isascii():
        return word and word[:_WORD]
    return word[:_WORD].encode("utf-8", "replace").decode()  # JSON may hold half a character, and nothing else can
