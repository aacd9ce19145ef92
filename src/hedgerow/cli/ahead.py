"""How far something is: a bar on standard error where that is a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int, str], None]
"""Told how much is done, of how much, and what is being done."""


@contextmanager
def progress() -> Iterator[Progress]:
    """To be told of it."""
    if not sys.stderr.isatty():
        yield lambda _done, _planned, _words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = BarColumn(bar_width=30), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(done: int, planned: int, words: str) -> None:
            bar.update(task, completed=done, total=planned, description=words)

        yield tell
