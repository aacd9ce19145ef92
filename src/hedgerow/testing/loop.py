"""An event loop whose clock jumps, so that hours of hedging take milliseconds and are exact."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(RuntimeError):
    """Every task waits, and no timer will ever wake one."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop in virtual time: whenever nothing is ready, its clock jumps to the next timer.

    `time()` starts at 0.0 and moves only by such jumps, so a test can compare times with `==`. Real sockets cannot be
    used in it: bytes under way look like idleness, and the clock would jump over them.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._now

    def end(self) -> None:
        """Cancel what still runs, let it close what it has opened, and close the loop. May be called again."""
        if self.is_closed():
            return
        try:
            if tasks := asyncio.all_tasks(self):
                for task in tasks:
                    task.cancel()
                self.run_until_complete(asyncio.wait(tasks))
            self.run_until_complete(self.shutdown_asyncgens())
        finally:
            self.close()

    def _jump(self, seconds: float) -> None:
        self._now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that answers a wait by moving the clock instead of waiting."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Deadlock("every task waits, and no timer is set")
        if not ready and timeout:
            self._jump(timeout)
        return ready


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main(loop)` to its end in virtual time; what is left running then is cancelled.

    Raises `Deadlock` when nothing can ever happen again.
    """
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.end()
