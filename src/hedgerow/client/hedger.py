"""The configured object of a library's user: targets and a policy, which learns across calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack, overload

from hedgerow.client.checking import function, functions, refuse_unknown
from hedgerow.client.course import Call, Course, Setup
from hedgerow.client.failing import Classify
from hedgerow.client.flight import fly
from hedgerow.client.gates import Check, checks_of
from hedgerow.client.options import HedgerOptions
from hedgerow.client.prices import terms_of
from hedgerow.client.result import Result
from hedgerow.client.settings import Policy
from hedgerow.client.stream import Held, Winner
from hedgerow.client.target import Callee, Holding, Plain, Streaming, places_of, streams, targets_of
from hedgerow.events import Listener

T = TypeVar("T")
S = TypeVar("S")


class Hedger(Generic[T]):
    """Calls the first of its `targets`, and hedges with the others by its `policy`; made once, called often.

    `name` is as in events and the log. Calling it calls a target with the same arguments and gives a `Result`.
    `first_token` says of an item of a stream whether it is a real one, with which an attempt may win; left out, the
    first is. `gate` (one or several) is asked of whole values. `classify` says what an exception means, in place of
    `failure_of`. `size` estimates the tokens of a call's prompt from its arguments, so that delays are learned by size.
    `listeners` are told of events.

    Threads that call it, each in its own event loop, share its budgets; they learn each for itself, until they end.

    ```python
    import asyncio
    from hedgerow import Hedger, Policy

    async def translate(text: str) -> str:
        return f"{text}, translated"

    translator = Hedger("translate", [translate, translate], Policy(delay="p95", budget=0.05))
    print(asyncio.run(translator("bonjour")).value)
    ```
    """

    @overload
    def __init__(
        self: Hedger[Winner[S]],
        name: str,
        targets: Sequence[Streaming[S]],
        policy: Policy = ...,
        **options: Unpack[HedgerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Hedger[Held[S]],
        name: str,
        targets: Sequence[Holding[S]],
        policy: Policy = ...,
        **options: Unpack[HedgerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Hedger[S],
        name: str,
        targets: Sequence[Plain[S]],
        policy: Policy = ...,
        **options: Unpack[HedgerOptions],
    ) -> None: ...
    def __init__(
        self,
        name: str,
        targets: Sequence[Callee[Any]],
        policy: Policy = Policy(),  # noqa: B008  # frozen
        *,
        gate: Check[Any] | Sequence[Check[Any]] | None = None,
        first_token: Callable[[Any], bool] | None = None,
        classify: Classify | None = None,
        size: Callable[..., int] | None = None,
        listeners: Sequence[Listener] = (),
        draw: Callable[[], float] | None = None,
        grace: float = 1.0,
        **unknown: Any,
    ) -> None:
        """`draw` gives numbers in [0, 1), for hedges that start with a probability. `grace`: seconds that a cancelled
        call waits for its attempts to close what they have opened, and after which one that was cancelled and goes on
        is cancelled again. Raises `TypeError` and `ValueError`.
        """
        _check(name, targets, policy, unknown)
        for what, said in (("first_token", first_token), ("classify", classify), ("size", size), ("draw", draw)):
            function(what, said)
        self.name = name
        self.targets = targets_of(targets)
        self.policy = policy
        call = Call(checks_of(gate), first_token, classify, size)
        self._course = Course(
            name,
            places_of(self.targets),
            policy,
            listeners=functions("listeners", listeners),
            draw=draw,
            grace=grace,
            streams=first_token is not None or streams(self.targets),
            terms=terms_of(self.targets, policy, sized=size is not None),
        )
        self._setup: Setup = (self._course, call, None, [target.call for target in self.targets])

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Result[T]]:
        """Call a target with these arguments, and others as the policy says; to be awaited.

        Raises `EveryAttemptFailed`, which is also what the first attempt raised.
        """
        return fly(self._setup, args, kwargs)

    def state(self) -> dict[str, Any]:
        """What holds now in this thread, for people: delays, budgets, what is known. To be asked in a running loop."""
        return self._course.home().route.state(asyncio.get_running_loop().time())

    async def aclose(self, within: float = 5.0) -> None:
        """Wait until no attempt runs in this loop: those that lost are still closing what they had opened.

        What still runs after `within` seconds is cancelled.
        """
        await self._course.aclose(within)


def _check(name: object, targets: object, policy: object, unknown: Mapping[str, object]) -> None:
    """Raises `TypeError` for what is not meant as `Hedger` takes it."""
    if not isinstance(name, str):
        raise TypeError(f'the first argument of Hedger is its name: Hedger("translate", targets), not {name!r}')
    if not isinstance(targets, Sequence) or isinstance(targets, str):
        raise TypeError(f"targets must be a list of async callables, not {targets!r}")
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, such as Policy(delay=1), not {policy!r}")
    rules = ", ".join(f"{each}=..." for each in unknown if each in Policy.__struct_fields__)
    if rules:
        raise TypeError(f"the rules of a Hedger are those of its policy: Hedger(name, targets, Policy({rules}))")
    refuse_unknown("Hedger", unknown, HedgerOptions.__optional_keys__)
