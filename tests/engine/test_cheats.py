"""Clients that would have more of a budget than is theirs."""

from __future__ import annotations

import asyncio
import json

from hedgerow.events import Reason
from tests.engine.test_judgement import HUNG, Town, play

TOKENS = {"routes.<name>.spend.tokens_per_minute": 100}


def test_a_limit_of_output_below_nought_makes_no_hedge_cheaper() -> None:
    body = json.dumps({"model": "fast", "stream": True, "messages": [], "max_tokens": -1_000_000}).encode()

    async def story(town: Town) -> None:
        for _ in range(20):
            town.ask(body)
        await asyncio.sleep(3)
        spent = town.judge.spend.state(town.loop.time())["route"]["tokens"]["minute"]["spent"]
        each = len(body) // 4
        assert (len(town.hedges), spent) == (100 // each, 100 // each * each)
        assert set(town.refusals) == {Reason.BUDGET}

    play(story, {"a": HUNG, "b": HUNG}, TOKENS)
