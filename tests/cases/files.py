"""Reads files of cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from tests.cases.case import Case


class FaultyCase(Exception):
    """A file that is no case, or one with a key that nobody knows."""


_decoder = msgspec.json.Decoder(Case)


def decode(text: bytes, name: str = "case") -> Case:
    """One case. Raises `FaultyCase`, which says where."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FaultyCase(f"{name}: {error}") from None


def load(folder: Path, pattern: str = "") -> list[Case]:
    """The cases in all `*.json` below a folder (or in one file) whose id, topic or protocol contains `pattern`."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.json"))
    cases = [decode(file.read_bytes(), file.name) for file in files]
    if twice := [name for name, times in Counter(case.id for case in cases).items() if times > 1]:
        raise FaultyCase(f"{folder}: more than one case is called {', '.join(twice)}")
    return [case for case in cases if any(pattern in word for word in (case.id, case.topic, case.protocol))]
