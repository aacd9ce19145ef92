"""A self-hosted fleet: servers with one queue each, where every hedge makes others wait.

Hedging such a fleet feeds on itself: hedges lengthen the queues, more requests come to be late, more are hedged.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from random import Random

from bench.eval_replay import Done
from hedgerow.testing import VirtualLoop


class Fleet:
    """`servers` that each do one thing after the other; who does it is drawn by chance, and so is how long it takes.

    With `cancels`, what was broken off is no longer done; else it is done to its end, for nobody.
    """

    def __init__(
        self, loop: VirtualLoop, random: Random, service: Callable[[Random], float], *, cancels: bool, servers: int = 10
    ) -> None:
        self._loop, self._random, self._service, self._cancels = loop, random, service, cancels
        self._queues: list[deque[_Job]] = [deque() for _ in range(servers)]
        self.busy = 0.0
        """Seconds of work done so far, by all servers together."""

    def send(self, request: int, place: int, done: Done) -> Callable[[], object]:
        queue = self._random.choice(self._queues)
        job = _Job(self._service(self._random), done)
        queue.append(job)
        if len(queue) == 1:
            self._begin(queue)
        return (lambda: self._break_off(queue, job)) if self._cancels else job.forget

    def _begin(self, queue: deque[_Job]) -> None:
        while queue and queue[0].over:
            queue.popleft()
        if queue:
            job = queue[0]
            job.begun_at = self._loop.time()
            job.timer = self._loop.call_later(job.seconds, self._finish, queue)

    def _finish(self, queue: deque[_Job]) -> None:
        job = queue.popleft()
        self.busy += job.seconds
        done = job.done
        self._begin(queue)
        if done is not None:
            done(None)

    def _break_off(self, queue: deque[_Job], job: _Job) -> None:
        job.forget()
        job.over = True
        if queue and queue[0] is job and job.timer is not None:
            job.timer.cancel()
            self.busy += self._loop.time() - job.begun_at
            queue.popleft()
            self._begin(queue)


class _Job:
    __slots__ = ("begun_at", "done", "over", "seconds", "timer")

    def __init__(self, seconds: float, done: Done) -> None:
        self.seconds = seconds
        self.done: Done | None = done
        self.over = False
        self.begun_at = 0.0
        self.timer: TimerHandle | None = None

    def forget(self) -> None:
        """Nobody waits for it any more."""
        self.done = None
