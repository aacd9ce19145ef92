"""A user's own Python, by its name in the configuration."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Plugin(NamedTuple):
    """A callable that takes an answer, or (`takes_request`) an answer and its request's body; maybe a coroutine's."""

    call: Callable[..., Any]
    takes_request: bool
    is_coroutine: bool


def load(reference: str, folder: str) -> Plugin:
    """The callable that `module:function` names. Modules are looked for as Python does, and last in `folder`, so that
    nothing there takes the place of an installed one. Raises `ValueError` with what is wrong.
    """
    name, _, path = reference.partition(":")
    if folder not in sys.path:
        sys.path.append(folder)
    found: Any = _module(name, folder)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"the module {name} has no {path}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{reference} cannot be called: it is no function")
    is_coroutine = inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(type(found).__call__)
    return Plugin(found, _takes_request(found, reference), is_coroutine)


def _takes_request(function: Callable[..., Any], reference: str) -> bool:
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C
        return False
    for arguments in (("answer", "request"), ("answer",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) > 1
    raise ValueError(f"{reference} must take an answer, or an answer and a request")


def _module(name: str, folder: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(f"there is no module {name}, neither installed nor in {folder}") from None
        raise ValueError(f"the module {name} cannot be imported: {error}") from None
    except (Exception, SystemExit) as error:
        raise ValueError(f"the module {name} cannot be imported: {type(error).__name__}: {error}") from None
