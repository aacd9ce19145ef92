"""What choosing delays costs: milliseconds of CPU per solve, and per step that nothing else can run in.

Run: python -m bench.optimiser
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import partial

from hedgerow.policy.allocate import Cell, allocation
from hedgerow.policy.correlation import Pairs
from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.reissue import Aim, Law, single_r

ROUNDS = 40
SAMPLES = 1000
CELLS = 5
CORRELATIONS = (0.0, 0.3)
AIMS = (Aim(0.95, 0.05), Aim(0.99, 0.02), Aim(0.99, 0.05), Aim(0.99, 0.1))


def history(rng: random.Random, mu: float, sigma: float) -> Distribution:
    """A full window of one prompt size."""
    return Distribution.of(rng.lognormvariate(mu, sigma) for _ in range(SAMPLES))


def cells(rng: random.Random, correlation: float) -> list[Cell]:
    made = []
    for size in range(CELLS):
        mu, sigma = 0.5 * size - 0.7, 0.5 + 0.1 * size
        primary, backup = history(rng, mu, sigma), history(rng, mu, sigma)
        made.append(Cell(0.5**size, 3.0**size, primary, backup, correlation))
    return made


def steps_of(of: list[Cell], aim: Aim, hedges: float) -> list[float]:
    """CPU seconds of each step of one solve."""
    steps, taken = allocation(of, aim, hedges), []
    while True:
        started = time.thread_time()
        over = next(steps, steps)
        taken.append(time.thread_time() - started)
        if over is steps:
            return taken


def seconds(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return time.thread_time() - started


def milliseconds(values: list[float]) -> str:
    return f"{1e3 * statistics.median(values):8.2f} {1e3 * max(values):8.2f}"


def main() -> None:
    rng = random.Random(4)
    print(f"{'':44}  median      max   ms; {ROUNDS} rounds, windows of {SAMPLES} samples")
    for correlation in CORRELATIONS:
        one: tuple[Law, Law] = (history(rng, 0.0, 1.0), history(rng, 0.0, 1.0))
        many = cells(rng, correlation)
        for aim in AIMS:
            about = f"p{100 * aim.target:g}, budget {100 * aim.budget:g} %, r {correlation:g}"
            solve = partial(single_r, *one, target=aim.target, budget=aim.budget, correlation=correlation)
            print(f"{'single_r, ' + about:44}{milliseconds([seconds(solve) for _ in range(ROUNDS)])}")
            runs = [steps_of(many, aim, 1.0) for _ in range(ROUNDS)]
            print(f"{f'allocate {CELLS} cells, ' + about:44}{milliseconds([sum(run) for run in runs])}")
            print(f"{'  its longest step':44}{milliseconds([max(run) for run in runs])}")
            runs = [steps_of(many, aim, aim.budget / 2) for _ in range(ROUNDS)]
            print(f"{'  and at most half as many hedges':44}{milliseconds([sum(run) for run in runs])}")
            print(f"{'  its longest step':44}{milliseconds([max(run) for run in runs])}")
    pairs = Pairs(0.3)
    told = partial(pairs.observe, 0.96, 0.4, primary_done=True, hedge_done=False)
    print(f"{'a pair learned':44}{milliseconds([seconds(told) for _ in range(ROUNDS)])}")
    print(f"{'correlation estimated':44}{milliseconds([seconds(pairs.estimate) for _ in range(ROUNDS)])}")


if __name__ == "__main__":
    main()
