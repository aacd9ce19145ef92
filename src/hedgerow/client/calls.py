"""The plain functions: hedge, race or chain calls without making an object first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, Unpack

from hedgerow.client.failing import Classify
from hedgerow.client.gates import Check
from hedgerow.client.hedger import Hedger
from hedgerow.client.result import Result
from hedgerow.client.settings import Policy, Rules
from hedgerow.client.target import Target

P = ParamSpec("P")
T = TypeVar("T")
Call = Target | Callable[..., Any]

KEPT = 1_000
"""Hedgers that are remembered for calls that were made without one; beyond them the longest unused is forgotten."""

_hedgers: OrderedDict[Any, Hedger[Any]] = OrderedDict()


async def hedge(
    primary: Call,
    *backups: Call,
    args: Sequence[Any] = (),
    gate: Check | Sequence[Check] | None = None,
    first_token: Callable[[Any], bool] | None = None,
    classify: Classify | None = None,
    name: str | None = None,
    **rules: Unpack[Rules],
) -> Result[Any]:
    """Call `primary(*args)`; where it has no answer after the delay, a backup as well. The first good answer wins.

    Targets are async callables; one that gives an async iterator is raced to its first item (of which `first_token` is
    true), and goes on as `result.value`. `rules` are those of `Policy`: `delay="p95"`, `budget=0.05`, `deadline=10`.

    Calls from one place in the code, with the same rules, learn from each other; `name` says so in words. Raises
    `EveryAttemptFailed`, which is also what the primary raised, and `ValueError` or `TypeError` for what cannot work.
    """
    found = _hedger((primary, *backups), name, Policy(**rules), gate, first_token, classify)
    return await found(*args)


async def race(*targets: Call, args: Sequence[Any] = (), **options: Any) -> Result[Any]:
    """Call all of them at once; the first good answer wins and the others are cancelled. `options` as for `hedge`."""
    return await hedge(*targets, args=args, mode="race", **options)


async def chain(*targets: Call, args: Sequence[Any] = (), **options: Any) -> Result[Any]:
    """Call one after the other, the next when one has failed (or run out of `first_token_timeout`)."""
    return await hedge(*targets, args=args, mode="chain", **options)


def hedged(
    *backups: Call,
    gate: Check | Sequence[Check] | None = None,
    first_token: Callable[[Any], bool] | None = None,
    classify: Classify | None = None,
    name: str | None = None,
    **rules: Unpack[Rules],
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """A decorator for async functions: calls are hedged with the backups, or without any with the function itself.

    What the function returned is returned; its `hedger` attribute is the object behind it.
    """

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        targets = (function, *backups) if backups else (function, function)
        named = function.__qualname__ if name is None else name
        hedger: Hedger[T] = Hedger(
            named, targets, Policy(**rules), gate=gate, first_token=first_token, classify=classify
        )

        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return (await hedger(*args, **kwargs)).value

        call.hedger = hedger  # type: ignore[attr-defined]
        return call

    return decorate


def _hedger(
    targets: tuple[Call, ...],
    name: str | None,
    policy: Policy,
    gate: Check | Sequence[Check] | None,
    first_token: Callable[[Any], bool] | None,
    classify: Classify | None,
) -> Hedger[Any]:
    """The hedger of earlier calls from the same place, with these targets of now; else a new one."""
    gates = tuple(gate) if isinstance(gate, Sequence) else (gate,)
    key = (name, policy, *map(_place, (*targets, *gates, first_token, classify)))
    found = _hedgers.get(key)
    if found is None:
        found = _hedgers[key] = Hedger(
            name or "hedge", targets, policy, gate=gate, first_token=first_token, classify=classify
        )
        if len(_hedgers) > KEPT:
            _hedgers.popitem(last=False)
    _hedgers.move_to_end(key)
    return found.calling(targets, gate, first_token, classify)


def _place(call: Any) -> object:
    """What stays the same of a callable that is made anew for each call: a lambda's place in the code."""
    if isinstance(call, Target):
        return call.name, call.account, _place(call.call)
    while hasattr(call, "func"):  # functools.partial
        call = call.func
    return getattr(getattr(call, "__func__", call), "__code__", call)
