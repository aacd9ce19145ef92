"""What the attempts of a request come to, from how they ended: the one place where that is worked out.

An answer that was whole and reported its tokens costs just that. For any other a range is worked out in which the
invoice lies, and a best guess: by the tokens that came, by what another attempt says of the same prompt, and by what
the provider bills for attempts that are broken off (`Terms`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from hedgerow.events import AttemptEnded, Bill, Certainty, Failure, FailureClass, Outcome, Usage, UsageSource
from hedgerow.policy.ask import EXPECTED_OUTPUT
from hedgerow.policy.failures import TIMEOUTS
from hedgerow.policy.price import Price
from hedgerow.policy.terms import OnCancel, Terms

_OURS = (Outcome.SUPERSEDED, Outcome.CLIENT_GONE, Outcome.REJECTED)
_ANSWERED = (Outcome.WON, Outcome.KEPT)
_NO_TOKENS = Usage(0, 0)
_REPORTED = UsageSource.REPORTED  # a member of an enum is slow to look up
_ANY = Price(1_000_000, 1_000_000)
"""Stands for the price of a target that has none, to tell how sure its tokens are."""
_DATED = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|v\d+(?::\d+)?)$")


class Told(NamedTuple):
    """Tokens by other attempts of the request: of the prompt (None: none is of this model), and of an answer.

    `likely_input`: of the prompt, by any model.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    likely_input: int | None = None


class _Read(NamedTuple):
    """Tokens of a prompt: no less than `least`, no more than `most`."""

    least: int
    guess: int
    most: int


class _Made(NamedTuple):
    """Tokens of an answer; `most` is None where no bound is known."""

    least: int
    guess: int
    most: int | None


def bills(ends: Sequence[AttemptEnded], terms_of: Callable[[str], Terms], *, metered: bool = True) -> tuple[Bill, ...]:
    """Of all attempts of one request, in the order of their launch; without `metered` no token of it can be counted."""
    if len(ends) == 1 and metered:  # most requests: nobody is there to tell more of it
        return (bill(ends[0], terms_of(ends[0].target)),)
    ordered = sorted(ends, key=lambda end: end.attempt)
    if not metered:
        return tuple(unmetered(end, terms_of(end.target)) for end in ordered)
    return tuple(bill(end, terms_of(end.target), _told(end, ordered)) for end in ordered)


def bill(end: AttemptEnded, terms: Terms, told: Told = Told()) -> Bill:  # noqa: B008  # frozen
    """Of one attempt, as far as is known by now."""
    price = terms.price(end.model)
    mode = _mode(end, terms)
    if mode is None:
        return _bill(end, _NO_TOKENS, price, 0, 0, 0)
    usage = end.usage
    if usage is not None and usage.source is UsageSource.REPORTED:
        span = _reported(usage, (price or _ANY).in_tier(end.service_tier))
        if span is not None:
            return _bill(end, usage, price, *span)
    return _estimated(end, price, mode, told)


def unmetered(end: AttemptEnded, terms: Terms) -> Bill:
    """Of an attempt whose tokens nobody counts: what is only handed through."""
    price = terms.price(end.model)
    if _mode(end, terms) is None:
        return _bill(end, _NO_TOKENS, price, 0, 0, 0)
    usage = Usage(source=UsageSource.ESTIMATED)
    return Bill(end.attempt, end.target, end.role, end.outcome, usage, Certainty.ESTIMATED, None, 0, None)


def cost(usage: Usage, price: Price, tier: str | None = None) -> int | None:
    """Nano-dollars of a whole answer with these tokens; None where they or the price of its tier are not known."""
    span = _reported(usage, price.in_tier(tier))
    return None if span is None else span[1]


def reported_cost(usage: Usage, terms: Terms, model: str | None) -> tuple[int | None] | None:
    """Nano-dollars of a whole answer that reported these tokens (None: it has no price), as `bill` would say them.

    None where more must be known: its tier of service, how long something was written to a cache, why it says nothing,
    tokens.
    """
    price = terms.price(model)
    if usage.source is not _REPORTED or usage.input_tokens is None or not usage.output_tokens:
        return None
    if price is None:
        return (None,) if usage.input_tokens or usage.output_tokens else None
    if price.tiers or (usage.cache_write_tokens and price.cache_write_1h is not None):
        return None
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    return (price.cost(usage.input_tokens, usage.output_tokens, cached, written),)


def _told(end: AttemptEnded, ends: Sequence[AttemptEnded]) -> Told:
    """By whole answers to the same request, that of the winner first."""
    others = sorted((other for other in ends if other is not end), key=lambda other: other.outcome is not Outcome.WON)
    whole = [
        (other, other.usage)
        for other in others
        if other.usage is not None and other.usage.source is UsageSource.REPORTED
    ]
    # One that went on with an answer had more to read.
    same = [each for each in whole if each[0].input_tokens == end.input_tokens]
    read = [(usage.input_tokens, other.model) for other, usage in same if usage.input_tokens is not None]
    return Told(
        next((tokens for tokens, model in read if model_of(model) == model_of(end.model)), None),
        next((usage.output_tokens for _, usage in whole if usage.output_tokens is not None), None),
        next((tokens for tokens, _ in read), None),
    )


def model_of(name: str | None) -> str | None:
    """What a model is called at any provider: without the provider in front and the date behind."""
    return None if name is None else _DATED.sub("", name.lower().rpartition("/")[2])


