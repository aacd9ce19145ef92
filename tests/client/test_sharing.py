"""What calls share: budgets across threads and rules, what was learned, and no refusal of a key that is another's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hedgerow import Hedger, Policy, hedge
from hedgerow.client import calls
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
        learned = "delay" in rules(0)  # one that is not 0 may be late, which stops hedges before the budget does
        assert hedged <= AFFORDED if learned else hedged == AFFORDED
        assert len(calls._trunks) == 1 + learned
        await turn()

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
