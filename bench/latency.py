"""What the latency model costs: microseconds per call, bytes per cell.

    python -m bench.latency

One process, one core; each figure is the best of five runs, which other work on the machine disturbs least.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from time import perf_counter

from hedgerow.policy.latency.cells import SIZES, Cells, LatencyModel, Learning
from hedgerow.policy.latency.window import Window, together

WINDOW = Learning().window
TIMES = 20_000


def seconds_of(count: int) -> list[float]:
    """Times to first token as public traffic has them: p99/p50 about 7."""
    random = Random(1)
    return [random.lognormvariate(0, 0.85) for _ in range(count)]


def cost(call: Callable[[float], object], times: int = TIMES) -> float:
    """Microseconds per call."""
    samples = seconds_of(times)
    best = float("inf")
    for _ in range(5):
        started = perf_counter()
        for seconds in samples:
            call(seconds)
        best = min(best, perf_counter() - started)
    return best / times * 1e6


def filled(stream: bool = True, tokens: int = 500) -> LatencyModel:
    """A model whose one cell is full, its losers broken off after 3 s."""
    model = LatencyModel()
    for seconds in seconds_of(WINDOW * 10):
        model.observe("a", stream, tokens, min(seconds, 3.0), seconds > 3.0, 0.0)
    return model


def size_of_window(window: Window) -> int:
    """Bytes that a window holds."""
    before = sum(sys.getsizeof(part) + sum(map(sys.getsizeof, part)) for part in window._older)
    return before + sum(map(sys.getsizeof, (window, window._codes, window._times, window._older_counts)))


def size_of_target(cells: Cells) -> int:
    """Bytes of all full cells of one target and one measure."""
    for tokens in (0, *SIZES):
        for stream in (True, False):
            for seconds in seconds_of(WINDOW * 10):
                cells.observe("a", stream, tokens, seconds, False, 0.0)
    windows = [window for way in cells._targets["a"].cells for window in way if window is not None]
    return sum(map(size_of_window, windows))


def main() -> None:
    """Print all figures."""
    model, kept, window, random = filled(), filled(), Window(), Random(2)
    known = model.first_token("a", True, 500, 0.0)
    assert known is not None
    for seconds in seconds_of(WINDOW * 10):
        window.observe(seconds, random.random() < 0.05, 0.0)

    def request(seconds: float) -> None:
        distribution = model.first_token("a", True, 500, 0.0)
        assert distribution is not None
        distribution.quantile(0.95)
        model.observe("a", True, 500, seconds, False, 0.0)

    figures = {
        "observe, into a cell and its two parents": cost(lambda s: model.observe("a", True, 500, s, False, 0.0)),
        "first_token, kept": cost(lambda s: kept.first_token("a", True, 500, 0.0)),
        "quantile": cost(lambda s: known.quantile(0.95)),
        "survival": cost(known.survival),
        f"a distribution of {WINDOW} and older ones, made anew": cost(lambda s: together([window], WINDOW, 0.0), 200),
        "a request: first_token, quantile, observe, all making anew": cost(request),
    }
    for what, microseconds in figures.items():
        print(f"{what:60} {microseconds:8.2f} µs")
    atoms = sys.getsizeof(known.times) + sys.getsizeof(known.shares) + 24 * len(known.shares) + sys.getsizeof(known)
    print(f"{f'a window of {WINDOW} samples':60} {size_of_window(window):8} bytes")
    print(f"{f'a distribution with {len(known.times)} steps':60} {atoms:8} bytes")
    print(f"{'a target, all cells full, one measure':60} {size_of_target(Cells(Learning())):8} bytes")


if __name__ == "__main__":
    main()
