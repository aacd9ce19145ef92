"""What calls share: budgets across threads and rules, what was learned, and no refusal of a key that is another's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from hedgerow import Hedger, Policy, Target, hedge, hedged, hedged_completion
from hedgerow.client import calls, holders
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, run, turn

CALLS = 70
AFFORDED = 50 + 3
"""Hedges of so many calls at 5 %, with 50 at once: the first call finds all of them there already."""


async def slow() -> str:
    await asyncio.sleep(5)
    return "slow"


async def quick() -> str:
    return "quick"


async def at_once_or_not(call: Callable[[], Any], told: list[bool]) -> None:
    try:
        told.append((await asyncio.wait_for(call(), 0.03)).hedged)
    except TimeoutError:
        told.append(False)


@pytest.mark.parametrize("together", [1, 10])
def test_threads_do_not_each_have_a_budget_of_their_own(together: int) -> None:
    """A thread for each call, as under some web servers, had fifty hedges for each."""
    hedger = Hedger("r", [slow, quick], Policy(delay=0, budget=0.05))
    told: list[bool] = []
    for _ in range(CALLS // together):
        threads = [threading.Thread(target=asyncio.run, args=(at_once_or_not(hedger, told),)) for _ in range(together)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert (len(told), sum(told)) == (CALLS, AFFORDED)
    assert len(hedger._course._homes) <= together  # a thread that comes goes on with what one that is gone has learned


RULES: list[Callable[[int], dict[str, Any]]] = [
    lambda number: {"deadline": 9 - number / 100},
    lambda number: {"delay": number / 1e6},
    lambda number: {"first_token_timeout": 7 + number, "stall_timeout": 7 + number, "keep_time": 7 + number},
    lambda number: {"strict": number % 2 == 0, "losers": "keep" if number % 3 else "cancel", "max_hedges": 1},
]


@pytest.mark.parametrize("rules", RULES)
def test_calls_that_say_another_deadline_each_time_share_a_budget(rules: Callable[[int], dict[str, Any]]) -> None:
    """Each value had fifty hedges of its own."""

    async def main(_: VirtualLoop) -> None:
        calls._courses.clear()
        calls._trunks.clear()
        later, hedged = Book().target("later", 0.001), 0
        for number in range(CALLS):
            result = await hedge(later, quick, **{"delay": 0, "budget": 0.05, **rules(number)})
            hedged += result.hedged
            await result.alternatives.aclose()
        learned = "delay" in rules(0)  # the first of them, of 0, is a kind of its own with a budget of its own
        assert hedged == AFFORDED + learned
        assert len(calls._trunks) == 1 + learned
        await turn()

    run(main)


def test_a_call_that_is_made_on_and_on_keeps_its_budget_whatever_others_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a thousand others, a rule of its own that was said for the first time had fifty hedges more."""
    monkeypatch.setattr(calls, "KEPT", 4)

    async def main(_: VirtualLoop) -> None:
        async def late() -> str:
            await asyncio.sleep(0.002)
            return "late"

        async def hedges(many: int, **passing: Any) -> int:
            said = [await hedge(late, quick, delay=0.001, budget=0.001, name="hot", **passing) for _ in range(many)]
            return sum(each.hedged for each in said)

        assert await hedges(CALLS) == 50
        for number in range(20):
            await hedge(quick, slow, delay=5.0, name=f"other {number}")
            assert await hedges(1) == 0
        assert await hedges(CALLS, max_delay=9.0) == 0

    run(main)


def test_calls_that_say_another_deadline_each_time_learn_together() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        for number in range(151):
            first = book.target("first", 0.1 if number < 150 else 8.0)
            rest: dict[str, Any] = {"deadline": 20 - number / 1_000, "stall_timeout": 5 + number}
            result = await hedge(first, book.target("second", 0.0), delay="p95", budget=None, name="learns", **rest)
            await asyncio.sleep(1)
        assert result.hedged
        assert result.latency == pytest.approx(0.1, rel=0.05)
        await turn()

    run(main)


def test_a_loop_whose_time_begins_anew_knows_nothing_of_the_future_of_another() -> None:
    """Of a suite of tests in virtual time each begins with all of the budget."""
    calls._courses.clear()
    calls._known.clear()
    later = Book().target("later", 0.5)

    async def hedges(_: VirtualLoop) -> int:
        hedged = 0
        for number in range(80):
            result = await hedge(later, quick, delay=0 if number else "p1", max_delay=9 + number, budget=0.05)
            hedged += result.hedged
        await turn()
        return hedged

    told = [run(hedges) for _ in range(2)]
    assert told[0] == told[1] < 80


def test_a_deadline_holds_for_the_call_that_says_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        for seconds in (3.0, 1.0, 2.0):
            began = loop.time()
            with pytest.raises(TimeoutError):
                await hedge(slow, delay="off", deadline=seconds)
            assert loop.time() - began == seconds
        assert (await hedge(slow, delay="off")).value == "slow"
        await turn()

    run(main)


