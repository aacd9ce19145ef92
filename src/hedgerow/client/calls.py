"""The plain functions: hedge, race or chain calls without making an object first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from types import CodeType, FunctionType
from typing import Any, Literal, TypeVar, Unpack, cast, overload
from weakref import WeakValueDictionary

from hedgerow.client import purse
from hedgerow.client.checking import arguments, function, refuse_unknown
from hedgerow.client.course import Call, Course, Setup
from hedgerow.client.flight import fly
from hedgerow.client.gates import checks_of
from hedgerow.client.options import Options
from hedgerow.client.prices import terms_of
from hedgerow.client.result import Result
from hedgerow.client.settings import Policy, Rules, limit_of
from hedgerow.client.stream import Held, Winner
from hedgerow.client.target import Callee, Holding, Plain, Streaming, Target, place_of, places_of, streams, targets_of

T = TypeVar("T")

KEPT = 1_000
"""Places in the code whose calls are remembered, and rules; beyond them the longest unused is forgotten."""
_PASSING = frozenset(
    {
        "delay",
        "first_token_timeout",
        "stall_timeout",
        "max_hedges",
        "min_delay",
        "max_delay",
        "warmup_delay",
        "strict",
        "gate_wait",
        "losers",
        "keep_time",
    }
)
"""Rules that may be others for each call. They do not make another budget of it, nor something else to learn."""

_known: OrderedDict[Any, tuple[Course, Call, Sequence[CodeType]]] = OrderedDict()
"""Of calls with the code and the options of an earlier one, which is what most are. By the ids of the code, which is
kept so that no other has one of these: to hash it is to look at all of it.
"""
_courses: OrderedDict[Any, Course] = OrderedDict()
_trunks: WeakValueDictionary[Any, Course] = WeakValueDictionary()
"""Those that learn and pay, for as long as anything that is remembered needs them: or a budget would be had twice."""
_lately: OrderedDict[Any, Course] = OrderedDict()
"""The last of them, so that budgets outlive the rules of single calls."""


@overload
async def hedge(  # type: ignore[overload-overlap]  # of what is both, the first holds
    primary: Streaming[T],
    *backups: Streaming[T],
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] = ...,
    **options: Unpack[Options],
) -> Result[Winner[T]]: ...
@overload
async def hedge(
    primary: Holding[T],
    *backups: Holding[T],
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] = ...,
    **options: Unpack[Options],
) -> Result[Held[T]]: ...
@overload
async def hedge(
    primary: Plain[T],
    *backups: Plain[T],
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] = ...,
    **options: Unpack[Options],
) -> Result[T]: ...
async def hedge(
    primary: Callee[Any],
    *backups: Callee[Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Result[Any]:
    """Call `primary(*args, **kwargs)`; where it has no answer after the delay, one of `backups` too. The first good one
    wins.

    Targets are async callables. One that gives an async iterator is raced to its first item (of which `first_token` is
    true, if given), and goes on as `result.value`; an async context manager is entered, and stays open until
    `result.value` is left. `options`: the rules of `Policy` (`delay="p95"`, `budget=0.05`, `deadline=10`...), and
    `gate`, `first_token`, `classify` as for `Hedger`.

    Calls of the same functions, or of lambdas of the same place in the code, learn from each other and have one budget,
    whatever delay or deadline each says; a `name` tells those apart that should not. Raises `EveryAttemptFailed`, which
    is also what the primary raised, and `ValueError` or `TypeError` for what cannot work.

    ```python
    import asyncio
    from hedgerow import hedge

    async def ask(prompt: str) -> str:
        await asyncio.sleep(0.1)
        return f"an answer to {prompt}"

    result = asyncio.run(hedge(ask, ask, args=("why?",), delay=0.05))
    print(result.value, result.target, result.hedged)
    ```
    """
    if type(args) is not tuple or kwargs is not None:
        arguments(args, kwargs)
    return await fly(_course((primary, *backups), options), args, kwargs or {})


@overload
async def race(  # type: ignore[overload-overlap]  # of what is both, the first holds
    *targets: Streaming[T], args: Sequence[Any] = ..., kwargs: Mapping[str, Any] = ..., **options: Unpack[Options]
) -> Result[Winner[T]]: ...
@overload
async def race(
    *targets: Holding[T], args: Sequence[Any] = ..., kwargs: Mapping[str, Any] = ..., **options: Unpack[Options]
) -> Result[Held[T]]: ...
@overload
async def race(
    *targets: Plain[T], args: Sequence[Any] = ..., kwargs: Mapping[str, Any] = ..., **options: Unpack[Options]
) -> Result[T]: ...
async def race(
    *targets: Callee[Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Result[Any]:
    """Call all of them at once; the first good answer wins and the others are cancelled.

    `targets` and `options` are as for `hedge`; there is no `delay`. Raises as it does.

    ```python
    import asyncio
    from hedgerow import race
    from hedgerow.testing import scripted

    print(asyncio.run(race(scripted("slow", after=1), scripted("quick", after=0.01))).value)
    ```
    """
    arguments(args, kwargs)
    return await fly(_course(targets, _without_delay("race", options)), args, kwargs or {})


@overload
async def chain(  # type: ignore[overload-overlap]  # of what is both, the first holds
    *targets: Streaming[T], args: Sequence[Any] = ..., kwargs: Mapping[str, Any] = ..., **options: Unpack[Options]
) -> Result[Winner[T]]: ...
@overload
async def chain(
    *targets: Holding[T], args: Sequence[Any] = ..., kwargs: Mapping[str, Any] = ..., **options: Unpack[Options]
) -> Result[Held[T]]: ...
@overload
async def chain(
    *targets: Plain[T], args: Sequence[Any] = ..., kwargs: Mapping[str, Any] = ..., **options: Unpack[Options]
) -> Result[T]: ...
async def chain(
    *targets: Callee[Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Result[Any]:
    """Call one after the other, the next when one has failed (or run out of `first_token_timeout`).

    `targets` and `options` are as for `hedge`; there is no `delay`. Raises as it does.

    ```python
    import asyncio
    from hedgerow import chain
    from hedgerow.testing import scripted

    print(asyncio.run(chain(scripted("down", error=ConnectionError), scripted("up"))).value)
    ```
    """
    arguments(args, kwargs)
    return await fly(_course(targets, _without_delay("chain", options)), args, kwargs or {})


def _without_delay(mode: Literal["race", "chain"], options: Options) -> Options:
    if "delay" in options:
        how = "launches all at once" if mode == "race" else "asks the next after a failure only"
        raise TypeError(f"{mode} has no delay: it {how}. hedge(...) waits for a delay")
    return {**options, "mode": mode}


def _course(callees: Sequence[Callee[Any]], options: Options) -> Setup:
    """The course of earlier calls from the same place, and what is the call's own."""
    total: float | None = inf
    if "deadline" in options:  # which may be another each time
        total = limit_of("deadline", options.pop("deadline"))
    looked_for: list[object] = [*options.items()]
    for each in callees:
        if type(each) is not FunctionType or (code := each.__code__).co_name != each.__name__:
            return _found(callees, dict(options), total)
        looked_for.append(id(code))
    key = tuple(looked_for)
    try:
        known = _known.get(key)
    except TypeError:  # something in it has no hash
        return _found(callees, dict(options), total)
    if known is None:
        found = _found(callees, dict(options), total)
        if all(map(_lasts, options.values())):
            _known[key] = *found[:2], [cast("FunctionType", each).__code__ for each in callees]
            if len(_known) > KEPT:
                _known.popitem(last=False)
        return found
    if len(_known) > KEPT // 2:
        with suppress(KeyError):  # another thread may have just forgotten it
            _known.move_to_end(key)
    return known[0], known[1], total, callees  # type: ignore[return-value]  # all of them are functions


