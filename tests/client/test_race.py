"""The behaviours that a hedger owes its caller, each with the failure of other hedgers that it answers.

B1 to B23 are the failures that a survey of thirty systems found; test_behaviours.py has the list of what is owed. All
run in virtual time, so times are compared by ==.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Policy, Target, chain, hedge, race
from hedgerow.client.home import REFRESH
from hedgerow.events import Event, FailureClass, HedgeSkipped, Outcome, Reason, Role
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, Closable, run, turn


def test_a_fast_primary_is_the_only_request_and_takes_nothing_of_the_budget() -> None:
    """LiteLLM's fastest_response calls all models for each request and pays for all of them."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        hedger = Hedger("r", [book.target("a", 1.0), book.target("b", 1.0)], Policy(delay=2))
        result = await hedger()
        assert (result.value, result.target, result.latency, result.hedged, result.reason) == (
            "a",
            "a",
            1.0,
            False,
            None,
        )
        assert book.called == [("a", 0.0)]
        assert [each.outcome for each in result.attempts] == [Outcome.WON]
        spent = hedger.state()["spend"]["route"]["hedges"]
        assert spent["balance"] == spent["burst"]

    run(main)


def test_a_slow_primary_is_hedged_at_the_delay_and_cancelled_at_once_when_the_backup_wins() -> None:
    """Crucible waits for both and gains nothing (B10); hedgedhttp leaves losers' bodies open (B14)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.target("a", 10.0), book.target("b", 1.0), delay=2)
        assert (result.value, result.latency, result.hedged) == ("b", 3.0, True)
        assert book.called == [("a", 0.0), ("b", 2.0)]
        await turn()
        assert ("a", "cancelled", 3.0) in book.ended
        first, second = result.attempts
        assert (first.role, first.outcome, first.ended) == (Role.PRIMARY, Outcome.SUPERSEDED, 3.0)
        assert (second.role, second.outcome, second.launched, second.first_token) == (Role.HEDGE, Outcome.WON, 2.0, 3.0)

    run(main)


def test_a_primary_that_answers_as_the_delay_ends_is_not_hedged() -> None:
    """From the timer that ends its wait to the end of its coroutine it is some turns of the loop; in a busy one, ms."""

    async def main(_: VirtualLoop) -> None:
        book = Book()

        async def deeper() -> str:
            return str(await book.target("a", 2.0)())

        assert not (await hedge(deeper, book.target("b", 9.0), delay=2)).hedged
        assert book.called == [("a", 0.0)]

    run(main)


def test_a_primary_may_win_after_its_hedge_was_launched() -> None:
    """The hedge is cancelled, and counts: Scylla's domino began with hedges that nobody counted."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        hedger = Hedger("r", [book.target("a", 3.0), book.target("b", 9.0)], Policy(delay=2))
        result = await hedger()
        assert (result.value, result.hedged, len(result.attempts)) == ("a", True, 2)
        await turn()
        assert ("b", "cancelled", 3.0) in book.ended
        spent = hedger.state()["spend"]["route"]["hedges"]
        assert spent["burst"] - 1 <= spent["balance"] < spent["burst"] - 0.9, "a little is earned by the minute"

    run(main)


def test_a_failure_before_the_delay_launches_the_next_target_at_once() -> None:
    """grpc-java and asynchedging wait for the timer all the same: 62 ms in place of 11 (B4)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.target("a", 1.0, error=ConnectionError("no")), book.target("b", 1.0), delay=5)
        assert (result.value, result.latency, result.hedged) == ("b", 2.0, False)
        assert result.attempts[1].role is Role.FAILOVER
        assert result.attempts[0].failure is not None
        assert result.attempts[0].failure.kind is FailureClass.CONNECT

    run(main)


def test_a_failure_does_not_move_the_time_of_the_next_launch() -> None:
    """resile and nopanic start their delay anew at each failure: their third attempt came at 111 ms, not at 60."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        targets = book.target("a", 60.0), book.target("b", 1.0, error=ValueError()), book.target("c", 60.0)
        with pytest.raises(EveryAttemptFailed):
            await hedge(*targets, delay=2, max_hedges=2, deadline=10)
        assert book.called == [("a", 0.0), ("b", 2.0), ("c", 3.0)]
        await turn()

    run(main)


class BadRequest(Exception):
    status_code = 400


def test_a_request_that_is_at_fault_itself_is_asked_nowhere_else() -> None:
    """clawvisor's issue 355: what fails at one place because of the request fails at all."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        with pytest.raises(BadRequest):
            await hedge(book.target("a", 1.0, error=BadRequest()), book.target("b", 1.0), delay=5)
        assert book.called == [("a", 0.0)]

    run(main)


def test_an_error_never_beats_a_running_rival() -> None:
    """tower, bhope, resilience4j, hedge-python and httpx-hedged let a fast error of the hedge win (B1)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.target("a", 9.0), book.target("b", 1.0, error=OSError("no")), delay=2)
        assert (result.value, result.latency) == ("a", 9.0)
        assert [each.outcome for each in result.attempts] == [Outcome.WON, Outcome.FAILED]

    run(main)


