"""Assertions pass and fail where they should, and their messages say what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Policy, Result, hedge, hedged_completion
from hedgerow.lab.control import LabControl
from hedgerow.testing import (
    assert_hedged,
    assert_not_hedged,
    assert_winner,
    run_virtual,
    scripted,
)


def hedged() -> Result[str]:
    return run_virtual(lambda _: hedge(scripted("primary", after=5), scripted("backup", after=0.2), delay=1))


def alone() -> Result[str]:
    return run_virtual(lambda _: hedge(scripted("primary", after=0.5), scripted("backup"), delay=1))


def message(check: Callable[..., None], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        check(*args, **kwargs)
    return str(raised.value)


def test_a_hedged_call() -> None:
    result = hedged()
    assert_hedged(result)
    assert_winner(result, "backup")
    attempts = [
        "  #0 primary as primary, launched at 0 s: superseded at 1.2 s",
        "  #1 backup as hedge, launched at 1 s: won at 1.2 s",
    ]
    assert message(assert_not_hedged, result).splitlines() == ["hedged", *attempts]
    assert message(assert_winner, result, "primary").splitlines() == ["backup won, not primary", *attempts]


def test_a_call_that_needed_no_hedge() -> None:
    result = alone()
    assert_not_hedged(result)
    assert message(assert_hedged, result).splitlines() == [
        "not hedged (no hedge was due)",
        "  #0 primary as primary, launched at 0 s: won at 0.5 s",
    ]
    assert message(assert_not_hedged, result, reason="budget").startswith("no hedge was due, not budget")


def test_a_hedge_that_was_refused_says_why() -> None:
    async def main(_: object) -> Result[str]:
        hedger = Hedger[str]("late", [scripted("primary", after=5), scripted("backup")], Policy(delay=1))
        results = [await hedger() for _ in range(100)]
        return results[-1]

    result = run_virtual(main)
    assert_not_hedged(result, reason="budget")
    assert message(assert_hedged, result).startswith("not hedged (a hedge was due and not launched: budget)")
    assert message(assert_not_hedged, result, reason="quota").startswith("the reason is budget, not quota")


def test_failovers_are_no_hedges_and_a_failed_call_has_no_winner() -> None:
    async def main(_: object) -> EveryAttemptFailed:
        with pytest.raises(EveryAttemptFailed) as failed:
            await hedge(scripted("a", error=ConnectionError), scripted("b", error=ConnectionError), delay="off")
        return failed.value

    error = run_virtual(main)
    assert_not_hedged(error)
    assert message(assert_winner, error, "a").splitlines()[:2] == [
        "every attempt failed, not a",
        "  #0 a as primary, launched at 0 s: failed at 0 s (ConnectionError)",
    ]


def test_completions_are_told_by_their_provider() -> None:
    async def main(_: object) -> Any:
        return await hedged_completion(
            "hi", primary=scripted("slow", after=5), backup=scripted("quick", after=0.1), hedge_delay_ms=500
        )

    completion = run_virtual(main)
    assert_hedged(completion)
    assert_winner(completion, "quick")


class Response:
    """As an HTTP client has one."""

    def __init__(self, **fields: str) -> None:
        self.headers = {f"x-hedgerow-{name.replace('_', '-')}": value for name, value in fields.items()}


def test_responses_are_told_by_their_headers() -> None:
    response = Response(target="b", attempts="2", hedged="true")
    assert_hedged(response)
    assert_winner(response, "b")
    assert message(assert_winner, response, "a") == "b won, not a\n  attempts: 2, winner: b"
    skipped = Response(target="a", attempts="1", hedged="false", hedge_skipped="breaker")
    assert_not_hedged(skipped, reason="breaker")


def test_what_says_nothing_of_attempts_is_refused() -> None:
    with pytest.raises(TypeError, match="a str does not say what became of a call"):
        assert_hedged("yes")


@pytest.mark.e2e
@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_sdks_meet_simulated_providers(lab: Callable[..., LabControl], process: bool) -> None:
    from openai import AsyncOpenAI

    stuck = lab("stuck", script={"fault": "stall"}, process=process)
    quick = lab("quick", preset="fast", tokens=3, models=("m",), ignore_cancel=True, process=process)

    async def main() -> None:
        async with (
            AsyncOpenAI(base_url=stuck.base_url, api_key="any") as primary,
            AsyncOpenAI(base_url=quick.base_url, api_key="any") as backup,
        ):
            done = await hedged_completion("hi", primary=(primary, "m"), backup=(backup, "m"), hedge_delay_ms=50)
            assert [model.id async for model in await backup.models.list()] == ["m"]
        assert_winner(done, "openai/m-2")
        assert done.content.startswith("quick")

    asyncio.run(main())
    assert (stuck.stats()["requests"], quick.stats()["completed"]) == (1, 1)
    assert stuck.name == "stuck"
