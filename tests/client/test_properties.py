"""Whatever targets do and whenever the caller is cancelled: one winner, nothing left, and no error before an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as some

from hedgerow import EveryAttemptFailed, Hedger, Held, Policy, Result, Winner
from hedgerow.events import AttemptEnded, AttemptLaunched, Event, Outcome, RequestFinished, RequestStarted
from hedgerow.testing import VirtualLoop
from tests.client.support import run

Kind = Literal["value", "error", "stream", "broken stream", "empty stream", "context"]
GRID = some.integers(0, 6).map(lambda steps: steps / 2)
"""Times on a coarse grid, so that ties are frequent."""


class Script(NamedTuple):
    """What one target does: it takes so long for each step, ends so, and needs so long to close."""

    kind: Kind
    takes: float
    gap: float
    closing: float


class Case(NamedTuple):
    scripts: list[Script]
    policy: Policy
    gate: bool
    cancel_at: float | None
    cancel_again: float | None
    read: int


SCRIPTS = some.builds(
    Script,
    some.sampled_from(["value", "error", "stream", "broken stream", "empty stream", "context"]),
    GRID,
    GRID,
    some.sampled_from([0.0, 0.0, 0.25]),
)
POLICIES = some.builds(
    Policy,
    delay=GRID,
    mode=some.sampled_from(["hedge", "race", "chain"]),
    max_hedges=some.integers(0, 2),
    deadline=some.sampled_from([None, 1.75, 4.0]),
    first_token_timeout=some.sampled_from([None, 1.25]),
    stall_timeout=some.sampled_from([None, 0.75]),
    losers=some.sampled_from(["cancel", "keep"]),
    keep_time=some.just(2.0),
    strict=some.booleans(),
    gate_wait=some.just(1.0),
    budget=some.sampled_from([None, 0.1]),
)
CASES = some.builds(
    Case,
    some.lists(SCRIPTS, min_size=1, max_size=3),
    POLICIES,
    some.booleans(),
    some.none() | GRID.map(lambda at: at + 0.25) | GRID,
    some.none() | some.sampled_from([0.0, 0.125]),
    some.integers(0, 3),
)


class Ground:
    """The targets of a case, with a book of what they opened and closed."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0

    def target(self, name: str, script: Script) -> Callable[[], Any]:
        if script.kind in ("value", "error"):
            return self._value(name, script)
        return self._context(name, script) if script.kind == "context" else self._stream(name, script)

    async def _close(self, script: Script) -> None:
        try:
            await asyncio.sleep(script.closing)
        finally:
            self.closed += 1

    def _value(self, name: str, script: Script) -> Callable[[], Any]:
        ground = self

        class Answer:
            def __init__(self) -> None:
                ground.opened += 1

            async def aclose(self) -> None:
                await ground._close(script)

        async def call() -> Answer:
            await asyncio.sleep(script.takes)
            if script.kind == "error":
                raise ValueError(name)
            return Answer()

        return call

    def _stream(self, name: str, script: Script) -> Callable[[], AsyncIterator[str]]:
        async def items() -> AsyncIterator[str]:
            self.opened += 1
            try:
                await asyncio.sleep(script.takes)
                if script.kind == "empty stream":
                    return
                for number in range(3):
                    yield f"{name}{number}"
                    await asyncio.sleep(script.gap)
                    if script.kind == "broken stream":
                        raise ValueError(name)
            finally:
                await self._close(script)

        return items

    def _context(self, name: str, script: Script) -> Callable[[], Any]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[str]:
            self.opened += 1
            try:
                await asyncio.sleep(script.takes)
                yield name
            finally:
                await self._close(script)

        return opened


async def use(hedger: Hedger[Any], read: int) -> Result[Any]:
    """Call, and do with the answer what a careful caller does."""
    result = await hedger()
    try:
        if isinstance(result.value, Winner):
            async with result.value as items:
                for _ in range(read):
                    await anext(items, None)
        elif isinstance(result.value, Held):
            async with result.value:
                await asyncio.sleep(read)
        else:
            await result.value.aclose()
        async for other in result.alternatives:
            if hasattr(other.value, "aclose"):
                await other.value.aclose()
    finally:
        await result.alternatives.aclose()
    return result


VALUE = Script("value", 2.5, 2.5, 0.25)
TWO_KEPT = Policy(delay=2, mode="race", losers="keep", keep_time=2, strict=True, gate_wait=1, budget=None)


@example(Case([VALUE, Script("broken stream", 2, 2, 0.25), VALUE], TWO_KEPT, False, 2.5, 0.125, 1))
@settings(max_examples=300, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(CASES)
def test_one_winner_nothing_left_open_and_no_error_before_an_answer(case: Case) -> None:
    run(lambda loop: fly(loop, case))


async def fly(loop: VirtualLoop, case: Case) -> None:
    ground, told = Ground(), list[Event]()
    targets = [ground.target("abc"[number], script) for number, script in enumerate(case.scripts)]
    gate = (lambda _: len(told) % 2 == 0) if case.gate else None
    hedger: Hedger[Any] = Hedger("r", targets, case.policy, gate=gate, listeners=[told.append], grace=1.0)
    task = asyncio.create_task(use(hedger, case.read))
    if case.cancel_at is not None:
        await asyncio.sleep(case.cancel_at)
        task.cancel()
        if case.cancel_again is not None:
            await asyncio.sleep(case.cancel_again)
            task.cancel()
    error: BaseException | None = None
    try:
        await task
    except (ValueError, TimeoutError, EveryAttemptFailed, asyncio.CancelledError) as caught:
        error = caught
    await hedger.aclose(within=10)
    await asyncio.sleep(10)
    check(case, told, ground, error)


def check(case: Case, told: list[Event], ground: Ground, error: BaseException | None) -> None:
    assert ground.closed == ground.opened
    launched = [each for each in told if isinstance(each, AttemptLaunched)]
    ended = [each for each in told if isinstance(each, AttemptEnded)]
    assert sorted(each.attempt for each in ended) == list(range(len(launched)))
    assert len(launched) <= len(case.scripts)
    assert sum(isinstance(each, RequestStarted) for each in told) <= 1
    finished = [each for each in told if isinstance(each, RequestFinished)]
    assert len(finished) == (1 if launched else 0)
    won = [each for each in ended if each.outcome in (Outcome.WON, Outcome.FAILED_AFTER_COMMIT)]
    assert len(won) <= 1
    if isinstance(error, EveryAttemptFailed):
        assert won == []
        for each in launched:  # whoever failed had no answer: nobody's error beat a good one
            script = case.scripts["abc".index(names(case, each.target))]
            outcome = next(other.outcome for other in ended if other.attempt == each.attempt)
            assert script.kind in ("error", "empty stream") or outcome is not Outcome.SUPERSEDED


def names(case: Case, target: str) -> str:
    """Which of the case's targets has this name: they are all called alike."""
    base, _, number = target.partition("-")
    return "abc"[int(number or 1) - 1] if base else "a"
