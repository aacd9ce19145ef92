"""What the models say of their keys: the text below each field, read from the source where somebody wants to know.

pydantic would read it too, but of every model whenever one is imported: a tenth of the time `serve` takes to start.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from hedgerow.config.base import Model


@cache
def docstrings_of(model: type[Model]) -> Mapping[str, str]:
    """The text of each field that has one, by its name; fields of the models it extends included."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, Model):
            found |= _written_in(each)
    return found


def _written_in(model: type[Model]) -> Iterator[tuple[str, str]]:
    definition: Any = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    field = None
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                field = name
                continue
            case ast.Expr(value=ast.Constant(value=str(text))) if field is not None:
                yield field, inspect.cleandoc(text)
        field = None
