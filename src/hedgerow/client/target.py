"""Where a call can go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hedgerow.policy.plan import Candidate, Place


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An async callable, and what hedging needs to know of it.

    `call` is called anew for each attempt and returns (or is a coroutine that returns) a value, an async iterator or an
    async context manager. `name` is as in events and results; targets of one `account` share a rate limit. An attempt
    may go without a first item for `first_token` seconds, in place of what holds for all. Of `region` as in the
    configuration.
    """

    call: Callable[..., Any]
    name: str
    account: str | None = None
    first_token: float | None = None
    region: str = ""

    @property
    def place(self) -> Place:
        """As the engine sees it."""
        account = self.name if self.account is None else self.account
        candidate = Candidate(self.name, account, first_token=self.first_token, region=self.region)
        return Place(candidate)


def targets_of(calls: tuple[Target | Callable[..., Any], ...]) -> tuple[Target, ...]:
    """Plain callables as targets, named as they are; of two with one name the second has a number behind it.

    Raises `TypeError` for what cannot be called.
    """
    named: list[Target] = []
    taken: set[str] = set()
    for each in calls:
        if isinstance(each, Target):
            target = each
        elif callable(each):
            target = Target(call=each, name=name_of(each))
        else:
            raise TypeError(f"a target must be an async callable or a Target, not {type(each).__name__}")
        name, number = target.name, 2
        while name in taken:
            name, number = f"{target.name}-{number}", number + 1
        taken.add(name)
        named.append(target if name == target.name else msgspec.structs.replace(target, name=name))
    return tuple(named)


def name_of(call: Callable[..., Any]) -> str:
    """What to call a callable that was given no name."""
    while hasattr(call, "func"):  # functools.partial
        call = call.func
    name = getattr(call, "__name__", type(call).__name__)
    return "target" if name == "<lambda>" else name
