"""The engine in virtual time: exact launch times, one timer, nothing left behind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from math import inf

import pytest

from hedgerow.alarm import Alarm
from hedgerow.engine import Run
from hedgerow.events import Failure, FailureClass, Reason, Role
from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate, Plan, Refusal, Whether
from hedgerow.testing import Deadlock, VirtualLoop, run_virtual

ASK = Ask("r", True)
TARGETS = tuple(Candidate(name, name) for name in "abc")
BROKEN = Failure(FailureClass.SERVER_ERROR, "500", 500, body=b"{}")


@dataclass
class Scripted:
    """A driver whose attempts answer (or fail) a scripted time after their launch; None: never."""

    loop: VirtualLoop
    answers: list[tuple[float | None, Failure | None]]
    log: list[tuple[float, str]] = field(default_factory=list)
    timers: dict[int, asyncio.TimerHandle] = field(default_factory=dict)
    run: Run | None = None
    last_data: float = 0.0

    def note(self, what: str) -> None:
        self.log.append((round(self.loop.time(), 9), what))

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        self.note(f"launch {attempt} at {TARGETS[candidate].target} as {role}")
        after, failure = self.answers[attempt]
        run = self.run
        assert run is not None
        if after is None:
            return
        tell = run.accepted if failure is None else partial(run.failed, failure=failure)
        self.timers[attempt] = self.loop.call_later(after, tell, attempt)

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        self.note(f"cancel {attempt}" + (f" {failure.kind}" if failure else ""))
        if attempt in self.timers:
            self.timers[attempt].cancel()

    def commit(self, attempt: int) -> None:
        self.note(f"commit {attempt}")
        self.touch()

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        self.note(f"skip {reason}")

    def fail(self, attempt: int, failure: Failure) -> None:
        self.note(f"fail {attempt} {failure.kind}")
        self.finish()

    def expire(self, failure: Failure) -> None:
        self.note(f"expire {failure.kind}")
        self.finish()

    def crashed(self) -> None:
        self.note("crashed")
        self.finish()

    def last_data_at(self) -> float:
        return self.last_data

    def touch(self) -> None:
        """A piece of the committed answer came."""
        self.last_data = self.loop.time()

    def finish(self) -> None:
        """Tell the run that the request is over, once."""
        run, self.run = self.run, None
        if run is not None:
            run.finished()


def run_of(driver: Scripted, plan: Plan, whether: Whether | None = None) -> Run:
    def judged(ask: Ask, role: Role, attempt: int, candidate: int, now: float) -> Refusal | None:
        assert ask is ASK
        return whether(role, attempt, candidate, now) if whether else None

    return Run(driver, Alarm(driver.loop), (plan, TARGETS, judged if whether else None, None, None), ASK)


def play(
    plan: Plan,
    answers: list[tuple[float | None, Failure | None]],
    *,
    whether: Whether | None = None,
    gone_at: float | None = None,
) -> list[tuple[float, str]]:
    async def main(loop: VirtualLoop) -> list[tuple[float, str]]:
        driver = Scripted(loop, answers)
        run = driver.run = run_of(driver, plan, whether)
        run.start(loop.time())
        if gone_at is not None:
            loop.call_at(gone_at, run.client_gone)
        await asyncio.sleep(100)
        driver.finish()
        return driver.log

    return run_virtual(main)


def test_a_fast_primary_is_alone() -> None:
    assert play(Plan(delay=2.0), [(1.0, None)]) == [(0.0, "launch 0 at a as primary"), (1.0, "commit 0")]


def test_a_slow_primary_is_beaten_at_delay_plus_backup_time() -> None:
    assert play(Plan(delay=2.0), [(None, None), (0.5, None)]) == [
        (0.0, "launch 0 at a as primary"),
        (2.0, "launch 1 at b as hedge"),
        (2.5, "cancel 0"),
        (2.5, "commit 1"),
    ]


def test_a_failure_shortcuts_the_delay() -> None:
    assert play(Plan(delay=2.0), [(0.25, BROKEN), (0.5, None)]) == [
        (0.0, "launch 0 at a as primary"),
        (0.25, "launch 1 at b as failover"),
        (0.75, "commit 1"),
    ]


def test_the_hedge_after_a_failover_counts_from_the_failovers_launch() -> None:
    assert play(Plan(delay=2.0, max_attempts=3), [(0.25, BROKEN), (None, None), (0.5, None)]) == [
        (0.0, "launch 0 at a as primary"),
        (0.25, "launch 1 at b as failover"),
        (2.25, "launch 2 at c as hedge"),
        (2.75, "cancel 1"),
        (2.75, "commit 2"),
    ]


def test_hedges_are_launched_at_absolute_distances() -> None:
    plan = Plan(delay=2.0, max_hedges=2, max_attempts=3)
    assert play(plan, [(5.0, None), (1.0, BROKEN), (None, None)]) == [
        (0.0, "launch 0 at a as primary"),
        (2.0, "launch 1 at b as hedge"),
        (3.0, "launch 2 at c as failover"),
        (5.0, "cancel 2"),
        (5.0, "commit 0"),
    ]


def test_when_all_fail_the_client_is_told_once() -> None:
    assert play(Plan(delay=2.0), [(0.25, BROKEN), (0.5, BROKEN)])[-1] == (0.75, "fail 1 server_error")


def test_first_token_limits_hold_per_attempt() -> None:
    plan = Plan(delay=0.3, first_token=0.7)
    assert play(plan, [(None, None), (None, None)]) == [
        (0.0, "launch 0 at a as primary"),
        (0.3, "launch 1 at b as hedge"),
        (0.7, "cancel 0 timeout_first_token"),
        (1.0, "cancel 1 timeout_first_token"),
        (1.0, "fail 1 timeout_first_token"),
    ]


def test_a_client_that_leaves_during_the_stagger_launches_nothing_more() -> None:
    assert play(Plan(delay=2.0), [(None, None)], gone_at=1.0) == [
        (0.0, "launch 0 at a as primary"),
        (1.0, "cancel 0"),
    ]


def test_a_guard_is_asked_at_the_moment_the_hedge_is_due() -> None:
    asked: list[float] = []

    def guard(_role: Role, _attempt: int, _candidate: int, now: float) -> Refusal | None:
        asked.append(now)
        return Refusal(Reason.CLIENT_OPT_OUT)

    log = play(Plan(delay=2.0), [(5.0, None)], whether=guard)
    assert asked == [2.0]
    assert log[1:] == [(2.0, "skip client_opt_out"), (5.0, "commit 0")]


class TestAfterCommit:
    """Stall and total limits go on after commit; pieces of the answer keep the stall limit away."""

    def stream(self, pieces: list[float], *, stall: float = inf, total: float = inf) -> list[tuple[float, str]]:
        async def main(loop: VirtualLoop) -> list[tuple[float, str]]:
            driver = Scripted(loop, [(1.0, None)])
            run = driver.run = run_of(driver, Plan(delay=4.0, total=total, stall=stall))
            run.start(loop.time())
            loop.call_at(1.0, run.watch)
            for at in pieces:
                loop.call_at(at, driver.touch)
            await asyncio.sleep(100)
            driver.finish()
            return driver.log[2:]

        return run_virtual(main)

    def test_a_stream_that_stalls_is_broken_off_exactly_at_the_limit(self) -> None:
        assert self.stream([2.0, 2.5], stall=3.0) == [(5.5, "expire timeout_stall")]

    def test_a_stall_is_noticed_although_the_hedge_timer_was_armed_for_later(self) -> None:
        assert self.stream([], stall=0.5) == [(1.5, "expire timeout_stall")]

    def test_a_stream_that_keeps_coming_is_left_alone_until_the_total_limit(self) -> None:
        assert self.stream([float(i) for i in range(2, 60)], stall=3.0, total=30.0) == [(30.0, "expire timeout_total")]


def test_the_path_without_a_hedge_creates_no_task_and_arms_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[float] = []

    async def main(loop: VirtualLoop) -> None:
        driver = Scripted(loop, [(None, None)])
        run = driver.run = run_of(driver, Plan(delay=2.0, first_token=5.0, total=60.0, stall=10.0))
        call_at = loop.call_at

        def counting(when: float, *args: object, **kwargs: object) -> asyncio.TimerHandle:
            armed.append(when)
            return call_at(when, *args, **kwargs)  # type: ignore[arg-type]  # forwarded as it came

        monkeypatch.setattr(loop, "call_at", counting)
        tasks = asyncio.all_tasks()
        run.start(loop.time())
        run.accepted(0)
        run.watch()
        run.finished()
        assert asyncio.all_tasks() == tasks

    run_virtual(main)
    assert armed == [2.0]


def test_nothing_is_left_armed_when_the_request_is_over() -> None:
    async def main(loop: VirtualLoop) -> None:
        driver = Scripted(loop, [(None, None)])
        run = driver.run = run_of(driver, Plan(delay=2.0))
        run.start(loop.time())
        run.accepted(0)
        run.finished()
        await loop.create_future()

    with pytest.raises(Deadlock):
        run_virtual(main)
