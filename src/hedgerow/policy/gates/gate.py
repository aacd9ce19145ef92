"""What a gate is, and what comes of asking several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from hedgerow.answer import Answer


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """A gate's answer: not good enough, and why. `detail` never holds text of the answer: it is logged."""

    gate: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.gate}: {self.detail}" if self.detail else self.gate


class Gate(Protocol):
    """Decides whether an answer is good enough to win. Built-in ones neither raise nor wait."""

    @property
    def name(self) -> str:
        """As in the configuration."""

    def __call__(self, answer: Answer, request: bytes, /) -> Rejection | None:
        """None: good, or (of an answer that is not `complete`) nothing can be said yet. `request` is its body."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What all gates of a route say of one answer.

    `passed` counts the gates before the one that rejected it: of several rejected answers, the one that passed more is
    the better. `errors` are gates that could not judge, one line each, to be logged: they count as passed.
    """

    rejection: Rejection | None = None
    passed: int = 0
    errors: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether the answer may win."""
        return self.rejection is None


def ask(gate: Gate, answer: Answer, request: bytes) -> Rejection | None:
    """What one gate says of an answer; where it has several choices, it must hold for each."""
    rejection = gate(answer, request)
    if rejection is None and answer.others:
        return next(filter(None, (gate(each, request) for each in answer.others)), None)
    return rejection


def judge(gates: Iterable[Gate], answer: Answer, request: bytes = b"") -> Verdict:
    """Asks the gates in order, up to the first that rejects. Never raises: a gate that does has not judged."""
    passed = 0
    errors: tuple[str, ...] = ()
    for gate in gates:
        try:
            rejection = ask(gate, answer, request)
        except Exception as error:
            errors += (not_judged(gate.name, error),)
            rejection = None
        if rejection is not None:
            return Verdict(rejection, passed, errors)
        passed += 1
    return Verdict(None, passed, errors)


def not_judged(name: str, error: BaseException | str) -> str:
    """The line for a gate that could not judge. It names an exception's type only: its words may quote the answer."""
    return f"gate {name} did not judge: {error if isinstance(error, str) else type(error).__name__}"


Says = Callable[[Answer, bytes], "str | None"]
"""What a built-in gate does, given an answer and its request's body: None, or the reason for a rejection."""


class Builtin(msgspec.Struct, frozen=True):
    """A gate that comes with hedgerow: its name in the configuration, and what it says."""

    name: str
    says: Says

    def __call__(self, answer: Answer, request: bytes, /) -> Rejection | None:
        reason = self.says(answer, request)
        return None if reason is None else Rejection(self.name, reason)


def is_wordless(answer: Answer) -> bool:
    """Whether the answer is calls for the client to run, or media, and no text: gates of texts let it pass."""
    return (answer.tool_calls or answer.media) and not answer.text.strip()


Check = Callable[[Answer], "str | bool | None"]
"""A gate of one's own: None or True is good, False or a reason is not. The reason is logged."""


class _Check(msgspec.Struct, frozen=True):
    check: Check
    name: str

    def __call__(self, answer: Answer, request: bytes, /) -> Rejection | None:
        return rejection_of(self.name, self.check(answer))


def as_gate(check: Check, name: str | None = None) -> Gate:
    """A plain callable as a gate; its name is the callable's own unless given. It is asked of whole answers and of the
    starts of streams alike: see `Answer.complete`.
    """
    return _Check(check, name if name is not None else getattr(check, "__name__", "gate"))


def rejection_of(name: str, said: object) -> Rejection | None:
    """What a gate of one's own means by what it returned. Raises `TypeError` for anything but None, a bool or a str."""
    match said:
        case None | True:
            return None
        case False:
            return Rejection(name)
        case str():
            return Rejection(name, said)
    raise TypeError(f"returned {type(said).__name__}: expected None, a bool or a str")


Gates = Sequence[Gate]
