"""What the parts of the evaluation have in common: work on several processes, and what comes of a part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Part(NamedTuple):
    """Its exit code, its tables as Markdown, and its figures."""

    code: int
    text: str = ""
    figures: Sequence[Any] = ()


def all_of(jobs: Sequence[Callable[[], T]], words: Sequence[str], processes: int) -> list[T]:
    """What each of the jobs returns, in their order; `words` say of each on stderr that it is done."""
    found: dict[int, T] = {}
    with ProcessPoolExecutor(processes) as pool:
        running = {pool.submit(job): number for number, job in enumerate(jobs)}
        for done in as_completed(running):
            number = running[done]
            found[number] = done.result()
            print(f"[{len(found)}/{len(jobs)}] {words[number]}", file=sys.stderr, flush=True)
    return [found[number] for number in range(len(jobs))]


def verdict(faults: Sequence[str]) -> int:
    """An exit code; what falls short is said on stderr."""
    for fault in faults:
        print(f"eval: {fault}", file=sys.stderr)
    return 1 if faults else 0
