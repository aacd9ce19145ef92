"""Where a call can go."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import CodeType, MethodType
from typing import Any, Generic, TypeVar

import msgspec

from hedgerow.client.checking import function
from hedgerow.client.prices import Prices
from hedgerow.policy.plan import Candidate, Place

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Target(msgspec.Struct, Generic[T_co], frozen=True, kw_only=True, gc=False):
    """An async callable, and what hedging needs to know of it.

    `call` is called anew for each attempt and returns (or is a coroutine that returns) a value, an async iterator or an
    async context manager. `name` is as in events and results; targets of one `account` share a key and its rate limit,
    and so do all calls of one that says its account. An attempt may go without a first item for `first_token` seconds,
    in place of what holds for all, where anything does. Of `region` as in the configuration. `price`: dollars per call,
    or {"input": 2.5, "output": 10} per million tokens.
    """

    call: Callable[..., T_co]
    name: str
    account: str | None = None
    first_token: float | None = None
    region: str = ""
    price: Prices | None = None


Callee = Target[T] | Callable[..., T]
"""What can be hedged: called with the arguments of the call, it gives this."""
Plain = Callee[Awaitable[T]]
"""One value: a coroutine function, for the most part."""
Streaming = (
    Callee[AsyncIterable[T]]
    | Callee[Awaitable[AsyncIterable[T]]]
    | Callee[AbstractAsyncContextManager[AsyncIterable[T]]]
)
"""Items, one by one: an async generator function, an SDK's call with `stream=True`, or a manager of such a stream."""
Holding = Callee[AbstractAsyncContextManager[T]]
"""Something that is to be left at the end."""


def streams(targets: Sequence[Target[Any]]) -> bool:
    """Whether any is plainly a function that gives a stream; most others tell only by what they give."""
    return any(inspect.isasyncgenfunction(each.call) for each in targets)


def targets_of(callees: Sequence[Callee[Any]]) -> tuple[Target[Any], ...]:
    """Plain callables as targets, named as they are; of two with one name the second has a number behind it.

    Raises `TypeError` for what cannot be called, `ValueError` for none at all.
    """
    if not callees:
        raise ValueError("there must be at least one target")
    named: list[Target[Any]] = []
    taken: set[str] = set()
    for each in callees:
        if isinstance(each, Target):
            function("the call of a Target", each.call)
            target = each
        elif callable(each):
            target = Target(call=each, name=name_of(each) or ("backup" if named else "primary"))
        else:
            raise TypeError(f"a target must be an async callable or a Target, not {type(each).__name__}")
        name, number = target.name, 2
        while name in taken:
            name, number = f"{target.name}-{number}", number + 1
        taken.add(name)
        named.append(msgspec.structs.replace(target, name=name))
    return tuple(named)


def places_of(targets: Sequence[Target[Any]]) -> list[Place]:
    """As the engine sees them. One callable twice is one account.

    Only where the account was said is it known that all calls have one key: else see `holders`.
    """
    places = []
    accounts: dict[int, str] = {}
    for each in targets:
        account = each.account or accounts.setdefault(id(each.call), each.name)
        candidate = Candidate(each.name, account, first_token=each.first_token, region=each.region)
        said = each.account is not None
        places.append(Place(candidate, own_key=said, own_model=said))
    return places


def inner(call: Any) -> Any:
    """What is called in the end, of a `functools.partial`. Other objects may have any attribute one asks for."""
    while isinstance(call, partial):
        call = call.func
    return call


def name_of(call: Callable[..., Any]) -> str:
    """What a callable is called; "" for a lambda."""
    call = inner(call)
    name = getattr(call, "__name__", None)
    if not isinstance(name, str):
        return type(call).__name__
    return "" if name == "<lambda>" else name


def place_of(callee: Any) -> object:
    """What stays the same of a callable that is made anew for each call: a lambda's place in the code."""
    code = getattr(callee, "__code__", None)
    if isinstance(code, CodeType):  # those that a factory makes share it; they may have names of their own
        return code if code.co_name == callee.__name__ else (code, callee.__name__)
    if isinstance(callee, Target):
        price = tuple(callee.price.items()) if isinstance(callee.price, Mapping) else callee.price
        return callee.name, callee.account, callee.region, callee.first_token, price, place_of(callee.call)
    if isinstance(callee, partial):
        return place_of(inner(callee))
    if isinstance(callee, MethodType):
        return place_of(callee.__func__)
    name = getattr(callee, "__qualname__", None)
    return name if isinstance(name, str) else type(callee)
