"""Whose key a call has: where callers with keys of their own share targets, a refusal of one is not for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import count
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any
from weakref import ref

import msgspec

from hedgerow.events import Failure, FailureClass
from hedgerow.policy.failures import TAKES_OUT, blames_target
from hedgerow.policy.plan import Place

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt
    from hedgerow.client.flight import Flight
    from hedgerow.hedger import Hedger

_PLAIN = (
    *(NoneType, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, Enum),
    *(type, ModuleType, BuiltinFunctionType),
)
"""What holds no key, or is another for each call."""
_DEEP = 4
"""Functions within functions that are looked into."""
_MOST = 250
"""Callers whose targets are out at the same time, beyond which no more are: each call looks at all of them."""
_numbers: dict[int, tuple[str, ref[Any]]] = {}
"""Of objects that were refused, by id, for as long as they live."""
_count = count(1)


def own_route(
    route: Hedger, calls: Sequence[Callable[..., Any]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Hedger:
    """The route as it is for a call of these, while somebody's target is out."""
    if not _numbers:
        return route
    holders = [
        "" if place.own_key else _holder(_objects(call, args, kwargs))
        for place, call in zip(route.places, calls, strict=True)
    ]
    return route.narrowed(list(map(_held, route.places, holders))) if any(holders) else route


def blame(flight: Flight, attempt: Attempt, failure: Failure) -> None:
    """Let the health of its target learn from an attempt that failed.

    A refusal of the key of one of several callers takes the target out for that one. For the others it is a failure
    like others: of a target that refuses everybody the breaker hears.
    """
    route, now, place = flight.route, flight.time(), attempt.place
    if failure.kind in TAKES_OUT and not place.own_key:
        objects = list(_objects(attempt.call, flight.args, flight.kwargs))
        if objects and not blames_target(failure):
            told = Failure(FailureClass.SERVER_ERROR, failure.message)
            route.failed(place, flight.ask, told, attempt.launched_at, now)
        if objects and len(route.health.out) >= _MOST:
            return
        place = Place(_held(place, _numbered(objects)).candidate)  # the key is its holder's own
    route.failed(place, flight.ask, failure, attempt.launched_at, now)


def _held(place: Place, holder: str) -> Place:
    candidate = msgspec.structs.replace(place.candidate, holder=holder)
    return msgspec.structs.replace(place, candidate=candidate)


def _objects(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """What may hold the key of a call: the object of a bound method or what else can be called, what a function has
    closed over or is given, where it is an object of a class of somebody's own.
    """
    yield from _of_call(call, _DEEP)
    for value in (*args, *kwargs.values()):
        yield from _of_value(value, _DEEP)


def _of_call(call: Any, deep: int) -> Iterator[Any]:
    if isinstance(call, partial):
        yield from _of_call(call.func, deep)
        for value in (*call.args, *call.keywords.values()):
            yield from _of_value(value, deep)
    elif isinstance(call, MethodType):
        yield from _of_value(call.__self__, deep)
        yield from _of_call(call.__func__, deep)
    elif not isinstance(call, FunctionType):
        yield from _of_value(call, deep)
    elif call.__closure__:
        inside = [each for cell in call.__closure__ for each in _of_cell(cell, deep)]
        yield from inside or (call,)  # a text that it has closed over may be a key


def _of_cell(cell: Any, deep: int) -> Iterator[Any]:
    try:
        value = cell.cell_contents
    except ValueError:  # not set yet
        return
    yield from _of_value(value, deep)


def _of_value(value: Any, deep: int) -> Iterator[Any]:
    if isinstance(value, FunctionType | MethodType | partial):
        if deep:
            yield from _of_call(value, deep - 1)
    elif not isinstance(value, _PLAIN):
        yield value


def _holder(objects: Iterator[Any]) -> str:
    """Of these; "" where nothing was ever refused to just these."""
    numbers = []
    for each in objects:
        known = _numbers.get(id(each))
        if known is None or known[1]() is not each:
            return ""
        numbers.append(known[0])
    return "".join(numbers)


def _numbered(objects: Sequence[Any]) -> str:
    return "".join(map(_number, objects))


def _number(each: Any) -> str:
    key = id(each)
    known = _numbers.get(key)
    if known is not None and known[1]() is each:
        return known[0]
    number = f" of #{next(_count)}"
    with suppress(TypeError):  # else it cannot be known again
        _numbers[key] = number, ref(each, lambda _: _numbers.pop(key, None))
    return number
