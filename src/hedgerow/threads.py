"""A few threads for what may take its time. They never keep the process from ending, and end when idle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

IDLE = 10.0
"""Seconds that a thread waits for work before it ends."""


class Threads:
    """At most so many at once; what comes meanwhile waits its turn."""

    def __init__(self, most: int, *, idle: float = IDLE) -> None:
        self._most = most
        self._idle_for = idle
        self._changed = Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._idle = 0
        self.running = 0
        """Threads there are, busy or idle."""

    def run(self, job: Callable[[], None]) -> None:
        """Have it run, soon; it may not raise. Raises `RuntimeError` where the system allows no further thread."""
        with self._changed:
            if self._idle <= len(self._jobs) and self.running < self._most:
                Thread(target=self._work, name="hedgerow-gate", daemon=True).start()
                self.running += 1
            self._jobs.append(job)
            self._changed.notify()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job()
            del job  # hold nothing while idle

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            found = self._changed.wait_for(lambda: bool(self._jobs), self._idle_for)
            self._idle -= 1
            if found:
                return self._jobs.popleft()
            self.running -= 1
            return None
