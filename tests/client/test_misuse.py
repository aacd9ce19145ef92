"""Targets and rules of other kinds than hedging is for: they work, or are refused at once with what to do."""

from __future__ import annotations

import functools
from typing import Any
from unittest.mock import AsyncMock

import pytest

from hedgerow import Hedger, Policy, hedge, hedge_sync, race
from hedgerow.client import checking
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


@pytest.mark.parametrize(
    ("targets", "rules", "line"),
    [
        (1, {"delay": 1}, "one target, so nobody to hedge with (delay=1): give another, or the same one twice"),
        (1, {"delay": 1, "mode": "shadow"}, "nobody to hedge with"),
        (1, {"mode": "race"}, "one target, so nobody to race with"),
        (2, {"max_hedges": 2}, "max_hedges=2, and 2 targets are too few for that"),
        (1, {}, None),
        (1, {"delay": "off"}, None),
        (1, {"mode": "chain", "delay": 1}, None),
        (3, {"max_hedges": 2, "delay": 1}, None),
    ],
)
def test_rules_that_the_targets_are_too_few_for_are_told_of_once(
    targets: int, rules: dict[str, Any], line: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def one() -> int:
        return 1

    async def main(_: VirtualLoop) -> None:
        for _twice in range(2):
            assert (await Hedger[int]("few", [one] * targets, Policy(**rules))()).value == 1

    checking._told.clear()
    run(main)
    assert len(caplog.messages) == (line is not None)
    assert line is None or line in caplog.text