def _mode(end: AttemptEnded, terms: Terms) -> OnCancel | None:
    """What its provider bills for an attempt that ended like this, of all that it asked for; None: surely nothing."""
    failure = end.failure
    if (failure is not None and failure.unsent) or (end.sent_at is None and end.headers_at is None):
        return None
    if end.status is not None and not 200 <= end.status < 300:
        kind = None if failure is None else failure.kind
        refusal = kind in (FailureClass.CONTENT_POLICY, FailureClass.FATAL_REQUEST) or end.status == 408
        return OnCancel.GENERATED if refusal and (terms.bills_refusals or _is_azures(failure)) else None
    if end.finish_reason == "refusal" and end.usage is not None and end.usage.output_tokens == 0:
        return None  # Anthropic's
    if _is_ours(end):
        return terms.stream if end.stream else terms.whole
    return OnCancel.GENERATED


def _is_azures(failure: Failure | None) -> bool:
    """Whether Azure's filter says it, under whatever name Azure is asked."""
    return failure is not None and failure.body is not None and b"ResponsibleAIPolicyViolation" in failure.body


def _is_ours(end: AttemptEnded) -> bool:
    """Whether it was we who broke it off."""
    return end.outcome in _OURS or (end.failure is not None and end.failure.kind in TIMEOUTS)


def _estimated(end: AttemptEnded, price: Price | None, mode: OnCancel, told: Told) -> Bill:
    usage = end.usage or Usage(source=UsageSource.ESTIMATED)
    came = usage.source is not UsageSource.ESTIMATED
    read, made = _read(end, usage, told, came=came), _made(end, usage, mode, told, came=came)
    rates = price or _ANY
    tiers = [rates, *rates.tiers.values()]
    plain = rates.in_tier(end.service_tier)
    if end.service_tier is not None and plain is not None:
        tiers = [plain]
    least, most = 0, None if plain is None else _most(tiers, read.most, made.most)
    if mode is OnCancel.NONE:
        return _bill(end, _NO_TOKENS, price, 0, 0, most)
    if came and plain is not None and (_is_ours(end) or end.outcome in _ANSWERED):
        least = min(each.cheapest_input.cost(read.least, made.least) for each in tiers)
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    longer = usage.cache_write_1h_tokens or 0
    guess = max(least, (plain or rates).cost(read.guess, made.guess, cached, written, longer))
    guess = guess if most is None else min(guess, most)  # a longer prompt may be cheaper, by odd prices
    filled = msgspec.structs.replace(usage, input_tokens=read.guess, output_tokens=made.guess)
    return _bill(end, filled, price, least, guess, most)


def _read(end: AttemptEnded, usage: Usage, told: Told, *, came: bool) -> _Read:
    """The prompt: as the attempt itself, or another of the same model, reported it, else by its size in bytes.

    What another model has read of it is a better guess than its size, and bounds nothing: their tokens differ.
    """
    known = usage.input_tokens if came and usage.input_tokens is not None else told.input_tokens
    if known is not None:
        return _Read(known, known, known)
    guess = end.input_tokens if usage.input_tokens is None else usage.input_tokens
    if told.likely_input is not None:
        guess = told.likely_input
    return _Read(0, guess, max(guess, _bytes(end)))


def _bytes(end: AttemptEnded) -> int:
    """No more than the request had, each a token at most. (What stands behind a URL is another matter.)"""
    return 4 * end.input_tokens + 3


def _made(end: AttemptEnded, usage: Usage, mode: OnCancel, told: Told, *, came: bool) -> _Made:
    """The answer: what came of it, and what may have been generated besides.

    It may have been whole, and billed as such, before the provider saw that it was broken off, whatever it bills else.
    """
    seen, limit = usage.output_tokens or 0, end.output_limit
    if mode is OnCancel.INPUT:
        return _Made(0, 0, limit)
    guess = seen
    if mode is OnCancel.FULL:
        guess = max(seen, EXPECTED_OUTPUT if told.output_tokens is None else told.output_tokens)
    if limit is not None:
        guess = min(guess, limit)
    # What is reported before there is an answer is a place-holder.
    return _Made(min(seen, guess) if came and end.first_token_at is not None else 0, guess, limit)


def _reported(usage: Usage, price: Price | None) -> tuple[int, int, int] | None:
    """Least, guess and most: one number, unless it matters and is not told how long a cache keeps what was written."""
    read, made = usage.input_tokens, usage.output_tokens
    if price is None or read is None or made is None:
        return None
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    longer = usage.cache_write_1h_tokens
    guess = price.cost(read, made, cached, written, longer or 0)
    longest = price.cost(read, made, cached, written, written if longer is None else longer)
    return min(guess, longest), guess, max(guess, longest)


def _most(tiers: Iterable[Price], read: int, made: int | None) -> int | None:
    """The dearest it may be; None where nothing bounds the answer, unless an answer costs nothing."""
    dearest = [each.dearest_input for each in tiers]
    if made is None and any(each.output or any(price.output for _, price in each.above) for each in dearest):
        return None
    return max(each.cost(read, made or 0) for each in dearest)


def _bill(end: AttemptEnded, usage: Usage, price: Price | None, least: int, guess: int, most: int | None) -> Bill:
    certainty = Certainty.EXACT if least == most else Certainty.AT_LEAST if least == guess > 0 else Certainty.ESTIMATED
    money = (guess, least, most) if price is not None else (0, 0, 0) if most == 0 else (None, None, None)
    return Bill(end.attempt, end.target, end.role, end.outcome, usage, certainty, *money)