def test_a_request_that_is_at_fault_at_the_hedge_does_not_end_the_primary() -> None:
    """model-hotel's PR 803: a rival was cancelled since another said error."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.target("a", 9.0), book.target("b", 1.0, error=BadRequest()), delay=2)
        assert result.value == "a"

    run(main)


def test_all_failures_are_one_error_that_tells_of_each_attempt() -> None:
    """asynchedging raises an ExceptionGroup that no `except` of the SDK's error catches (B19)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        with pytest.raises(KeyError) as caught:
            await hedge(book.target("a", 1.0, error=KeyError("k")), book.target("b", 1.0, error=OSError("no")), delay=5)
        error = caught.value
        assert isinstance(error, EveryAttemptFailed)
        assert [(each.target, type(each.error)) for each in error.attempts] == [("a", KeyError), ("b", OSError)]
        assert str(error) == "2 of 2 attempts failed: a: KeyError: 'k'; b: OSError: no"
        assert type(error.__cause__) is OSError

    run(main)


@pytest.mark.parametrize("swap", [False, True])
def test_of_two_answers_in_one_turn_the_earlier_attempts_wins_and_the_other_is_closed(swap: bool) -> None:
    """hedge-python never closes the loser's response of such a tie (B14)."""

    async def main(loop: VirtualLoop) -> None:
        answers = Closable("a"), Closable("b")
        gates = asyncio.Event(), asyncio.Event()

        def target(which: int) -> Target[Coroutine[Any, Any, Closable]]:
            async def call() -> Closable:
                await gates[which].wait()
                return answers[which]

            return Target(call=call, name="ab"[which])

        def open_both() -> None:
            for gate in reversed(gates) if swap else gates:
                gate.set()

        loop.call_later(5, open_both)
        result = await race(target(0), target(1))
        first, second = answers
        assert result.value is first
        await turn()
        assert (first.closed, second.closed) == (0, 1)
        assert [each.outcome for each in result.attempts] == [Outcome.WON, Outcome.SUPERSEDED]

    run(main)


def test_an_answer_and_an_error_in_one_turn_are_an_answer() -> None:
    """asynchedging leaves to chance which exception of its ExceptionGroup surfaces (B19); an answer is none."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await race(book.target("a", 3.0, error=ValueError()), book.target("b", 3.0))
        assert result.value == "b"

    run(main)


def test_an_answer_that_is_shared_by_both_attempts_is_not_closed_under_the_winner() -> None:
    async def main(_: VirtualLoop) -> None:
        book, shared = Book(), Closable("s")
        result = await race(book.target("a", 3.0, shared), book.target("b", 3.0, shared))
        await turn()
        assert (result.value, shared.closed) == (shared, 0)

    run(main)


def test_the_deadline_spans_all_attempts() -> None:
    """Each of resilience4j's attempts has its own time; here the caller's is one."""

    async def main(loop: VirtualLoop) -> None:
        book = Book()
        with pytest.raises(TimeoutError) as caught:
            await hedge(book.target("a", 60.0), book.target("b", 60.0), delay=2, deadline=10)
        assert loop.time() == 10.0
        assert isinstance(caught.value, EveryAttemptFailed)
        await turn()
        assert book.open == 0

    run(main)


def test_an_attempt_that_is_late_for_its_first_item_has_failed() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await chain(book.target("a", 60.0), book.target("b", 1.0), first_token_timeout=5)
        assert (result.value, result.latency, result.hedged) == ("b", 6.0, False)
        await turn()
        assert ("a", "cancelled", 5.0) in book.ended

    run(main)


def test_without_a_budget_left_the_call_goes_on_plainly_and_says_why() -> None:
    """failsafe-go killed the running attempts when its budget was used up (its issue 141)."""

    async def main(_: VirtualLoop) -> None:
        book, skipped = Book(), list[Event]()
        hedger = Hedger(
            "r", [book.target("a", 3.0), book.target("b", 9.0)], Policy(delay=1, budget=0.1), listeners=[skipped.append]
        )
        results = [await hedger() for _ in range(200)]
        hedged = sum(each.hedged for each in results)
        assert {each.value for each in results} == {"a"}
        assert 0 < hedged < 200
        refused = [each for each in results if not each.hedged]
        assert {each.reason for each in refused} <= {Reason.BUDGET, Reason.OUTAGE}
        assert sum(isinstance(each, HedgeSkipped) for each in skipped) == len(refused)
        await turn()

    run(main)


def test_a_thousand_calls_at_once_do_not_pass_the_budget() -> None:
    """Checking first and taking later lets a burst pass: failsafe-go does so, and brpc caches its ratio for 5 s."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        hedger = Hedger("r", [book.target("a", 3.0), book.target("b", 9.0)], Policy(delay=1, budget=0.05))
        results = await asyncio.gather(*(hedger() for _ in range(1_000)))
        hedged = sum(each.hedged for each in results)
        burst = hedger.state()["spend"]["route"]["hedges"]["burst"]
        assert 0 < hedged <= burst + 0.05 * 1_000
        await turn()
        assert book.open == 0

    run(main)


