"""What callers may say, checked at once: an option that cannot work, or that nobody knows, is an error that says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hedgerow.units import parse_percent

log = logging.getLogger("hedgerow")
_told: set[str] = set()
_LIKE = 0.75
"""How alike two names are, of 1, where one is taken to be the other, mistyped."""


def warn_once(line: str) -> None:
    """Log what will be so again at every call."""
    if line not in _told and len(_told) < 1_000:
        _told.add(line)
        log.warning("%s", line)


def refuse_unknown(what: str, said: Iterable[str], allowed: Iterable[str], more: str = "") -> None:
    """Raises `TypeError` for the first name that is not allowed, with the one that may be meant."""
    known = sorted(allowed)
    for name in said:
        if name not in known:
            meant = like(name, known)
            guess = f": did you mean {meant}?" if meant else f": it has {', '.join(known)}"
            raise TypeError(f"{what} has no option {name!r}{guess}{more}")


def like(name: str, known: Iterable[str]) -> str | None:
    """The name among these that this one seems to be."""
    from difflib import get_close_matches  # what it imports is needed for nothing else

    found = get_close_matches(name, list(known), 1, _LIKE)
    return found[0] if found else None


def share(name: str, value: object) -> float:
    """A share of calls: 0.05 or "5%". Raises `ValueError` for what is none, or not above 0 and at most 1."""
    found = parse_percent(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0.0 < found <= 1.0:
        raise ValueError(
            f'{name} is {value!r}: it must be a share of calls above 0 and at most 1, such as 0.05 or "5%", '
            "or None for no cap"
        )
    return float(found)


def whole(name: str, value: object, least: int) -> int:
    """Raises `ValueError` for what is no whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}: it must be a whole number of {least} or more")
    return value


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises `ValueError` for what is not among these."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: it must be one of {', '.join(allowed)}")


def function(name: str, value: object) -> None:
    """Raises `TypeError` for what is given and cannot be called."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")


def functions(name: str, values: object) -> Sequence[Callable[..., Any]]:
    """Raises `TypeError` for what is no sequence of functions."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise TypeError(f"{name} must be a list of functions, not {values!r}")
    for each in values:
        function(f"each of {name}", each)
    return values


def arguments(args: object, kwargs: object) -> None:
    """Raises `TypeError` for what are no arguments of a call."""
    if type(args) is not tuple and (not isinstance(args, Sequence) or isinstance(args, str | bytes | bytearray)):
        raise TypeError(f"args must be a tuple or list of arguments, not {args!r}: for one of them, args=({args!r},)")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a dict of arguments, not {kwargs!r}")
