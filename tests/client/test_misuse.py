"""Targets and rules of other kinds than hedging is for: they work, or are refused at once with what to do."""

from __future__ import annotations

import functools
from typing import Any
from unittest.mock import AsyncMock

from hedgerow import Hedger, Policy, hedge, hedge_sync, race
from hedgerow.testing import VirtualLoop
from tests.client.support import run


class Anything:
    """Has every attribute that one asks for, as a proxy has."""

    def __getattr__(self, name: str) -> Any:
        return self

    async def __call__(self) -> str:
        return "anything"


def test_objects_that_have_every_attribute_are_targets_like_others() -> None:
    """It followed `.func` of a mock, which has another, and so on for ever."""

    async def main(_: VirtualLoop) -> None:
        mock = AsyncMock(return_value="mock")
        for call in (mock, functools.partial(mock), Anything(), functools.partial(Anything())):
            expected = "mock" if call is mock or getattr(call, "func", None) is mock else "anything"
            assert (await hedge(call, call, delay=1)).value == expected
            assert (await Hedger[str]("r", [call, call], Policy(delay=1))()).value == expected
        assert (await hedge(mock, Anything(), delay=1)).target == "AsyncMock"

    run(main)
    assert hedge_sync(AsyncMock(return_value="mock"), Anything(), delay=1).value == "mock"


def test_a_race_has_the_budget_that_is_said_and_no_other() -> None:
    """A budget that happened to be the default was none."""

    async def main(_: VirtualLoop) -> None:
        async def one() -> int:
            return 1

        said = {0.1: 69, 0.11: 71, None: 200}
        for budget, most in said.items():
            extra = sum([len((await race(one, one, budget=budget)).attempts) - 1 for _ in range(200)])
            assert extra == most
        assert sum([len((await race(one, one)).attempts) - 1 for _ in range(200)]) == 200

    run(main)
