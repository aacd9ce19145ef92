"""What knowing when to hedge costs: microseconds per request, milliseconds per refresh; one core.

Run: python -m bench.delays
"""

from __future__ import annotations

import random
import statistics
import time

from hedgerow.policy.ask import Ask
from hedgerow.policy.auto import PROMPTS
from hedgerow.policy.delay import Auto, Percentile, Slo, Spec, show
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.rules import Rules
from hedgerow.policy.when import When

ROUNDS = 40
REQUESTS = 200_000
SPECS: tuple[Spec, ...] = (Percentile(0.95), Slo(4.0), Auto())
ASKS = tuple(Ask("r", stream=True, input_tokens=tokens) for tokens in PROMPTS)


def observe(model: LatencyModel, rng: random.Random, count: int, now: float) -> None:
    """As many requests of each of the five sizes, and a tenth as many hedges."""
    for size, tokens in enumerate(PROMPTS):
        for target, of in (("a", count), ("b", count // 10)):
            for _ in range(of):
                seconds = rng.lognormvariate(0.4 * size - 0.7, 0.5 + 0.1 * size)
                model.observe(target, True, tokens, seconds, False, now)


def refreshed(when: When, now: float) -> list[float]:
    """Seconds of each step of a refresh."""
    steps, taken = when.refreshing(now), []
    while True:
        started = time.perf_counter()
        over = next(steps, steps)
        taken.append(time.perf_counter() - started)
        if over is steps:
            return taken


def main() -> None:
    rng = random.Random(4)
    print(f"{'':12} choose, us   refresh, ms: median     max   its longest step: median     max; 5 prompt sizes")
    for spec in SPECS:
        model = LatencyModel()
        observe(model, rng, 1000, 0.0)
        when = When(model, Rules(spec, budget=0.05, max_delay=20.0))
        for ask in ASKS:
            when.choose(ask, "a", "b", 0.0)
        runs = []
        for step in range(1, ROUNDS + 1):
            observe(model, rng, 60, 6.0 * step)
            runs.append(refreshed(when, 6.0 * step))
        started = time.perf_counter()
        for _ in range(REQUESTS):
            when.choose(ASKS[1], "a", "b", 300.0)
        each = (time.perf_counter() - started) / REQUESTS
        print(f"{show(spec):12} {1e6 * each:10.2f} {_both([sum(run) for run in runs])} {_both([max(r) for r in runs])}")


def _both(seconds: list[float]) -> str:
    return f"{1e3 * statistics.median(seconds):20.2f} {1e3 * max(seconds):7.2f}"


if __name__ == "__main__":
    main()
