"""What is wrong with a configuration, and where: a path of keys and a sentence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

KeyPath = tuple[str | int, ...]
"""The keys from the top of the file; list positions are ints."""

_BARE = re.compile(r"[^\s.\[\]\"\x00-\x1f\x7f]+")


class Problem(NamedTuple):
    """One fault at one key. `text` follows the key in the message and never holds a secret."""

    path: KeyPath
    text: str


def show_path(path: KeyPath) -> str:
    """`routes.fast.targets[1]`; names that hold a dot are quoted: `routes."gpt-4.1".hedge`."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else f'"{part if part.isprintable() else ascii(part)[1:-1]}"'
            shown += f".{name}" if shown else name
    return shown


def did_you_mean(name: str, known: Iterable[str], what: str) -> str:
    """`; did you mean 'x'?`, else the list of what there is."""
    names = list(known)
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; {what}: {', '.join(names)}" if names else ""
