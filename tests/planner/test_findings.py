"""Named findings: each is found in a log that has what it tells of, and in none that has not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.planner.findings import findings_of
from hedgerow.planner.log import LATE_FIRST, NEGATIVE, REFUSED, SUPERSEDED, Log
from hedgerow.planner.plan import Finding
from hedgerow.planner.statistics import pairings, statistics_of

N = 24_000


def sound() -> Log:
    """Two targets with long tails that know nothing of each other nor of prompt sizes, over two days."""
    generator = np.random.default_rng(10)
    return Log(
        at=np.arange(N) * 8.0 + generator.random(N),
        ttft=generator.lognormal(0.0, 0.9, N),
        failed=np.zeros(N, dtype=bool),
        input_tokens=generator.choice([200, 2_000, 8_000], N),
        target=np.arange(N) % 2,
        request=np.full(N, -1),
        targets=["a", "b"],
        timed=True,
        of_first_token=True,
        read=N,
    )


def found_in(log: Log, target_quantile: float = 0.99) -> tuple[Finding, ...]:
    return findings_of(log, statistics_of(log), pairings(log, within=10.0), target_quantile)


def test_nothing_is_found_in_a_sound_log() -> None:
    assert found_in(sound()) == ()


def untimed(log: Log) -> Log:
    return replace(log, timed=False)


def whole(log: Log) -> Log:
    return replace(log, of_first_token=False)


def unsized(log: Log) -> Log:
    return replace(log, input_tokens=log.input_tokens * 0)


def only_a(log: Log) -> Log:
    return replace(log, target=log.target * 0, targets=["a"])


def short_tail(log: Log) -> Log:
    return replace(log, ttft=np.where(log.target == 0, log.ttft**0.5, log.ttft))


def few(log: Log) -> Log:
    return log.of(np.arange(N) % 5 == 0)


def long_prompts(log: Log) -> Log:
    return replace(log, ttft=np.where(log.target == 1, log.ttft**0.3 * log.input_tokens**0.9, log.ttft))


def long_answers(log: Log) -> Log:
    answers = np.random.default_rng(3).lognormal(6.0, 1.0, N).astype(np.int64) + 1
    took = np.where(log.target == 1, log.ttft**0.3 * answers, log.ttft)
    return replace(log, ttft=took, of_first_token=False, output_tokens=answers)


def slow_spells(log: Log) -> Log:
    spell = (np.arange(N) // 200 % 20 == 3) & (log.target == 0)
    return replace(log, ttft=np.where(spell, log.ttft * 8.0, log.ttft))


def slow_together(log: Log) -> Log:
    shared = np.repeat(log.ttft[::2], 2) * np.random.default_rng(1).lognormal(0.0, 0.5, N)
    return replace(log, ttft=shared, request=np.arange(N) // 2)


def slow_spells_of_both(log: Log) -> Log:
    spell = np.arange(N) // 200 % 20 == 3  # 5 % of the time, which is little to a rank correlation
    return replace(log, ttft=np.where(spell, 12.0, 1.0) * log.ttft**0.4)


def out(log: Log) -> Log:
    failed = log.failed.copy()
    failed[8_000:8_100:2] = True
    return replace(log, failed=failed, ttft=np.where(failed, np.nan, log.ttft))


def failing(log: Log) -> Log:
    failed = (log.target == 1) & (np.random.default_rng(2).random(N) < 0.05)
    ttft, failed_after = np.where(failed, np.nan, log.ttft), np.where(failed, 0.2, np.nan)
    return replace(log, failed=failed, ttft=ttft, failed_after=failed_after)


def failing_untimed(log: Log) -> Log:
    return replace(failing(log), failed_after=None)


def slower(log: Log) -> Log:
    return replace(log, ttft=np.where((log.target == 0) & (np.arange(N) > N // 2), log.ttft * 1.6, log.ttft))


def longer(log: Log) -> Log:
    tokens = np.where(np.arange(N) < N // 2, 200, 8_000)
    return replace(log, input_tokens=tokens, ttft=log.ttft**0.3 * tokens**0.9)


def bad(**reasons: int) -> Callable[[Log], Log]:
    return lambda log: replace(log, bad=reasons, read=N + sum(reasons.values()))


def doubled(log: Log) -> Log:
    return log.of(np.sort(np.concatenate([np.arange(N), np.arange(500)])))


@pytest.mark.parametrize(
    ("change", "names", "says"),
    [
        (untimed, {"no_times"}, "does not say when"),
        (whole, {"whole_answers"}, "whole answer only"),
        (unsized, {"no_sizes"}, "no prompt sizes"),
        (only_a, {"one_target"}, "All went to a:"),
        (short_tail, {"small_tail"}, "At a the slowest 1 % take 2.9 times the median"),
        (few, {"few_samples"}, "a has 2,400 answers, where 10,000 would do: its p99 rests on the slowest 24 and lies"),
        (long_prompts, {"slow_because_long"}, "At b prompt size explains 9"),
        (
            long_answers,
            {"slow_because_long", "whole_answers"},
            "At b prompt size and the length of the answer explain 9",
        ),
        (slow_spells, {"bursty"}, "Slow requests at a come together: after a slow one the next is"),
        (slow_together, {"correlated"}, "a and b are slow at the same time (rank correlation 0.7"),
        (slow_spells_of_both, {"correlated", "bursty"}, "Slow requests at a come together"),
        (
            lambda log: replace(log, limited={"b": 0.075}),
            {"rate_limited"},
            "b turns 7.5 % of the attempts away (HTTP 429)",
        ),
        (out, {"outage"}, "a was out once; at the longest (13.1 minutes, 50 attempts"),
        (failing, {"failing"}, "4.9 % of the attempts at b failed"),
        (
            failing_untimed,
            {"failing", "failure_times"},
            "Of 589 failures at b (4.9 % of its attempts) the log does",
        ),
        (longer, {"slow_because_long"}, "prompt size explains"),
        (slower, {"changed"}, "a has changed: its p50 was 978 ms in the first half of the log and 1.58 s"),
        (
            bad(**{"no time": 2_000, "no latency": 10}),
            {"many_bad_rows"},
            "7.7 % of the rows could not be used: no time",
        ),
        (bad(**{NEGATIVE: 30, LATE_FIRST: 30}), {"clock"}, "In 60 rows an answer ends before it begins"),
        (bad(**{SUPERSEDED: 600, REFUSED: 5_000}), {"censored"}, "600 attempts (2.4 %) were cancelled"),
        (doubled, {"duplicates"}, "500 rows are there more than once"),
        (lambda log: replace(log, stamps=54), {"coarse_times"}, "only 54 different times"),
        (lambda log: replace(log, at=log.at / 100), {"short_log"}, "covers 32 minutes"),
        (lambda log: replace(log, ttft=np.ceil(log.ttft)), {"coarse_latencies"}, "whole seconds"),
    ],
)
def test_what_a_log_has_is_found_and_nothing_else(change: Callable[[Log], Log], names: set[str], says: str) -> None:
    found = found_in(change(sound()))
    assert {finding.name for finding in found} == names
    assert any(says in finding.text for finding in found)


@pytest.mark.parametrize(
    ("rows", "target_quantile", "severity"),
    [(24_000, 0.99, None), (24_000, 0.999, "warning"), (400, 0.99, "warning"), (120, 0.99, "stop"), (20, 0.99, "stop")],
)
def test_how_grave_it_is_to_have_few(rows: int, target_quantile: float, severity: str | None) -> None:
    log = replace(sound().of(slice(rows)), targets=["a", "b"])
    few = [each.severity for each in found_in(log, target_quantile) if each.name == "few_samples"]
    assert set(few) == ({severity} if severity else set())


def test_targets_with_next_to_nothing_are_named_together() -> None:
    log = sound()
    target = log.target.copy()
    target[:30:6], target[1:30:6] = 2, 3
    found = found_in(replace(log, target=target, targets=["a", "b", "c", "d"]))
    assert [each.text for each in found] == ["2 of 4 targets have fewer than 20 answers each (c, d): left alone."]


def test_what_holds_of_many_targets_is_told_of_three() -> None:
    log = replace(sound(), target=np.arange(N) % 8, targets=[*"abcdefgh"])
    few = [each for each in found_in(log) if each.name == "few_samples"]
    assert [each.target for each in few] == ["a", "b", "c", None]
    assert few[3].text == "The same (few_samples) holds of 5 more: d, e, f and others."


def test_the_gravest_come_first() -> None:
    log = bad(nonsense=60_000)(untimed(unsized(sound())))
    assert [each.severity for each in found_in(log)] == ["stop", "warning", "note"]
