"""What attempts come to: the range in which their invoice lies, the best guess, and how sure it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import AttemptEnded, Bill, Certainty, Failure, FailureClass, Outcome, Role, Usage, UsageSource
from hedgerow.policy.ask import EXPECTED_OUTPUT
from hedgerow.policy.billing import Told, bill, bills, model_of
from hedgerow.policy.price import Price
from hedgerow.policy.terms import Listed, OnCancel, Terms

PRICE = Price(1_000_000, 10_000_000)
"""A nano-dollar a token of input, ten a token of output."""
TERMS = Terms(PRICE)
REFUSED = Failure(FailureClass.CONNECT, "refused", unsent=True)
STALLED = Failure(FailureClass.TIMEOUT_STALL, "nothing came for 30 s")
CUT = Failure(FailureClass.CONNECT, "closed")
IN_STREAM = Failure(FailureClass.OVERLOADED, "overloaded", status=529, in_stream=True)
FILTERED = Failure(FailureClass.CONTENT_POLICY, "filtered", status=400)


def end(outcome: Outcome = Outcome.SUPERSEDED, usage: Usage | None = None, **more: Any) -> AttemptEnded:
    """An attempt with a request of 400 bytes, a hundred tokens by their number."""
    known: dict[str, Any] = {
        "request_id": "r",
        "attempt": 0,
        "target": "a",
        "role": Role.PRIMARY,
        "outcome": outcome,
        "launched_at": 0.0,
        "headers_at": 0.5,
        "first_token_at": 0.6,
        "ended_at": 1.0,
        "status": 200,
        "received_bytes": 0,
        "usage": usage,
        "input_tokens": 100,
        "model": "m",
        "sent_at": 0.1,
    }
    return AttemptEnded(**{**known, **more})


def partial(read: int | None, made: int | None, **more: int) -> Usage:
    return Usage(read, made, source=UsageSource.PARTIAL, **more)


def sums(one: Bill) -> tuple[int | None, int | None, int | None, Certainty]:
    return one.least, one.nanousd, one.most, one.certainty


EXACT, ESTIMATED, AT_LEAST = Certainty.EXACT, Certainty.ESTIMATED, Certainty.AT_LEAST

# --- what is known ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.WON, Outcome.KEPT, Outcome.REJECTED])
def test_a_whole_answer_costs_what_it_reported(outcome: Outcome) -> None:
    assert sums(bill(end(outcome, Usage(90, 7)), TERMS)) == (160, 160, 160, EXACT)


@pytest.mark.parametrize(
    "ended",
    [
        end(Outcome.FAILED, failure=REFUSED, sent_at=None, headers_at=None, status=None),
        end(sent_at=None, headers_at=None, status=None),
        end(Outcome.FAILED, status=429, failure=Failure(FailureClass.RATE_LIMITED, "", status=429)),
        end(Outcome.FAILED, status=500, failure=Failure(FailureClass.SERVER_ERROR, "", status=500)),
        end(Outcome.FAILED, status=400, failure=FILTERED),
        end(Outcome.CLIENT_GONE, status=503),
        end(Outcome.WON, status=404),
        end(Outcome.WON, Usage(90, 0), finish_reason="refusal"),
    ],
    ids=["refused", "never sent", "429", "500", "400", "left at an error", "an error handed through", "a refusal"],
)
def test_what_was_never_sent_or_was_refused_costs_nothing_for_sure(ended: AttemptEnded) -> None:
    assert sums(bill(ended, TERMS)) == (0, 0, 0, EXACT)
    assert sums(bill(ended, Terms())) == (0, 0, 0, EXACT)


def test_a_refusal_of_some_words_is_paid_for() -> None:
    assert sums(bill(end(Outcome.WON, Usage(90, 1), finish_reason="refusal"), TERMS)) == (100, 100, 100, EXACT)


def test_a_target_that_bills_refusals_bills_what_its_filter_refused() -> None:
    azure = Terms(PRICE, bills_refusals=True)
    assert sums(bill(end(Outcome.FAILED, status=400, failure=FILTERED), azure)) == (0, 100, None, ESTIMATED)
    body = b'{"error":{"code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}'
    elsewhere = msgspec.structs.replace(FILTERED, body=body)
    assert sums(bill(end(Outcome.FAILED, status=400, failure=elsewhere), TERMS)) == (0, 100, None, ESTIMATED)
    limited = end(Outcome.FAILED, status=429, failure=Failure(FailureClass.RATE_LIMITED, "", status=429))
    assert sums(bill(limited, azure)) == (0, 0, 0, EXACT)


def test_without_a_price_the_tokens_are_known_and_the_money_is_not() -> None:
    whole, loser = bill(end(Outcome.WON, Usage(90, 7)), Terms()), bill(end(usage=partial(90, 7)), Terms())
    assert (sums(whole), whole.usage) == ((None, None, None, EXACT), Usage(90, 7))
    assert sums(loser) == (None, None, None, AT_LEAST)


# --- attempts that were broken off -----------------------------------------------------------------------------------


def test_a_loser_is_never_free_and_nobody_knows_what_bounds_it() -> None:
    assert sums(bill(end(), TERMS)) == (0, 100, None, ESTIMATED)


def test_it_cost_at_least_what_it_had_reported_and_sent() -> None:
    assert sums(bill(end(usage=partial(90, 7)), TERMS)) == (160, 160, None, AT_LEAST)


def test_the_clients_limit_bounds_it_and_its_guess() -> None:
    ended = end(usage=partial(90, 7), output_limit=20)
    assert sums(bill(ended, TERMS)) == (160, 160, 290, AT_LEAST)
    over = end(usage=Usage(100, 50, source=UsageSource.ESTIMATED), output_limit=20)
    assert sums(bill(over, TERMS)) == (0, 300, 403 + 200, ESTIMATED)


def test_its_prompt_is_the_one_that_another_attempt_of_its_model_reported() -> None:
    assert sums(bill(end(output_limit=20), TERMS, Told(90, 7))) == (0, 90, 290, ESTIMATED)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (OnCancel.FULL, (160, 90 + 10 * EXPECTED_OUTPUT, None, ESTIMATED)),
        (OnCancel.GENERATED, (160, 160, None, AT_LEAST)),
        (OnCancel.INPUT, (90, 90, None, AT_LEAST)),
        (OnCancel.NONE, (0, 0, None, ESTIMATED)),
    ],
)
@pytest.mark.parametrize("outcome", [Outcome.SUPERSEDED, Outcome.CLIENT_GONE, Outcome.REJECTED, Outcome.FAILED])
def test_what_its_provider_bills_for_a_cancel_says_what_it_costs(
    outcome: Outcome, mode: OnCancel, expected: tuple[int, int, int, Certainty]
) -> None:
    failure = STALLED if outcome is Outcome.FAILED else None
    ended = end(outcome, partial(90, 7), failure=failure)
    assert sums(bill(ended, Terms(PRICE, stream=mode))) == expected
    assert sums(bill(msgspec.structs.replace(ended, stream=False), Terms(PRICE, whole=mode))) == expected


def test_an_answer_may_have_been_whole_before_the_cancel_was_seen() -> None:
    ended = end(usage=partial(90, 7), output_limit=30)
    assert [bill(ended, Terms(PRICE, stream=mode)).most for mode in OnCancel] == [390] * 4


def test_what_is_reported_before_a_first_token_counts_no_tokens_for_sure() -> None:
    assert sums(bill(end(usage=partial(90, 1), first_token_at=None), TERMS)) == (90, 100, None, ESTIMATED)


def test_a_provider_that_generates_to_the_end_is_taken_to_say_as_much_as_the_winner() -> None:
    full = Terms(PRICE, stream=OnCancel.FULL)
    assert sums(bill(end(usage=partial(90, 7)), full, Told(90, 40))) == (160, 490, None, ESTIMATED)
    assert sums(bill(end(usage=partial(90, 7), output_limit=30), full, Told(90, 40))) == (160, 390, 390, ESTIMATED)


@pytest.mark.parametrize("failure", [CUT, IN_STREAM])
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT])
def test_what_broke_off_by_itself_may_not_be_billed_at_all(outcome: Outcome, failure: Failure) -> None:
    ended = end(outcome, partial(90, 7), failure=failure, output_limit=20)
    assert sums(bill(ended, Terms(PRICE, stream=OnCancel.NONE))) == (0, 160, 290, ESTIMATED)


# --- prices ----------------------------------------------------------------------------------------------------------


def test_cached_and_written_tokens_have_their_own_price() -> None:
    price = Price(1_000_000, 10_000_000, cached_input=100_000, cache_write=1_250_000)
    usage = Usage(1_000, 10, 500, cache_write_tokens=200)
    assert sums(bill(end(Outcome.WON, usage), Terms(price))) == (700, 700, 700, EXACT)


def test_for_how_long_something_was_written_to_a_cache_is_not_always_told() -> None:
    price = Price(1_000_000, 10_000_000, cache_write=1_250_000, cache_write_1h=2_000_000)
    usage = Usage(1_000, 10, cache_write_tokens=200)
    assert sums(bill(end(Outcome.WON, usage), Terms(price))) == (1_150, 1_150, 1_300, AT_LEAST)
    told = Usage(1_000, 10, cache_write_tokens=200, cache_write_1h_tokens=100)
    assert sums(bill(end(Outcome.WON, told), Terms(price))) == (1_225, 1_225, 1_225, EXACT)
    assert sums(bill(end(Outcome.WON, Usage(1_000, 10)), Terms(price))) == (1_100, 1_100, 1_100, EXACT)


def test_whether_a_losers_prompt_was_cached_is_not_known() -> None:
    price = Price(1_000_000, 10_000_000, cached_input=100_000, cache_write=1_250_000)
    came_to = bill(end(usage=partial(None, 1), output_limit=2), Terms(price), Told(1_000, 7))
    assert sums(came_to) == (110, 1_010, 1_270, ESTIMATED)


def test_the_tier_that_the_upstream_names_has_its_own_price() -> None:
    price = Price(1_000_000, 10_000_000, tiers={"flex": Price(500_000, 5_000_000)})
    usage = Usage(100, 10)

    def came_to(tier: str | None) -> tuple[int | None, int | None, int | None, Certainty]:
        return sums(bill(end(Outcome.WON, usage, service_tier=tier), Terms(price)))

    assert came_to("flex") == came_to("FLEX") == (100, 100, 100, EXACT)
    assert came_to(None) == came_to("default") == came_to("standard") == (200, 200, 200, EXACT)
    assert came_to("scale") == (0, 200, None, ESTIMATED)


def test_in_which_tier_a_loser_was_is_not_known() -> None:
    price = Price(1_000_000, 10_000_000, tiers={"flex": Price(500_000, 5_000_000), "priority": Price(2_000_000)})
    assert sums(bill(end(usage=partial(100, 1), output_limit=2), Terms(price))) == (55, 110, 200, ESTIMATED)


def test_long_prompts_cost_more_and_all_of_them() -> None:
    price = Price(1_000_000, 10_000_000, above=((200, Price(2_000_000, 15_000_000)), (500, Price(3_000_000))))
    assert [price.cost(read, 1) for read in (200, 201, 500, 501)] == [210, 417, 1_015, 1_503]


def test_a_price_by_request_needs_no_tokens() -> None:
    by_request = Terms(Price(request=700))
    assert sums(bill(end(Outcome.WON), by_request)) == (0, 700, 700, ESTIMATED)
    assert sums(bill(end(Outcome.WON, Usage(5, 0)), by_request)) == (700, 700, 700, EXACT)


def test_a_target_that_passes_the_model_on_has_the_price_of_each() -> None:
    listed = [Listed(Price(1_000_000), ("gpt-5-mini",)), Listed(Price(2_000_000), pattern=r"\Agpt-5")]
    terms = Terms(None, listed)
    asked = ["gpt-5-mini", "GPT-5-2025-08-07", "other", None]
    assert [bill(end(Outcome.WON, Usage(10, 0), model=model), terms).nanousd for model in asked] == [10, 20, None, None]
    dated = Terms(None, [Listed(Price(1_000_000), ("m-2025-08-07",))])
    assert dated.price("m-20250807") == Price(1_000_000)


# --- requests --------------------------------------------------------------------------------------------------------


def test_what_read_another_prompt_tells_nothing_of_this_one() -> None:
    broken = end(Outcome.FAILED_AFTER_COMMIT, failure=CUT, output_limit=0)
    went_on = end(Outcome.WON, Usage(900, 7), attempt=1, input_tokens=1_000)
    first, _ = bills([broken, went_on], lambda _: TERMS)
    assert sums(first) == (0, 100, 403, ESTIMATED)


def test_the_attempts_of_a_request_tell_of_each_other() -> None:
    loser = end(attempt=0, model="openai/m-2025-08-07", output_limit=50)
    winner = end(Outcome.WON, Usage(90, 7), attempt=1, target="b", model="m")
    other = end(attempt=2, target="c", model="x")
    first, second, third = bills([winner, other, loser], {"a": TERMS, "b": TERMS, "c": TERMS}.__getitem__)
    assert (first.attempt, first.target, first.usage) == (
        0,
        "a",
        Usage(90, 0, source=UsageSource.ESTIMATED),
    )
    assert sums(first) == (0, 90, 590, ESTIMATED)
    assert sums(second) == (160, 160, 160, EXACT)
    assert sums(third) == (0, 90, None, ESTIMATED)
    assert third.usage.input_tokens == 90


def test_what_another_model_read_is_a_guess_and_no_bound() -> None:
    """The prompt of 400 bytes was 90 tokens to it; or 900, since an image came with it."""
    loser = end(model="x", output_limit=0)
    for read, most in ((90, 403), (900, 900)):
        first, _ = bills([loser, end(Outcome.WON, Usage(read, 7), attempt=1)], lambda _: TERMS)
        assert sums(first) == (0, read, most, ESTIMATED)
    begun = end(usage=partial(80, 3), model="x", output_limit=3)
    first, _ = bills([begun, end(Outcome.WON, Usage(90, 7), attempt=1)], lambda _: TERMS)
    assert first.usage.input_tokens == 80  # its own word goes first


def test_what_is_only_handed_through_has_no_price() -> None:
    through = [end(Outcome.WON), end(Outcome.WON, status=404, attempt=1)]
    passed, refused = bills(through, lambda _: TERMS, metered=False)
    assert sums(passed) == (0, None, None, ESTIMATED)
    assert sums(refused) == (0, 0, 0, EXACT)


def test_one_model_has_many_names() -> None:
    names = ["gpt-5-mini", "openai/GPT-5-mini", "gpt-5-mini-2025-08-07", "gpt-5-mini-20250807", "gpt-5-mini-latest"]
    assert {model_of(name) for name in names} == {"gpt-5-mini"}
    assert model_of("gpt-5") != model_of("gpt-5-mini")
    assert model_of(None) is None


# --- whatever comes --------------------------------------------------------------------------------------------------

counts = st.none() | st.integers(0, 10**6)
usages = st.none() | st.builds(
    Usage, counts, counts, counts, counts, counts, counts, source=st.sampled_from(list(UsageSource))
)
rates = st.integers(0, 10**8)
flat = st.builds(Price, rates, rates, rates, st.none() | rates, st.none() | rates, st.none() | rates)
prices = st.builds(
    lambda plain, tier, above: msgspec.structs.replace(plain, tiers={"flex": tier}, above=((500, above),)),
    flat,
    flat,
    flat,
)
failures = st.none() | st.sampled_from([REFUSED, STALLED, CUT, IN_STREAM, FILTERED])


@given(
    outcome=st.sampled_from(list(Outcome)),
    usage=usages,
    failure=failures,
    limit=st.none() | st.integers(0, 10**6),
    tier=st.sampled_from([None, "flex", "default", "scale"]),
    price=prices,
    mode=st.sampled_from(list(OnCancel)),
    told=st.builds(Told, counts, counts, counts),
    stream=st.booleans(),
)
def test_the_guess_lies_within_its_bounds_and_never_above_the_limit_of_tokens(
    outcome: Outcome,
    usage: Usage | None,
    failure: Failure | None,
    limit: int | None,
    tier: str | None,
    price: Price,
    mode: OnCancel,
    told: Told,
    stream: bool,
) -> None:
    ended = end(outcome, usage, failure=failure, output_limit=limit, service_tier=tier, stream=stream)
    came_to = bill(ended, Terms(price, stream=mode, whole=mode), told)
    assert came_to.nanousd is not None
    assert came_to.least is not None
    assert 0 <= came_to.least <= came_to.nanousd
    assert came_to.most is None or came_to.nanousd <= came_to.most
    assert (came_to.certainty is EXACT) == (came_to.least == came_to.most)
    reported = usage is not None and usage.source is UsageSource.REPORTED
    if limit is not None and not reported:
        assert (came_to.usage.output_tokens or 0) <= limit
