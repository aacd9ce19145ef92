"""The alarm in virtual time: who is woken, when, in what order, and what is kept of those who are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.alarm import Alarm
from hedgerow.testing import VirtualLoop, run_virtual


class Sleeper:
    def __init__(self, name: str, log: list[tuple[str, float]], then: Callable[[float], None] | None = None) -> None:
        self.name = name
        self.log = log
        self.then = then
        self.wake_at = inf

    def wake(self, now: float) -> None:
        assert self.wake_at == inf
        self.log.append((self.name, now))
        if self.then is not None:
            self.then(now)


def play(story: Callable[[Alarm, list[tuple[str, float]]], None]) -> list[tuple[str, float]]:
    async def main(loop: VirtualLoop) -> list[tuple[str, float]]:
        log: list[tuple[str, float]] = []
        story(Alarm(loop), log)
        await asyncio.sleep(1000)
        return log

    return run_virtual(main)


def test_sleepers_are_woken_at_their_times_and_in_the_order_of_their_setting() -> None:
    def story(alarm: Alarm, log: list[tuple[str, float]]) -> None:
        for name, when in (("late", 3.0), ("first", 1.5), ("second", 1.5), ("soon", 0.25)):
            alarm.set(Sleeper(name, log), when)

    assert play(story) == [("soon", 0.25), ("first", 1.5), ("second", 1.5), ("late", 3.0)]


def test_only_what_was_set_last_holds() -> None:
    def story(alarm: Alarm, log: list[tuple[str, float]]) -> None:
        moved, off, restored = Sleeper("moved", log), Sleeper("off", log), Sleeper("restored", log)
        for sleeper, when in ((moved, 5.0), (moved, 2.0), (off, 1.0), (off, inf), (restored, 7.0), (restored, 3.0)):
            alarm.set(sleeper, when)
        alarm.set(restored, 7.0)

    assert play(story) == [("moved", 2.0), ("restored", 7.0)]


def test_who_is_woken_may_set_itself_and_others_anew() -> None:
    def story(alarm: Alarm, log: list[tuple[str, float]]) -> None:
        other = Sleeper("other", log)

        def again(now: float) -> None:
            if now < 3.0:
                alarm.set(one, now + 1.0)
                alarm.set(other, now)

        one = Sleeper("one", log, again)
        alarm.set(one, 1.0)

    assert play(story) == [("one", 1.0), ("other", 1.0), ("one", 2.0), ("other", 2.0), ("one", 3.0)]


def test_a_sleeper_that_fails_keeps_nobody_else_asleep() -> None:
    told: list[str] = []

    async def main(loop: VirtualLoop) -> list[tuple[str, float]]:
        log: list[tuple[str, float]] = []
        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))

        def fail(now: float) -> None:
            raise ValueError("ill")

        alarm = Alarm(loop)
        alarm.set(Sleeper("ill", log, fail), 1.0)
        alarm.set(Sleeper("well", log), 1.0)
        await asyncio.sleep(5)
        return log

    assert run_virtual(main) == [("ill", 1.0), ("well", 1.0)]
    assert told == ["ill"]


def test_what_was_called_off_does_not_pile_up() -> None:
    sizes: list[int] = []

    def story(alarm: Alarm, log: list[tuple[str, float]]) -> None:
        waiting = [Sleeper("waiting", log) for _ in range(100)]
        for sleeper in waiting:
            alarm.set(sleeper, 500.0)
        for _ in range(10_000):
            sleeper = Sleeper("answered", log)
            alarm.set(sleeper, 600.0)
            alarm.set(sleeper, inf)
            sizes.append(len(alarm))

    assert play(story) == [("waiting", 500.0)] * 100
    assert max(sizes) <= 100 + 2 * 257


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.5, 1.0, 1.5, 2.0, inf])), max_size=300))
def test_whatever_is_set_the_last_word_of_each_sleeper_holds(script: list[tuple[int, float]]) -> None:
    def story(alarm: Alarm, log: list[tuple[str, float]]) -> None:
        sleepers = [Sleeper(str(i), log) for i in range(6)]
        for index, when in script:
            alarm.set(sleepers[index], when)

    last = {str(index): when for index, when in script}
    assert sorted(play(story)) == sorted((name, when) for name, when in last.items() if when < inf)
