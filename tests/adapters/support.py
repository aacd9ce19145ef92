"""Simulated providers for the frameworks' own clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hedgerow.lab.control import LabControl
from hedgerow.testing.labs import Labs


@contextmanager
def pair() -> Iterator[tuple[LabControl, LabControl]]:
    """Two quick providers: `first` and `second`."""
    with Labs() as labs:
        yield labs("first", preset="fast", tokens=5), labs("second", preset="fast", tokens=5)
