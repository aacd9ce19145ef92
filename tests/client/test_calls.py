"""The plain functions and the decorator: what they pass on, what they learn, whose context it is."""

from __future__ import annotations

import asyncio
import functools
import json
import random
import re
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Policy, Target, chain, hedge, hedged, race
from hedgerow.client import calls, checking
from hedgerow.events import Reason
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, Closable, run, turn

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def test_arguments_go_to_every_target() -> None:
    async def main(_: VirtualLoop) -> None:
        got: list[Any] = []

        async def slow(*args: Any, **kwargs: Any) -> str:
            got.append((args, kwargs))
            await asyncio.sleep(9)
            return "slow"

        async def fast(prompt: str, *, temperature: float) -> str:
            got.append(((prompt,), {"temperature": temperature}))
            return f"{prompt}!"

        for call in (
            hedge(slow, fast, args=("hi",), kwargs={"temperature": 0.5}, delay=1),
            race(slow, fast, args=("hi",), kwargs={"temperature": 0.5}),
            Hedger[str]("r", [slow, fast], Policy(delay=1))("hi", temperature=0.5),
        ):
            got.clear()
            assert (await call).value == "hi!"
            assert got == [(("hi",), {"temperature": 0.5})] * 2
        await turn()

    run(main)


def test_calls_from_one_place_learn_from_each_other_though_their_lambdas_are_new() -> None:
    async def main(_: VirtualLoop) -> None:
        book, draw = Book(), random.Random(7)

        async def ask(number: int) -> Any:
            a, b = book.target(f"a{number}", draw.uniform(1, 2)), book.target(f"b{number}", 9.0)
            return await hedge(
                lambda: a(), lambda: b(), delay="p50", warmup_samples=100, warmup_delay=None, budget=None
            )

        results = [await ask(number) for number in range(300)]
        assert {each.target for each in results} == {"primary"}
        assert not any(each.hedged or each.reason for each in results[:100])
        late = [each for each in results[150:] if each.hedged or each.reason]
        assert 0.3 < len(late) / 150 < 0.7
        await turn()

    run(main)


def test_calls_with_other_rules_or_targets_or_names_learn_for_themselves() -> None:
    async def one() -> int:
        return 1

    async def two() -> int:
        return 2

    async def main(_: VirtualLoop) -> None:
        calls._courses.clear()
        for delay in (1, 2):
            await hedge(one, two, delay=delay)
        await hedge(two, one, delay=1)
        await hedge(two, one, delay=1, name="named")
        await hedge(two, one, delay=1, gate=lambda _: True)
        await hedge(functools.partial(one), two, delay=1)  # as `one`
        await hedge(Target(call=one, name="x"), two, delay=1)
        assert len(calls._courses) == 6

    run(main)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one() -> int:
        return 1

    async def main(_: VirtualLoop) -> None:
        monkeypatch.setattr(calls, "KEPT", 4)
        for target, remembered in ((one, calls._known), (partial(one), calls._courses)):
            calls._courses.clear()
            calls._known.clear()
            for number in range(10):
                await hedge(target, delay=1)
                await hedge(target, delay=2 + number)
            assert len(remembered) == 4
            assert any(("delay", 1) in key for key in remembered)  # the one that is used

    run(main)


def test_one_function_twice_is_two_targets_of_one_account() -> None:
    """What it says of its rate limit holds for both."""

    class Limited(Exception):
        status_code = 429

    async def main(_: VirtualLoop) -> None:
        count = 0

        async def call() -> int:
            nonlocal count
            count += 1
            raise Limited

        with pytest.raises(Limited) as caught:
            await hedge(call, call, delay=5)
        assert isinstance(caught.value, EveryAttemptFailed)
        assert count == 1

    run(main)


def test_a_decorated_function_is_hedged_with_itself_and_keeps_its_name() -> None:
    async def main(loop: VirtualLoop) -> None:
        seconds = iter([9.0, 1.0])

        @hedged(delay=2)
        async def translate(text: str) -> str:
            """Translates."""
            await asyncio.sleep(next(seconds))
            return text.upper()

        assert await translate("ja") == "JA"
        assert loop.time() == 3.0
        assert (translate.__name__, translate.__doc__) == ("translate", "Translates.")  # type: ignore[attr-defined]
        assert translate.hedger.name.endswith("translate")
        await turn()

    run(main)


def test_a_decorated_method_is_called_with_its_object() -> None:
    async def main(_: VirtualLoop) -> None:
        class Client:
            def __init__(self, name: str) -> None:
                self.name = name

            @hedged(delay=2)
            async def ask(self, text: str) -> str:
                return f"{self.name}: {text}"

        assert await Client("c").ask("x") == "c: x"

    run(main)


def test_gates_decide_what_is_good_enough_and_what_they_reject_is_closed() -> None:
    """asynchedging drops results that `accept` refused without closing them; racing favours short answers (B21)."""

    async def main(_: VirtualLoop) -> None:
        book, bad = Book(), Closable("bad")
        good = Closable("good")
        result = await hedge(
            book.target("a", 1.0, bad), book.target("b", 1.0, good), delay=5, gate=lambda answer: answer is good
        )
        assert (result.value, result.latency, result.attempts[0].outcome) == (good, 2.0, "rejected")
        await turn()
        assert (bad.closed, good.closed) == (1, 0)

    run(main)


