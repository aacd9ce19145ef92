"""Virtual time without an event loop: what is due is called in the order of its time, and nothing else happens."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Timer:
    """Something that is due, unless it is cancelled."""

    __slots__ = ("_args", "_call")

    def __init__(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._call: Callable[..., object] | None = call
        self._args = args

    def cancel(self) -> None:
        """It is due no more."""
        self._call, self._args = None, ()  # who is called may hold this timer: leave no cycle to the collector

    def ring(self) -> None:
        """Its time has come."""
        call, args = self._call, self._args
        if call is not None:
            self._call, self._args = None, ()
            call(*args)


class Clock:
    """The part of a loop that the engine's alarm uses. `now` never goes back; ties are taken as they were set."""

    __slots__ = ("_due", "_number", "now")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    def time(self) -> float:
        """Seconds."""
        return self.now

    def call_at(self, when: float, call: Callable[..., object], *args: Any) -> Timer:
        """Call it at `when`, or as soon as everything before it is done."""
        timer = Timer(call, args)
        self.surely_at(when, timer.ring)
        return timer

    def surely_at(self, when: float, call: Callable[..., object], *args: Any) -> None:
        """The same where it cannot be cancelled."""
        self._number = number = self._number + 1
        heappush(self._due, (when, number, call, args))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What the alarm caught ends the run."""
        raise context["exception"]

    def run_until(self, when: float) -> None:
        """Everything that is due by `when`, that moment included; then it is `when`."""
        due = self._due
        while due and due[0][0] <= when:
            at, _, call, args = heappop(due)
            if at > self.now:
                self.now = at
            call(*args)
        if when > self.now:
            self.now = when

    def run(self) -> None:
        """Everything that is due."""
        while self._due:
            self.run_until(self._due[0][0])

    @property
    def next_due(self) -> float:
        """When something is due next; inf: nothing is."""
        return self._due[0][0] if self._due else float("inf")
