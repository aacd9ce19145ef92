"""What code has set of its context variables, for who called it in a copy of theirs."""

from __future__ import annotations

from contextvars import Context

_MISSING = object()


def carry_over(before: Context, after: Context) -> None:
    """Set here what differs in `after` from `before`, of which it was a copy."""
    for variable, value in after.items():
        if before.get(variable, _MISSING) is not value:
            variable.set(value)
