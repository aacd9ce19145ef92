"""What callers say wrongly is an error that says so, at once; what a target has wrong is told of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import hedgerow
from hedgerow import Breaker, EveryAttemptFailed, Hedger, Outage, Policy, hedge
from hedgerow.client import calls
from hedgerow.events import Reason
from hedgerow.testing import VirtualLoop, run_virtual, scripted
from tests.client.support import run

loose: Any = hedgerow
"""Who calls without a type checker."""


async def answer(*_: Any, **__: Any) -> str:
    return "answer"


def said(call: Any) -> None:
    run_virtual(lambda _: call())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: loose.hedge(answer, answer, dealy=1), "hedge has no option 'dealy': did you mean delay?"),
        (lambda: loose.hedge(answer, answer, zzz=1), "hedge has no option 'zzz': it has breaker, budget, classify, "),
        (lambda: loose.hedge(answer, answer, delay=[1]), "[1] is no delay: it must be a duration"),
        (lambda: loose.hedge(answer, answer, gate_wait={}), "gate_wait is {}: it must be a number of seconds"),
        (lambda: loose.hedge(answer, answer, delay={"slo": "1.2s"}), "holds a list or dict"),
        (lambda: loose.hedge(answer, answer, args="hi"), "for one of them, args=('hi',)"),
        (lambda: loose.hedge(answer, answer, args=3), "for one of them, args=(3,)"),
        (lambda: loose.hedge(answer, answer, kwargs=[1]), "kwargs must be a dict"),
        (lambda: loose.hedge(answer, answer, first_token="x"), "first_token must be a function, not 'x'"),
        (lambda: loose.hedge(answer, answer, classify=3), "classify must be a function, not 3"),
        (
            lambda: loose.hedge(answer, loose.Target(call="x", name="y")),
            "the call of a Target must be a function, not 'x'",
        ),
        (lambda: loose.race(answer, answer, delay=1), "race has no delay: it launches all at once"),
        (lambda: loose.chain(answer, answer, delay=1), "chain has no delay: it asks the next after a failure only"),
        (lambda: loose.hedged(dealy=1), "hedged has no option 'dealy': did you mean delay?"),
        (lambda: loose.Hedger("x", [answer, answer], delay=1), "Hedger(name, targets, Policy(delay=...))"),
        (lambda: loose.Hedger("x", [answer], gates=[bool]), "Hedger has no option 'gates': did you mean gate?"),
        (lambda: loose.Hedger("x", [answer, answer], {"delay": 1}), "policy must be a Policy, such as Policy(delay=1)"),
        (lambda: loose.Hedger([answer, answer], loose.Policy()), "the first argument of Hedger is its name"),
        (lambda: loose.Hedger("x", answer), "targets must be a list of async callables"),
        (lambda: loose.Hedger("x", [answer], listeners=print), "listeners must be a list of functions"),
        (
            lambda: loose.hedged_completion("why?", primary=answer, backup=answer, hedge_delay=1),
            "hedged_completion has no option 'hedge_delay': did you mean hedge_delay_ms?",
        ),
        (
            lambda: loose.hedged_completion("why?", primary=answer, backup=answer, delay=1),
            "hedged_completion has no option 'delay': did you mean hedge_delay_ms?",
        ),
        (
            lambda: loose.hedged_completion("why?", primary=answer, backup=answer, budget=0.1),
            "hedged_completion has no option 'budget': use hedge(..., budget=...)",
        ),
        (lambda: loose.Policy(dealy=1), "Policy has no option 'dealy': did you mean delay?"),
        (lambda: loose.Policy(timeout=1), "Policy has no option 'timeout': it has breaker, budget, deadline, "),
        (lambda: loose.Policy(delay="300"), "'300' is no delay: it must be a duration"),
        (lambda: loose.Policy(delay="slo: 2"), "'2' is no delay"),
        (lambda: loose.Policy(deadline="300"), "deadline is '300': it must be a number of seconds or a text such as"),
        (lambda: loose.Policy(budget=True), "budget is True: it must be a share of calls above 0 and at most 1"),
        (lambda: loose.Policy(budget="5 USD"), "budget is '5 USD': it must be a share of calls"),
        (lambda: loose.Policy(max_hedges="2"), "max_hedges is '2': it must be a whole number of 0 or more"),
        (lambda: loose.Policy(deadline=0), "deadline is 0: it must be more than 0 seconds, or None for no limit"),
        (lambda: loose.Policy(breaker={"minimum": 3}), "it must be True, False or a hedgerow.Breaker(...)"),
        (lambda: loose.Policy(outage="off"), "it must be True, False or a hedgerow.Outage(...)"),
    ],
)
def test_mistakes_of_callers(call: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        said(call)
    assert words in str(refused.value)
    assert not isinstance(refused.value, EveryAttemptFailed)


def test_a_budget_may_be_written_as_in_the_configuration() -> None:
    assert Policy(budget="5%").for_targets(2) == Policy(budget=0.05).for_targets(2)


def test_what_was_called_before_is_known_again_by_its_code() -> None:
    """A lambda, too, that is made anew for each call, whatever is left of the time; not a rule that is."""
    calls._known.clear()

    async def main(_: VirtualLoop) -> None:
        for number in range(3):
            assert (await hedge(answer, answer, delay=1, deadline=9 - number)).value == "answer"
            assert (await hedge(lambda number=number: answer(number), answer, delay=1)).value == "answer"
            assert (await hedge(answer, answer, delay=1, gate=lambda _: True)).value == "answer"
        assert (await hedge(answer, answer, delay=2)).value == "answer"
        assert (await hedge(answer, answer, delay=2, gate=bool)).value == "answer"

    run(main)
    assert [([each.co_name for each in codes], key[:-2]) for key, (*_, codes) in calls._known.items()] == [
        (["answer", "answer"], (("delay", 1),)),
        (["<lambda>", "answer"], (("delay", 1),)),
        (["answer", "answer"], (("delay", 2),)),
    ]


def test_functions_of_one_code_are_told_apart_by_their_names_and_called_themselves() -> None:
    """As those that a factory makes, or a decorator."""

    def made(name: str) -> Callable[[], Awaitable[str]]:
        async def inner() -> str:
            return name

        inner.__name__ = name
        return inner

    async def main(_: VirtualLoop) -> None:
        for name in ("one", "other", "inner"):
            for _again in range(2):
                result = await hedge(made(name), answer, delay=1)
                assert (result.value, result.target) == (name, name)

    run(main)


def test_options_that_were_never_said_before_are_looked_at_each_time() -> None:
    async def main(_: VirtualLoop) -> None:
        for _again in range(2):
            assert (await hedge(answer, answer, delay=1)).value == "answer"
            with pytest.raises(ValueError, match="it must be more than 0 seconds"):
                await hedge(answer, answer, delay=1, deadline=0)
            with pytest.raises(TypeError, match="did you mean delay"):
                await loose.hedge(answer, answer, dealy=1)

    run(main)


def test_a_sync_function_is_refused_where_it_is_found_out() -> None:
    """Else it blocks the loop, is never hedged, and nobody hears of it."""

    def blocking() -> str:
        return "late"

    backup = scripted("backup")
    for call in (lambda: loose.hedge(blocking, backup), loose.Hedger("x", [blocking, backup])):
        with pytest.raises(TypeError, match="blocking is a sync function: it gave a plain str, and nothing could be"):
            said(call)
    assert backup.calls == []


def test_a_mistake_in_a_target_is_told_of_once_though_another_answers(caplog: pytest.LogCaptureFixture) -> None:
    async def mistaken(prompt: str) -> str:
        return str(loose.undefined(prompt))

    async def story(_: VirtualLoop) -> None:
        for _number in range(3):
            assert (await hedge(mistaken, answer, args=("secret",))).value == "answer"

    with caplog.at_level(logging.WARNING, "hedgerow"):
        run(story)
    (record,) = caplog.records
    told = record.getMessage()
    assert told.startswith("target mistaken raised AttributeError at ")
    assert "secret" not in told


@pytest.mark.parametrize(("streaming", "seconds"), [(True, 60.0), (False, 600.0)])
def test_a_target_that_hangs_is_given_up_and_the_next_is_asked(streaming: bool, seconds: float) -> None:
    """Without a budget for hedges a call would else wait for ever."""

    async def main(loop: VirtualLoop) -> None:
        if streaming:
            hanging: Any = scripted("hanging", items=["a"], after=9_999)
            backup: Any = scripted("backup", items=["b"], after=1)
            result = await hedge(hanging, backup, delay="off", first_token=bool)
            await result.value.aclose()
        else:
            result = await hedge(scripted("hanging", after=9_999), scripted("backup", after=1), delay="off")
        assert (result.target, loop.time()) == ("backup", seconds + 1)

    run(main)


def test_how_soon_a_breaker_opens_may_be_said() -> None:
    async def main(_: VirtualLoop) -> None:
        down, up = scripted("down", error=ConnectionError), scripted("up")
        hedger: Hedger[str] = Hedger("x", [down, up], Policy(breaker=Breaker(failures=3)))
        for _number in range(10):
            assert (await hedger()).value == "up"
            await asyncio.sleep(1)
        assert len(down.calls) == 3

    run(main)


@pytest.mark.parametrize("outage", [True, False])
def test_whether_hedges_stop_in_an_outage_may_be_said(outage: bool) -> None:
    async def main(_: VirtualLoop) -> None:
        targets = [scripted("slow", after=9), scripted("slow too", after=9)]
        hedger: Hedger[str] = Hedger("x", targets, Policy(delay=1, budget=None, outage=outage))
        reasons = [(await hedger()).reason for _ in range(40)]
        assert (Reason.OUTAGE in reasons) is outage

    run(main)


def test_when_hedges_stop_may_be_said() -> None:
    sooner = Policy(outage=Outage(max_tokens=4, both_slow=None)).for_targets(2).throttle
    assert sooner == Outage(max_tokens=4, both_slow=None)
