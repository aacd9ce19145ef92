"""Gates of a caller in process: plain callables, asked of whole values."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from hedgerow.client.checking import warn_once
from hedgerow.client.failing import MISTAKES
from hedgerow.policy.gates.gate import Rejection, rejection_of

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
    """The first rejection, if any, and how many gates let the value pass before it. A gate that raises rejects."""
    for rank, check in enumerate(checks):
        name = getattr(check, "__name__", type(check).__name__)
        try:
            said = check(value)
            if inspect.isawaitable(said):
                said = await said
            rejection = rejection_of(name, _plainly(name, said))
        except Exception as error:
            if isinstance(error, MISTAKES):
                warn_once(f"gate {name} raised {type(error).__name__}, which rejects: that seems to be a mistake in it")
            rejection = Rejection(name, f"raised {type(error).__name__}")
        if rejection is not None:
            return rejection, rank
    return None, len(checks)


def tell_of_streams(target: str) -> None:
    """Log, once, that a stream wins unjudged."""
    warn_once(f"target {target} gives a stream, which wins with its first item: gates are asked of whole values only")


def _plainly(name: str, said: Any) -> Said:
    """What a gate said, in a word. Of what is neither a word nor a truth, such as a match, whether there is any."""
    if said is None or isinstance(said, bool | str):
        return said
    if not isinstance(said, int) and type(said).__name__ not in ("bool", "bool_"):  # numpy has truths of its own
        counts = f"that counts as {bool(said)}, and None as good; return a bool"
        warn_once(f"gate {name} returned a {type(said).__name__}: {counts}")
    return bool(said)
