"""Budgets in money, in process: hedges stop when they have cost so much, and a missing price is an error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hedgerow import Hedger, HttpTarget, Policy, Target, hedge, http_client
from hedgerow.events import Reason
from hedgerow.testing import VirtualLoop, scripted
from tests.client.support import run

FREE: dict[str, Any] = {"delay": 0.1, "budget": None, "outage": False}


class Answer:
    """As an SDK's, that says what it used."""

    def __init__(self, read: int, made: int) -> None:
        self.usage = {"prompt_tokens": read, "completion_tokens": made}


def test_hedges_stop_when_they_have_cost_what_an_hour_may() -> None:
    async def main(_: VirtualLoop) -> None:
        slow, backup = scripted("slow", after=9), scripted("backup")
        targets = [Target(call=slow, name="slow", price=0.01), Target(call=backup, name="backup", price="0.25")]
        hedger: Hedger[str] = Hedger("x", targets, Policy(**FREE, usd_per_hour=1))
        results = [await hedger() for _ in range(6)]
        assert [each.reason for each in results] == [None] * 4 + [Reason.BUDGET] * 2
        await asyncio.sleep(2 * 3_600)
        assert (await hedger()).hedged

    run(main)


def test_calls_of_hedge_have_it_too() -> None:
    async def main(_: VirtualLoop) -> None:
        slow = Target(call=scripted("slow", after=9), name="slow", price=0)
        backup = Target(call=scripted("backup"), name="backup", price=2)
        results = [await hedge(slow, backup, usd_per_day=3, **FREE) for _ in range(2)]
        assert [each.reason for each in results] == [None, Reason.BUDGET]

    run(main)


def test_what_answers_say_they_used_is_what_they_cost() -> None:
    """Each hedge reads a million tokens for a dollar and writes none; the estimate at its start was a tenth of that."""

    async def main(_: VirtualLoop) -> None:
        slow, backup = scripted("slow", after=9), scripted("backup", value=Answer(1_000_000, 0))
        price: Any = {"input": 1, "output": "0"}
        targets: Any = [Target(call=each, name=each.name, price=price) for each in (slow, backup)]
        hedger: Hedger[Any] = Hedger("x", targets, Policy(**FREE, usd_per_hour=3.5), size=lambda: 100_000)
        reasons = [(await hedger()).reason for _ in range(6)]
        assert reasons == [None] * 4 + [Reason.BUDGET] * 2
        assert hedger.state()["spend"]["route"]["nanousd"]["hour"]["spent"] == 4_000_000_000

    run(main)


async def answer() -> str:
    return "answer"


@pytest.mark.parametrize(
    ("targets", "policy", "words"),
    [
        (
            [Target(call=answer, name="a", price=1), answer],
            {"usd_per_hour": 1},
            r'usd_per_hour needs the price of every target: answer has none; Target\(..., price={"input": 2.5',
        ),
        ([answer], {"usd_per_month": "5 dollars"}, "usd_per_month is '5 dollars': it must be an amount of dollars"),
        ([answer], {"usd_per_day": True}, "usd_per_day is True: it must be an amount of dollars"),
        ([Target(call=answer, name="a", price={"prompt": 1})], {}, "the price of a has 'prompt': it can have input, "),
        ([Target(call=answer, name="a", price={"input": -1})], {}, "the price of a: input is -1: it must be an amount"),
        (
            [Target(call=answer, name="a", price={"input": 1})],
            {"usd_per_hour": 1},
            r"usd_per_hour with prices by token needs to know how long prompts are: Hedger\(..., size=...\)",
        ),
    ],
)
def test_what_is_missing_is_said(targets: Any, policy: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Hedger("x", targets, Policy(**policy))


def test_a_transport_needs_prices_too() -> None:
    priced = HttpTarget(base_url="http://a/v1", price={"input": 2.5, "output": 10})
    http_client([priced, priced], Policy(usd_per_hour=1))
    with pytest.raises(ValueError, match=r"usd_per_hour needs the price of every target: b has none; HttpTarget\("):
        http_client([priced, HttpTarget(base_url="http://b/v1")], Policy(usd_per_hour=1))