def test_the_best_of_the_rejected_is_given_where_nobody_is_better_unless_strict() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        gates = [lambda answer: len(answer) > 1, lambda answer: "too short" if len(answer) < 3 else None]
        targets = book.target("a", 1.0, "x"), book.target("b", 1.0, "xx")
        result = await hedge(*targets, delay=5, gate=gates)
        assert result.value == "xx"
        with pytest.raises(EveryAttemptFailed, match="too short"):
            await hedge(*targets, delay=5, gate=gates, strict=True)

    run(main)


def test_a_rejected_answer_waits_for_a_running_rival_but_not_for_ever() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        targets = book.target("a", 3.0, "no"), book.target("b", 60.0)
        result = await hedge(*targets, delay=2, gate=lambda _: False, gate_wait=4)
        assert (result.value, result.latency) == ("no", 3.0)
        await turn()
        assert ("b", "cancelled", 7.0) in book.ended

    run(main)


def test_a_gate_may_be_async() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()

        async def slow(answer: str) -> bool:
            await asyncio.sleep(1)
            return answer == "b"

        result = await hedge(book.target("a", 1.0), book.target("b", 1.0), delay=5, gate=slow)
        assert (result.value, result.latency) == ("b", 3.0)

    run(main)


class Nothing:
    """False without being False, as numpy's are."""

    def __bool__(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("gate", "detail", "line"),
    [
        (lambda answer: json.loads(answer) and None, ": raised JSONDecodeError", None),
        (lambda answer: 0 if answer == "bad" else 1, "", None),
        (lambda answer: Nothing() if answer == "bad" else True, "", "returned a Nothing: that counts as False"),
        (lambda answer: [] if answer == "bad" else [answer], "", "returned a list: that counts as False"),
        (lambda answer: answer.start, ": raised AttributeError", "raised AttributeError, which rejects"),
        (lambda answer: answer.upper() if answer == "bad" else None, ": BAD", None),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_what_a_gate_does_not_say_yes_to_is_rejected(
    gate: Callable[[str], Any], detail: str, line: str | None, caplog: pytest.LogCaptureFixture, *, strict: bool
) -> None:
    """One that raised, and anything that is but false, let a bad answer win."""

    async def main(_: VirtualLoop) -> None:
        checking._told.clear()
        book = Book()
        targets = book.target("a", 1.0, "bad"), book.target("b", 1.0, '{"good": 1}')
        count = 1 if detail == ": raised AttributeError" else 2  # that gate says yes to nothing
        rules: dict[str, Any] = {"delay": 5} if count == 2 else {"delay": "off"}
        result = await hedge(*targets[:count], gate=gate, strict=strict and count == 2, name=detail, **rules)
        failure = result.attempts[0].failure
        assert failure is not None
        assert failure.message == f"gate <lambda>{detail}"
        assert (result.value == "bad") is (count == 1)

    run(main)
    assert bool(caplog.messages) == (line is not None)
    assert line is None or line in caplog.text


def test_a_match_counts_as_good_and_the_log_says_that_none_does_too(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_: VirtualLoop) -> None:
        gate: Any = partial(re.match, "{")
        result = await hedge(Book().target("a", 1.0, "{}"), delay="off", gate=gate, strict=True)
        assert result.target == "a"

    run(main)
    assert caplog.messages == ["gate partial returned a Match: that counts as True, and None as good; return a bool"]


def test_a_gate_is_asked_of_what_a_context_manager_gives() -> None:
    async def main(_: VirtualLoop) -> None:
        for strict in (False, True):
            book = Book()
            result = await hedge(
                book.context("a", 1.0),
                book.context("b", 1.0),
                delay=5,
                gate=lambda inside: inside == "b",
                strict=strict,
            )
            assert book.open == 1 + (not strict and len(book.ended) == 0)
            async with result.value as inside:
                assert (inside, result.latency) == ("b", 2.0)
            await turn()
            assert book.open == 0

        book = Book()
        result = await hedge(book.context("a", 1.0), delay="off", gate=lambda _: False)
        async with result.value as inside:  # the best there is
            assert inside == "a"
        with pytest.raises(EveryAttemptFailed, match="gate"):
            await hedge(book.context("a", 1.0), delay="off", gate=lambda _: False, strict=True)
        await turn()
        assert book.open == 0

    run(main)


def test_a_strict_gate_refuses_streams_and_another_says_that_it_is_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        targets = book.stream("a", 1.0), book.stream("b", 1.0)
        with pytest.raises(TypeError, match="a gives a stream, which no gate can judge before it wins"):
            await hedge(*targets, delay=5, gate=lambda _: False, strict=True)
        assert book.called == []  # it is not even begun
        checking._told.clear()
        for _twice in range(2):
            async with (await hedge(*targets, delay=5, gate=lambda _: False)).value as items:
                assert [item async for item in items] == ["a0"]
        await turn()

    run(main)
    assert caplog.messages == [
        "target a gives a stream, which wins with its first item: gates are asked of whole values only"
    ]


def test_what_is_awaited_is_an_answer_even_if_it_could_be_entered() -> None:
    """Types said so, and a lock came out as something else."""

    async def lock() -> asyncio.Lock:
        return asyncio.Lock()

    class Both:
        """An awaitable that is to be entered, as a pool's connection is."""

        def __await__(self) -> Any:
            raise AssertionError

        async def __aenter__(self) -> str:
            return "inside"

        async def __aexit__(self, *_: object) -> None:
            return None

    async def main(_: VirtualLoop) -> None:
        assert isinstance((await hedge(lock, lock)).value, asyncio.Lock)
        held: Any = (await hedge(Both, Both)).value
        async with held as inside:
            assert inside == "inside"
        await turn()

    run(main)


def test_an_error_that_no_coroutine_may_raise_is_in_that_of_all() -> None:
    def exhausted() -> Any:
        return next(iter(()))

    async def main(_: VirtualLoop) -> None:
        with pytest.raises(EveryAttemptFailed) as caught:
            await hedge(exhausted, exhausted)
        assert isinstance(caught.value.__cause__, StopIteration)

    run(main)


def test_attempts_have_contexts_of_their_own_and_the_winners_is_kept() -> None:
    """Polly's issue 2023, dotnet's 4686: attempts write into one context, and the loser's words remain (B15)."""

    async def main(_: VirtualLoop) -> None:
        seen = []

        async def attempt(name: str, seconds: float) -> str:
            seen.append(WHO.get())
            WHO.set(name)
            await asyncio.sleep(seconds)
            assert WHO.get() == name
            return name

        WHO.set("caller")
        result = await hedge(lambda: attempt("a", 9), lambda: attempt("b", 1), delay=2)
        assert (result.value, WHO.get(), seen) == ("b", "b", ["caller", "caller"])
        WHO.set("caller")
        with pytest.raises(EveryAttemptFailed):
            await hedge(Book().target("x", 1.0, error=OSError()))
        assert WHO.get() == "caller"
        await turn()

    run(main)


def test_a_new_loop_of_the_same_thread_goes_on_with_what_was_learned() -> None:
    async def slow() -> str:
        await asyncio.sleep(0)
        return "a"

    hedger: Hedger[str] = Hedger("r", [slow, slow], Policy(delay="p95", warmup_samples=20))

    async def calls_of(number: int) -> None:
        for _turn in range(number):
            await hedger()

    asyncio.run(calls_of(30))
    route = hedger._course._here.home.route
    asyncio.run(calls_of(1))
    assert hedger._course._here.home.route is route
    run(lambda _: calls_of(1))  # whose clock begins at 0
    assert hedger._course._here.home.route is not route


def test_threads_with_loops_of_their_own_may_share_a_hedger() -> None:
    async def fast() -> str:
        await asyncio.sleep(0)
        return "a"

    hedger: Hedger[str] = Hedger("r", [fast, fast], Policy(delay=5))
    answers: list[str] = []

    async def ask() -> None:
        for _ in range(300):
            answers.append((await hedger()).value)
            answers.append((await hedge(fast, fast, delay=5)).value)

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == ["a"] * 2_400


def test_without_a_loop_the_error_says_what_to_do() -> None:
    coroutine = Hedger[str]("r", [Book().target("a", 1.0)])()
    with pytest.raises(RuntimeError, match="hedge_sync"):
        coroutine.send(None)


def test_a_chain_asks_the_next_only_after_a_failure() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await chain(book.target("a", 60.0), book.target("b", 1.0))
        assert (result.value, result.latency, len(result.attempts)) == ("a", 60.0, 1)

    run(main)


def test_tasks_that_a_loop_starts_eagerly_change_nothing() -> None:
    eager: Any = getattr(asyncio, "eager_task_factory", None)
    if eager is None:
        pytest.skip("a Python before 3.12 has no eager tasks")

    async def main(loop: VirtualLoop) -> None:
        loop.set_task_factory(eager)

        async def at_once() -> str:
            return "a"

        async def fails() -> str:
            raise OSError

        assert (await hedge(at_once, at_once)).value == "a"
        assert (await race(at_once, at_once)).value == "a"
        assert (await hedge(fails, at_once)).value == "a"

    run(main)


def test_calls_at_once_are_independent() -> None:
    async def main(_: VirtualLoop) -> None:
        async def echo(number: int) -> int:
            await asyncio.sleep(number % 7)
            return number

        hedger: Hedger[int] = Hedger("r", [echo, echo], Policy(delay=2))
        results = await asyncio.gather(*(hedger(number) for number in range(200)))
        assert [each.value for each in results] == list(range(200))
        assert {each.reason for each in results} <= {None, Reason.BUDGET, Reason.OUTAGE}
        await turn()

    run(main)
