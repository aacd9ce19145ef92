"""What attempts used and may at most use, in tokens, where their upstreams do not say so themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.events import Usage, UsageSource
from hedgerow.usage import MOST_TOKENS
from hedgerow.wire.override import limit_with
from hedgerow.wire.scan import CHARACTERS_PER_TOKEN
from hedgerow.wire.whole import is_event_stream

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.landing import Landing
    from hedgerow.gateway.target import Target

_ESTIMATED = UsageSource.ESTIMATED  # a member of an enum is slow to look up


def limit(flight: Landing, target: Target) -> int | None:
    """The most tokens that an answer of this target may have; None where nobody limits them."""
    facts = flight.facts
    if facts.inputs is not None:  # embeddings: vectors are no tokens
        return 0
    if "n" in facts.needs:
        return None
    if target.override is None:
        return flight.ask.max_output_tokens
    most = limit_with(target.override, facts.max_output_tokens)
    return None if most is None else min(max(most, 0) * facts.answers, MOST_TOKENS)


def usage(flight: Landing, attempt: Attempt, reported: Usage | None) -> Usage | None:
    """What an attempt used, as it was reported, else estimated from the sizes of what was sent and of what came.

    None where nothing was sent, where the upstream did not take the request, and where tokens are not counted.
    """
    known = attempt.usage() if reported is None else reported
    if known is not None:
        known = known.bounded()
    if (known is not None and known.source is not _ESTIMATED) or not flight.protocol.hedgeable:
        return known
    refused = attempt.status is not None and attempt.scanner is None
    if refused or attempt.call is None or attempt.call.sent_at is None:
        return None
    made = known.output_tokens if known is not None else _made(flight, attempt)
    return Usage(attempt.input_tokens, made, source=_ESTIMATED)


def _made(flight: Landing, attempt: Attempt) -> int | None:
    """About how many tokens a whole answer has that does not say; None where that is not known."""
    protocol, whole = flight.protocol, attempt.whole
    if not attempt.received or flight.facts.inputs is not None:  # embeddings are no tokens
        return 0
    if whole is None or not protocol.converts:
        return None
    answer = protocol.answer_so_far(whole) if is_event_stream(whole) else protocol.answer(whole)
    return -(-sum(len(each.text) for each in (answer, *answer.others)) // CHARACTERS_PER_TOKEN)
