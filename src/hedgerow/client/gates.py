"""Gates of a caller in process: plain callables, asked of whole values."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from hedgerow.policy.gates.gate import Rejection, not_judged, rejection_of

log = logging.getLogger("hedgerow")

Said = str | bool | None
T = TypeVar("T")
Check = Callable[[T], Said | Awaitable[Said]]
"""Given a value: None or True is good, False or a reason is not. It may be a coroutine function."""


def checks_of(gate: Check[Any] | Sequence[Check[Any]] | None) -> tuple[Check[Any], ...]:
    """One, several or none. Raises `TypeError` for what cannot be asked."""
    if gate is None:
        return ()
    checks = (gate,) if callable(gate) else tuple(gate)
    for each in checks:
        if not callable(each):
            raise TypeError(f"a gate must be callable, not {type(each).__name__}")
    return checks


async def verdict_of(checks: Sequence[Check[Any]], value: Any) -> tuple[Rejection | None, int]:
    """The first rejection, if any, and how many gates let the value pass before it.

    A gate that raises has not judged, and counts as passed; the log says so.
    """
    for rank, check in enumerate(checks):
        name = getattr(check, "__name__", type(check).__name__)
        try:
            said = check(value)
            if inspect.isawaitable(said):
                said = await said
            rejection = rejection_of(name, said)
        except Exception as error:
            log.warning(not_judged(name, error))  # it is the whole line
            continue
        if rejection is not None:
            return rejection, rank
    return None, len(checks)
