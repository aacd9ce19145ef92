"""docs/library-reference.md says what the docstrings say, of everything public and of each of its arguments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripts.library_reference import GIVEN, load, public, reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "library-reference.md"
PUBLIC = list(public(load()))
USUAL = {"self", "cls", "args", "kwargs", "unknown", "value", "target", "result"}
"""What needs no words of its own."""


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == reference(), "run: make docs"


@pytest.mark.parametrize(("path", "name", "found"), PUBLIC, ids=[f"{path}.{name}" for path, name, _ in PUBLIC])
def test_every_argument_is_told_of(path: str, name: str, found: Any) -> None:
    assert found.docstring is not None, f"{path}.{name} has no docstring"
    told, arguments = found.docstring.value, []
    if found.is_function:
        arguments = [each.name for each in found.parameters]
    elif name not in GIVEN:
        made = found.all_members.get("__init__")
        if made is not None and made.is_function:
            arguments = [each.name for each in made.parameters]
            told += "" if made.docstring is None else made.docstring.value
    missing = [each for each in arguments if each not in USUAL and not re.search(rf"\b{each}\b", told)]
    assert missing == []


@pytest.mark.parametrize(
    "name",
    [
        "hedge",
        "race",
        "chain",
        "hedged",
        "Hedger",
        "hedge_sync",
        "hedged_completion",
        "http_client",
        "http_client_sync",
    ],
)
def test_the_ways_in_have_an_example(name: str) -> None:
    (found,) = (each for path, called, each in PUBLIC if (path, called) == ("hedgerow", name))
    assert "```python" in found.docstring.value
