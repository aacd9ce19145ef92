"""Sees what objects a piece of code leaves behind, without the collector's help."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def leftovers() -> Iterator[Callable[..., Counter[str]]]:
    """Gives a function that counts the objects of some kinds that were made in this block and still exist, by kind.

    What others have left before is not looked at, and nothing is collected meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield lambda *kinds: Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))
    finally:
        gc.enable()
        gc.unfreeze()
