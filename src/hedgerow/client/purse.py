"""One budget for all threads that hedge by it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from hedgerow.policy.plan import Refusal
from hedgerow.policy.spend import Spend

lock = threading.RLock()
"""Held while what threads share is looked at and changed: by hedges and by a thread's first call."""


class Purse(Spend):
    """The budgets of a course. A request that comes need not wait for the lock: one that two threads count as one only
    earns less.
    """

    __slots__ = ()

    def reserve(self, *args: Any, **kwargs: Any) -> Refusal | None:
        with lock:
            return super().reserve(*args, **kwargs)

    def over(self, *args: Any, **kwargs: Any) -> None:
        with lock:
            super().over(*args, **kwargs)

    def settle(self, *args: Any, **kwargs: Any) -> None:
        with lock:
            super().settle(*args, **kwargs)

    def give_back(self, *args: Any, **kwargs: Any) -> None:
        with lock:
            super().give_back(*args, **kwargs)

    def state(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        with lock:
            return super().state(*args, **kwargs)


def _forked() -> None:
    """In the child: another thread may have held it."""
    global lock
    lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