class Refused(Exception):
    status_code = 401


class Caller:
    """Has a key of its own, which may be good, for two models; it counts the calls of the first."""

    def __init__(self, *, good: bool) -> None:
        self.good, self.asked = good, 0
        self.chat = self.completions = self  # as clients of SDKs have it

    async def first(self) -> str:
        self.asked += 1
        if not self.good:
            raise Refused
        return "first"

    async def second(self) -> str:
        return "second"

    async def create(self, *, model: str, messages: object) -> str:
        return await (self.first() if model == "first" else self.second())

    @hedged(second, delay=1)
    async def either(self) -> str:
        return await self.first()


async def first_of(caller: Caller, _text: str) -> str:
    return await caller.first()


async def second_of(caller: Caller, _text: str) -> str:
    return await caller.second()


async def as_methods(caller: Caller) -> str:
    return (await hedge(caller.first, caller.second, delay=1)).value


async def as_lambdas(caller: Caller) -> str:
    return (await hedge(lambda: caller.first(), lambda: caller.second(), delay=1)).value


async def as_partials(caller: Caller) -> str:
    return (await hedge(partial(first_of, caller, "x"), partial(second_of, caller, "x"), delay=1)).value


async def as_arguments(caller: Caller) -> str:
    return (await hedge(first_of, second_of, args=(caller, "x"), delay=1, name="arguments")).value


async def as_a_decorated_method(caller: Caller) -> str:
    return await caller.either()


async def as_clients(caller: Caller) -> str:
    said = await hedged_completion("x", primary=(caller, "first"), backup=(caller, "second"), hedge_delay_ms=1)
    return said.content


@pytest.mark.parametrize("ask", [as_methods, as_lambdas, as_partials, as_arguments, as_a_decorated_method, as_clients])
def test_a_key_that_is_refused_to_one_caller_takes_the_target_from_no_other(
    ask: Callable[[Caller], Coroutine[Any, Any, str]], caplog: pytest.LogCaptureFixture
) -> None:
    async def main(_: VirtualLoop) -> None:
        bad, good = Caller(good=False), Caller(good=True)
        said = [await ask(bad) for _ in range(3)] + [await ask(good) for _ in range(3)]
        assert said == ["second"] * 3 + ["first"] * 3
        assert (bad.asked, good.asked) == (1, 3)  # for its own caller it is out
        for _number in range(5):  # of objects at the same place in memory, one after the other
            assert await ask(Caller(good=False)) == "second"
            assert await ask(Caller(good=True)) == "first"
        await turn()

    run(main)
    assert "is out for 120 s for calls with this key: upstream_auth (Refused: HTTP 401)" in caplog.messages[0]


def test_a_key_that_only_a_closure_knows_is_taken_to_be_of_its_call_alone() -> None:
    async def main(_: VirtualLoop) -> None:
        asked = 0

        async def ask(key: str) -> str:
            async def first() -> str:
                nonlocal asked
                asked += 1
                if key == "bad":
                    raise Refused
                return "first"

            return (await hedge(first, quick, delay=1, name="closures")).value

        assert [await ask(key) for key in ("bad", "good", "bad", "good")] == ["quick", "first"] * 2
        for key in ["bad"] * 40:  # all alike: of that the breaker hears
            assert await ask(key) == "quick"
        assert asked == 20
        await turn()

    run(main)


@pytest.mark.parametrize("said", [True, False])
def test_where_the_key_is_the_targets_own_it_is_out_for_everybody(*, said: bool) -> None:
    """That is so of plain functions of plain arguments, and of a target whose account was said."""

    async def main(_: VirtualLoop) -> None:
        asked = 0

        async def method(_caller: object, _text: str) -> str:
            nonlocal asked
            asked += 1
            raise Refused

        for caller in (Caller(good=True), Caller(good=False)):
            target = Target(call=method, name="first", account="team") if said else REFUSING
            result = await hedge(target, answering, args=(caller if said else "x", "y"), delay=1, name=f"own {said}")
            assert result.value == "answer"
        assert len(result.attempts) == 1
        assert asked == said
        await turn()

    run(main)


async def answering(*_args: Any) -> str:
    return "answer"


async def refusing(*_args: Any) -> str:
    raise Refused


REFUSING = Target(call=refusing, name="refusing")


def test_of_very_many_callers_that_are_refused_only_some_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_: VirtualLoop) -> None:
        monkeypatch.setattr(holders, "_MOST", 3)
        callers = [Caller(good=False) for _ in range(9)]
        hedger = Hedger("r", [first_of, second_of], Policy(delay=1, breaker=False))
        for caller in [*callers, *callers]:
            assert (await hedger(caller, "x")).value == "second"
        assert sum(caller.asked for caller in callers) == 3 + 2 * 6
        assert len(hedger._course.home().route.health.out) == 3
        await turn()

    run(main)