def test_few_calls_still_earn_a_hedge() -> None:
    """Finagle's window needs ten requests a second before it ever hedges one (its issue 905)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        assert (await hedge(book.target("a", 9.0), book.target("b", 1.0), delay=1)).hedged

    run(main)


class RateLimited(Exception):
    def __init__(self, seconds: str) -> None:
        super().__init__("slow down")
        self.status_code = 429
        self.response = type("Response", (), {"status_code": 429, "headers": {"retry-after": seconds}})()


def test_a_target_that_says_slow_down_gets_no_request_until_then() -> None:
    """grpc-js reads `soon` as a pushback of NaN and forgets it (B22); hedges of others ignore it at all (B8)."""

    async def main(loop: VirtualLoop) -> None:
        book = Book()
        limited = RateLimited("60")
        hedger = Hedger("r", [book.target("a", 1.0, error=limited), book.target("b", 1.0)], Policy(delay=5))
        assert (await hedger()).value == "b"
        assert (await hedger()).value == "b"
        assert [name for name, _ in book.called] == ["a", "b", "b"]
        await asyncio.sleep(61 - loop.time())
        await hedger()
        assert [name for name, _ in book.called] == ["a", "b", "b", "a", "b"]

    run(main)


def test_a_key_that_is_used_up_is_not_asked_by_its_other_name() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        first = Target(call=book.target("a", 1.0, error=RateLimited("9")), name="a", account="key")
        again = Target(call=book.target("b", 1.0), name="b", account="key")
        other = Target(call=book.target("c", 1.0), name="c")
        result = await hedge(first, again, other, delay=5, max_hedges=2)
        assert result.value == "c"
        assert [name for name, _ in book.called] == ["a", "c"]

    run(main)


def test_a_target_that_fails_is_left_out_and_being_superseded_is_no_failure() -> None:
    """model-hotel had to tell losers apart, so that they do not open breakers of healthy providers (B12)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        turns = iter([9.0, 1.0] * 60)

        async def now_and_then() -> str:
            return str(await book.target("a", next(turns))())

        slow = Hedger("slow", [now_and_then, book.target("b", 1.0)], Policy(delay=2, budget=None))
        assert [(await slow()).value for _turn in range(120)] == ["b", "a"] * 60
        broken = Hedger("r", [book.target("a", 0.1, error=OSError()), book.target("b", 0.1)], Policy(delay=5))
        for _turn in range(30):
            await broken()
        book.called.clear()
        await broken()
        assert [name for name, _ in book.called] == ["b"]
        policy = Policy(delay=5, breaker=False)
        stubborn = Hedger("r", [book.target("a", 0.1, error=OSError()), book.target("b", 0.1)], policy)
        assert {len((await stubborn()).attempts) for _ in range(30)} == {2}

    run(main)


def test_learned_delays_hold_a_hedge_back_until_enough_is_known() -> None:
    """bhope and hedge-python hedge at 10 ms until they know better: most of their first calls."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        hedger = Hedger(
            "r",
            [book.target("a", 1.0), book.target("b", 0.5)],
            Policy(delay="p95", warmup_delay=None, warmup_samples=40),
        )
        assert not any([(await hedger()).hedged for _ in range(40)])

    run(main)


def test_learned_delays_follow_what_calls_took() -> None:
    """And losers count as what they are, at least so slow: dropped, a p95 hedges 12 to 20 % (B5)."""

    async def main(loop: VirtualLoop) -> None:
        draw = random.Random(7)

        async def primary() -> str:
            await asyncio.sleep(draw.uniform(1.0, 2.0))
            return "a"

        async def backup() -> str:
            await asyncio.sleep(0.01)
            return "b"

        policy = Policy(delay="p90", warmup_delay=None, warmup_samples=100, budget=None)
        hedger: Hedger[str] = Hedger("r", [primary, backup], policy)
        hedged = [(await hedger()).hedged for _ in range(3_000)]
        late = hedged[1_000:]
        assert 0.08 <= sum(late) / len(late) <= 0.12
        assert loop.time() > REFRESH

    run(main)


def test_delays_stay_within_their_bound_when_many_primaries_hang() -> None:
    """Recording a request's whole time, as bhope and hedge-python do, sends the delay from 3.6 to 123 (B6)."""

    async def main(_: VirtualLoop) -> None:
        draw = random.Random(7)

        async def primary() -> str:
            await asyncio.sleep(1_000.0 if draw.random() < 0.3 else draw.uniform(0.5, 1.5))
            return "a"

        async def backup() -> str:
            await asyncio.sleep(draw.uniform(0.5, 1.5))
            return "b"

        policy = Policy(delay="p95", max_delay=5, warmup_delay=2, warmup_samples=50, budget=None)
        hedger: Hedger[str] = Hedger("r", [primary, backup], policy)
        latencies = [(await hedger()).latency for _ in range(1_000)]
        assert max(latencies) <= 6.5
        await turn()

    run(main)


