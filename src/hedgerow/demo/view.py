"""The live view of a demo run: moving bars on a terminal, plain lines anywhere else."""

from __future__ import annotations

from bisect import insort
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hedgerow.demo.formula import percentile
from hedgerow.demo.reply import Answer
from hedgerow.demo.report import seconds

STEPS = 4
"""Lines per phase where there is no terminal."""


class View:
    """Shows how far each phase is, and its p50 and p99 so far in simulated time. Use as a context manager."""

    def __init__(self, console: Console, *, speed: float) -> None:
        self._console = console
        self._speed = speed
        self._progress: Progress | None = None
        if console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn("first token p50 {task.fields[p50]:>7}  p99 {task.fields[p99]:>7}"),
                TimeElapsedColumn(),
                console=console,
            )

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, words: str) -> None:
        """One line above the bars."""
        self._console.print(words, highlight=False, markup=False, soft_wrap=True)

    def phase(self, name: str, total: int) -> Meter:
        """A new phase of `total` requests."""
        task = None if self._progress is None else self._progress.add_task(f"{name:<16}", total=total, p50="", p99="")
        return Meter(self, self._progress, task, name=name, total=total, speed=self._speed)


class Meter:
    """One phase's progress; call `answered` with every answer."""

    def __init__(
        self, view: View, progress: Progress | None, task: TaskID | None, *, name: str, total: int, speed: float
    ) -> None:
        self._view = view
        self._progress = progress
        self._task = task
        self._name = name
        self._total = total
        self._speed = speed
        self._times: list[float] = []

    def answered(self, answer: Answer) -> None:
        insort(self._times, answer.first_token * self._speed)
        p50, p99 = (seconds(percentile(self._times, q)) for q in (0.5, 0.99))
        done = len(self._times)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, p50=p50, p99=p99)
        elif done == self._total or done % max(1, self._total // STEPS) == 0:
            self._view.say(f"{self._name}: {done}/{self._total} answered, first token p50 {p50}, p99 {p99} so far")
