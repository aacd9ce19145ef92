"""A latency log to try `hedgerow plan` on: four hours of two simulated providers, one of which has an outage.

`python examples/latency_log.py --seed 7 > examples/latency-log.csv` makes the one that lies beside it. The providers
are hedgerow's lab (times to the first token, slow spells, faults), asked in virtual time: nothing waits. With another
seed it is another day; with more requests it is a longer one, with an outage every four hours.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import exp, log
from random import Random

from hedgerow.lab.latency import uniform
from hedgerow.lab.options import Behaviour, LabOptions
from hedgerow.lab.script import FaultMix

START = datetime(2026, 11, 2, 8, tzinfo=UTC)
SECONDS = 4 * 3_600.0
REQUESTS = 6_000
TO_EAST = 0.7
"""The share of requests that goes there."""
OUTAGE = (2.5 * 3_600.0, 2.5 * 3_600.0 + 420.0)
"""When the east refuses nearly everything, in seconds from the start of each four hours."""
REFUSING = FaultMix("503:0.92")
HEAD = ["started_at", "provider", "ttft_ms", "total_ms", "input_tokens", "output_tokens", "status"]


def providers(seed: int) -> dict[str, Behaviour]:
    """Both have a heavy tail; the slow spells of each are its own."""
    east = LabOptions(
        name="lab-east", seed=seed, p50_ms=620, p95_ms=2_400, p99_ms=8_200, slow="2.2:0.05:75", rho=0.15,
        prefill_ms=35, gap_ms=14, fault="503:0.004,429:0.002",
    )  # fmt: skip
    west = LabOptions(
        name="lab-west", seed=seed, p50_ms=810, p95_ms=2_600, p99_ms=6_900, slow="2.0:0.04:60", rho=0.15,
        prefill_ms=40, gap_ms=16, fault="503:0.003",
    )  # fmt: skip
    return {each.name: Behaviour(each) for each in (east, west)}


def rows(seed: int, requests: int = REQUESTS) -> Iterator[list[str | int]]:
    """One request each, in the order of time."""
    random = Random(seed)
    asked = dict.fromkeys(labs := providers(seed), 0)
    at = 0.0
    for number in range(requests):
        at += random.expovariate(REQUESTS / SECONDS)
        name = "lab-east" if random.random() < TO_EAST else "lab-west"
        prompt = min(round(exp(random.gauss(log(700), 1.3))) + 1, 60_000)
        answer = min(round(exp(random.gauss(log(220), 0.8))) + 1, 4_000)
        lab, key = labs[name], f"request-{number}"
        faults = REFUSING if name == "lab-east" and OUTAGE[0] <= at % SECONDS < OUTAGE[1] else lab.faults
        first = lab.model.ttft(key, 0, prompt_tokens=prompt, nth=asked[name], elapsed=at)
        asked[name] += 1
        started = (START + timedelta(seconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fault = faults.pick(uniform(seed, "fault", name, key, 0))
        if fault is not None:
            yield [started, name, "", round(20 + 60 * random.random()), prompt, 0, fault.status or 500]
            continue
        total = first + lab.gap * lab.pace.total(number, answer)
        yield [started, name, round(first * 1_000), round(total * 1_000), prompt, answer, 200]


def main() -> None:
    """Write it to standard output."""
    parser = argparse.ArgumentParser(description="A latency log of two simulated providers.")
    parser.add_argument("--seed", type=int, default=7, help="same seed, same log")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="how many, at the same pace (default 6000)")
    given = parser.parse_args()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(rows(given.seed, given.requests))


if __name__ == "__main__":
    main()
