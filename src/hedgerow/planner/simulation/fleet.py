"""A self-hosted fleet: servers with one queue each, where every hedge makes others wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class Handle(Protocol):
    """Something that is due."""

    def cancel(self) -> None:
        """It is due no more."""


class Timers(Protocol):
    """Virtual time: the planner's clock, or an event loop."""

    def time(self) -> float:
        """Seconds."""

    def call_at(self, when: float, call: Callable[..., object], *args: object) -> Handle:
        """Call it then."""


class Fleet:
    """Servers that each do one thing after the other.

    With `cancels`, what was broken off is no longer done; else it is done to its end, for nobody.
    """

    def __init__(self, timers: Timers, servers: int, *, cancels: bool) -> None:
        self._timers, self._cancels = timers, cancels
        self._queues: list[deque[_Job]] = [deque() for _ in range(servers)]
        self._done = 0.0

    @property
    def busy(self) -> float:
        """Seconds of work done by now, by all servers together."""
        now = self._timers.time()
        return self._done + sum(now - queue[0].begun_at for queue in self._queues if queue)

    def send(self, server: int, seconds: float, done: Callable[[], object]) -> Callable[[], object]:
        """Let this server do work of so many seconds, and tell `done`; call what is returned to break it off."""
        queue, job = self._queues[server], _Job(seconds, done)
        queue.append(job)
        if len(queue) == 1:
            self._begin(queue)
        return (lambda: self._break_off(queue, job)) if self._cancels else job.forget

    def _begin(self, queue: deque[_Job]) -> None:
        while queue and queue[0].over:
            queue.popleft()
        if queue:
            job = queue[0]
            job.begun_at = self._timers.time()
            job.timer = self._timers.call_at(job.begun_at + job.seconds, self._finish, queue)

    def _finish(self, queue: deque[_Job]) -> None:
        job = queue.popleft()
        self._done += job.seconds
        done = job.done
        self._begin(queue)
        if done is not None:
            done()

    def _break_off(self, queue: deque[_Job], job: _Job) -> None:
        job.forget()
        job.over = True
        if queue and queue[0] is job and job.timer is not None:
            job.timer.cancel()
            self._done += self._timers.time() - job.begun_at
            queue.popleft()
            self._begin(queue)


class _Job:
    __slots__ = ("begun_at", "done", "over", "seconds", "timer")

    def __init__(self, seconds: float, done: Callable[[], object]) -> None:
        self.seconds = seconds
        self.done: Callable[[], object] | None = done
        self.over = False
        self.begun_at = 0.0
        self.timer: Handle | None = None

    def forget(self) -> None:
        """Nobody waits for it any more."""
        self.done = None