def _lasts(said: object) -> bool:
    """Whether it is a plain value, or a function that there is but once: one that is made anew for each call is not."""
    if isinstance(said, FunctionType):
        return said.__closure__ is None and "<" not in said.__qualname__
    return said is None or isinstance(said, float | int | str)


def _found(callees: Sequence[Callee[Any]], options: dict[str, Any], total: float | None) -> Setup:
    pop = options.pop
    first_token, classify, checks = pop("first_token", None), pop("classify", None), checks_of(pop("gate", None))
    places = [place_of(each) for each in callees]
    if checks or first_token or classify:
        places += [None, *map(place_of, (*checks, first_token, classify))]
    key = (*places, *options.items())
    try:
        course = _courses.get(key)
    except TypeError:  # something in it has no hash
        _policy_of(options)  # which says what, if it cannot work
        raise TypeError(f"options must be plain values: {options!r} holds a list or dict") from None
    if course is None:
        function("first_token", first_token)
        function("classify", classify)
        course = _remember(key, places, callees, options, streaming=first_token is not None)
    elif len(_courses) > KEPT // 2:
        with suppress(KeyError):  # another thread may have just forgotten it
            _courses.move_to_end(key)
    calls = [each.call if isinstance(each, Target) else each for each in callees]
    return course, Call(checks, first_token, classify), total, calls


def _remember(
    key: object, places: Sequence[object], callees: Sequence[Callee[Any]], options: dict[str, Any], *, streaming: bool
) -> Course:
    targets = targets_of(callees)
    name, policy = options.pop("name", None) or "hedge", _policy_of(options)
    lasting = [rule for rule in options.items() if rule[0] not in _PASSING]
    trunk_key = (*places, name, policy.early, *lasting)
    streaming, terms = streaming or streams(targets), terms_of(targets, policy, sized=False)
    with purse.lock:
        trunk = _trunks.get(trunk_key)
        course = Course(name, places_of(targets), policy, trunk=trunk, streams=streaming, terms=terms)
        _courses[key] = course
        _trunks[trunk_key] = _lately[trunk_key] = trunk or course
        _lately.move_to_end(trunk_key)
        for remembered in (_courses, _lately):
            if len(remembered) > KEPT:
                remembered.popitem(last=False)
    return course


def _policy_of(options: Mapping[str, Any]) -> Policy:
    rules = {name: said for name, said in options.items() if name != "name"}
    refuse_unknown("hedge", rules, Options.__optional_keys__)
    return Policy(**cast("Rules", rules))