def test_a_race_launches_all_at_once_and_a_chain_one_by_one() -> None:
    """lemmas and frace only race, tenacity only chains."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await race(book.target("a", 3.0), book.target("b", 2.0), book.target("c", 1.0))
        assert (result.value, result.hedged) == ("c", True)
        assert [each.role for each in result.attempts] == [Role.PRIMARY, Role.RACER, Role.RACER]
        assert book.called == [("a", 0.0), ("b", 0.0), ("c", 0.0)]
        book.called.clear()
        result = await chain(book.target("a", 1.0, error=ValueError()), book.target("b", 9.0), book.target("c", 1.0))
        assert (result.value, result.latency) == ("b", 10.0)
        assert [name for name, _ in book.called] == ["a", "b"]
        await turn()

    run(main)


def test_a_shadow_decides_and_launches_nothing() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.target("a", 9.0), book.target("b", 1.0), delay=2, mode="shadow")
        assert (result.value, result.hedged, result.reason) == ("a", False, Reason.SHADOW)
        assert book.called == [("a", 0.0)]

    run(main)


@pytest.mark.parametrize(
    ("rules", "launched"),
    [
        ({}, [("a", 0.0), ("b", 2.0)]),
        ({"max_hedges": 2}, [("a", 0.0), ("b", 2.0), ("c", 4.0)]),
        ({"max_hedges": 0}, [("a", 0.0)]),
        ({"delay": "off"}, [("a", 0.0)]),
        ({"delay": "500ms"}, [("a", 0.0), ("b", 0.5)]),
        ({"delay": 0}, [("a", 0.0), ("b", 0.0)]),
    ],
)
def test_every_rule_has_its_effect(rules: dict[str, object], launched: list[tuple[str, float]]) -> None:
    """max_hedges is a dead option of bhope and hedge-python (B18)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        targets = [book.target(name, 9.0) for name in "abc"]
        await Hedger("r", targets, Policy(**{"delay": 2, **rules}))()  # type: ignore[arg-type]  # of the table
        assert book.called == launched
        await turn()

    run(main)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"delay": "soon"}, "soon"),
        ({"budget": 2}, "budget is 2"),
        ({"budget": 0}, "budget is 0"),
        ({"deadline": "x"}, "deadline is 'x'"),
        ({"mode": "all"}, "mode is 'all'"),
        ({"losers": "drain"}, "losers is 'drain'"),
        ({"max_hedges": -1}, "max_hedges is -1"),
        ({"keep_time": "?"}, "keep_time is '?'"),
    ],
)
def test_a_policy_that_cannot_work_says_what_is_wrong(rules: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        Policy(**rules)  # type: ignore[arg-type]  # that is the point


def test_what_is_no_target_is_refused_with_its_type() -> None:
    async def main(_: VirtualLoop) -> None:
        with pytest.raises(TypeError, match="not int"):
            await hedge(1)  # type: ignore[call-overload]  # that is the point
        with pytest.raises(ValueError, match="at least one"):
            await race()

    run(main)


def test_a_budget_of_tokens_is_settled_by_what_answers_say() -> None:
    """None of the thirty systems that we looked at has a budget in tokens for calls."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        small = {"usage": {"prompt_tokens": 40, "completion_tokens": 10}}
        targets = book.target("a", 9.0), book.target("b", 1.0, small)
        policy = Policy(delay=1, budget=None, tokens_per_minute=1_200)
        hedger: Hedger[object] = Hedger("r", targets, policy, size=lambda: 100)
        # A hedge is taken to be 600 tokens until it has answered, and comes to 50: else the third were refused.
        assert [(await hedger()).hedged for _turn in range(8)] == [True] * 8
        dear = Hedger("d", targets, Policy(delay=1, budget=None, tokens_per_minute=599), size=lambda: 100)
        refused = await dear()
        assert (refused.hedged, refused.reason) == (False, Reason.BUDGET)

    run(main)
