"""Windows: the same samples as a plain list would keep, the same estimate as from those, rounded; 1 % off at most."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import inf, nan, sqrt
from random import Random
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.policy.latency.alike import QUANTILES, TOLERANCE, Alike, Sorted, _longer, _longer_of
from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.latency.window import (
    BUCKETS,
    ERROR,
    HISTORY,
    LONGEST,
    MIDDLES,
    SHORTEST,
    Window,
    code_of,
    latest,
    together,
)

SLACK = 1 + 1e-9  # what floats may add
on_scale = st.floats(SHORTEST, LONGEST)
any_length = on_scale | st.floats(-1, 10_000)
Observed = tuple[float, bool, float]
observations = st.lists(st.tuples(any_length, st.booleans(), st.sampled_from([0.0, 0.25, 1.0, 5.0, 40.0])), max_size=80)


def rounded(seconds: float) -> float:
    return MIDDLES[code_of(seconds, False) >> 1]


@given(seconds=on_scale)
def test_a_time_read_back_is_off_by_1_percent_at_most(seconds: float) -> None:
    assert abs(rounded(seconds) - seconds) <= ERROR * seconds * SLACK


def test_rounding_goes_both_ways_and_uses_all_of_its_error() -> None:
    errors = [rounded(1.0 + step / 10_000) / (1.0 + step / 10_000) - 1 for step in range(1_000)]
    assert min(errors) == pytest.approx(-ERROR, abs=2e-4)
    assert max(errors) == pytest.approx(ERROR, abs=2e-4)


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(-1.0, 0), (0.0, 0), (SHORTEST, 0), (LONGEST, BUCKETS - 1), (LONGEST * 2, BUCKETS - 1), (inf, BUCKETS - 1)],
)
def test_times_off_the_scale_count_as_its_ends(seconds: float, bucket: int) -> None:
    assert code_of(seconds, False) == 2 * bucket
    assert code_of(seconds, True) == 2 * bucket + 1


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError):
        Window().observe(nan, False, 0.0)


class PlainWindow:
    """What a window must hold, by its definition."""

    def __init__(self, size: int, age: float) -> None:
        self.size, self.age = size, age
        self.all: list[Observed] = []

    def held(self, now: float) -> list[Observed]:
        return [sample for sample in self.all if sample[2] >= now - self.age][-self.size :]

    def codes(self, now: float) -> Counter[int]:
        return Counter(code_of(seconds, censored) for seconds, censored, _ in self.held(now))


def codes(window: Window, size: int, now: float) -> Counter[int]:
    return Counter(latest([window], size, now)[0])


@given(events=observations, size=st.integers(1, 20), age=st.sampled_from([1.0, 10.0, 60.0]), asks=st.booleans())
def test_it_slides_by_count_and_by_age_like_a_plain_list(
    events: list[tuple[float, bool, float]], size: int, age: float, asks: bool
) -> None:
    """Finagle counts 10 s when they are over, tower the period before: what they know is late, and comes in jumps."""
    window, plain, now = Window(size, age), PlainWindow(size, age), 0.0
    for seconds, censored, passed in events:
        now += passed
        window.observe(seconds, censored, now)
        plain.all.append((seconds, censored, now))
        if asks:
            assert window.count(now) == len(plain.held(now))
    for moment in (now, now + age / 2, now + age, now + age + 0.25):
        assert codes(window, size, moment) == plain.codes(moment)
        assert window.count(moment) == len(plain.held(moment))


@given(events=observations, size=st.integers(1, 20), to=st.integers(1, 20), age=st.sampled_from([1.0, 60.0]))
def test_resized_it_goes_on_with_its_latest_samples(
    events: list[tuple[float, bool, float]], size: int, to: int, age: float
) -> None:
    window, plain, now = Window(size, 20.0), PlainWindow(size, 20.0), 0.0
    for number, (seconds, censored, passed) in enumerate(events):
        if number == len(events) // 2:
            plain.all = plain.all[-size:]
            plain.size, plain.age = to, age
            window.resize(to, age)
        now += passed
        window.observe(seconds, censored, now)
        plain.all.append((seconds, censored, now))
    assert codes(window, to if len(events) > 1 else size, now) == plain.codes(now)


@given(values=st.lists(on_scale, min_size=1, max_size=60), rank=st.integers(1, 60))
def test_quantiles_are_within_1_percent_of_the_exact_ones(values: list[float], rank: int) -> None:
    window = Window()
    for value in values:
        window.observe(value, False, 0.0)
    rank = min(rank, len(values))
    exact = sorted(values)[rank - 1]
    assert abs(together([window], 1000, 0.0).quantile(rank / len(values)) - exact) <= ERROR * exact * SLACK


@given(values=st.lists(on_scale, max_size=60), censored=st.lists(on_scale, max_size=60), t=on_scale)
def test_survival_is_exact_at_a_time_that_is_1_percent_off_at_most_when_nothing_was_broken_off_before(
    values: list[float], censored: list[float], t: float
) -> None:
    censored = [max(value, t * 1.05) for value in censored]
    window, exact = Window(), Distribution.of(values, censored)
    for value in values:
        window.observe(value, False, 0.0)
    for value in censored:
        window.observe(value, True, 0.0)
    survival = together([window], 1000, 0.0).survival(t)
    assert (
        exact.survival(t * (1 + ERROR) * SLACK) - 1e-12 <= survival <= exact.survival(t / (1 + ERROR) / SLACK) + 1e-12
    )


def test_after_its_age_without_a_sample_it_is_empty_and_holds_no_memory() -> None:
    """tower forgets after two idle periods, whatever their length; here each sample has its own age."""
    window = Window(1000, 60.0)
    empty = memory(window)
    for _ in range(1000):
        window.observe(1.0, False, 100.0)
    assert window.count(160.0) == 1000
    assert memory(window) > 10_000
    assert window.count(160.001) == 0
    assert memory(window) <= empty
    assert together([window], 1000, 160.001) == Distribution.of([])


def test_its_memory_is_bounded_however_many_samples_come() -> None:
    window = Window(1000)
    most = 0
    for number in range(20_000):
        window.observe(1.0, False, number / 1000)
        most = max(most, memory(window))
    assert most <= 1.25 * 10 * 1000 + 300 + 2 * HISTORY * 1_000 + 8 * HISTORY * 250 + 4 * 2 * BUCKETS + 100


def memory(window: Window) -> int:
    older = sum(sys.getsizeof(values) + sys.getsizeof(at_least) for _, _, values, at_least in window._older)
    counts = 0 if window._older_counts is None else sys.getsizeof(window._older_counts)
    return sys.getsizeof(window._codes) + sys.getsizeof(window._times) + older + counts


def test_its_rate_is_that_since_its_oldest_sample() -> None:
    window = Window(10)
    assert window.rate(0.0) == 0.0
    for tenth in range(100):
        window.observe(1.0, False, tenth / 10)
    assert window.rate(9.9) == pytest.approx(10.0)
    assert window.rate(18.0) == pytest.approx(1.0)
    at_once = Window(10)
    at_once.observe(1.0, False, 5.0)
    at_once.observe(1.0, False, 5.0)
    assert at_once.rate(5.0) == 0.0


@pytest.mark.parametrize(("size", "age"), [(0, 60.0), (-1, 60.0), (10, 0.0), (10, -1.0), (10, nan)])
def test_bounds_that_hold_nothing_are_refused(size: int, age: float) -> None:
    with pytest.raises(ValueError, match="at least 1 sample"):
        Window(size, age)


@given(
    samples=st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 100.0), st.booleans()), max_size=60),
    size=st.integers(1, 12),
    pause=st.sampled_from([0.0, 0.001, 1.0]),
)
def test_several_know_together_what_one_would_know(
    samples: list[tuple[int, float, bool]], size: int, pause: float
) -> None:
    several, one, now = [Window(size, 20.0) for _ in range(4)], Window(size, 20.0), 0.0
    for which, seconds, censored in samples:
        now += pause
        several[which].observe(seconds, censored, now)
        one.observe(seconds, censored, now)
        assert len(latest(several, size, now)[0]) == one.count(now)
        if pause:  # of one moment, any may be the last
            assert Counter(latest(several, size, now)[0]) == codes(one, size, now)


def filled(laws: Sequence[Callable[[Random], float]], each: int, random: Random, *, step: float = 0.01) -> Window:
    """A window of 200 after so many samples of one law after the other, one every `step` seconds from 0 on."""
    window = Window(200, 60.0)
    for number, law in enumerate(law for law in laws for _ in range(each)):
        window.observe(law(random), False, number * step)
    return window


def usual(random: Random) -> float:
    return random.lognormvariate(0.0, 1.0)


def slower(random: Random) -> float:
    return 2.0 * random.lognormvariate(0.0, 1.0)


def heavier(random: Random) -> float:
    """The same median, and a quarter takes ten times as long."""
    value = random.lognormvariate(0.0, 1.0)
    return 10.0 * value if value > 2.0 else value


def test_older_samples_that_are_like_the_window_count_as_well() -> None:
    window = filled([usual], 4_000, Random(1))
    assert 4 * 200 <= together([window], 200, 40.0).n <= 6 * 200


@pytest.mark.parametrize("then", [slower, heavier])
def test_what_was_before_a_change_does_not(then: Callable[[Random], float]) -> None:
    window = filled([usual, then], 600, Random(2))
    known = together([window], 200, 12.0)
    assert 200 <= known.n <= 600 + 100  # what came since, and at most one part that holds some of both
    assert together([filled([then, usual, usual], 600, Random(3))], 200, 18.0).n >= 800


def test_nothing_older_than_its_age_counts_however_alike() -> None:
    window = filled([usual], 4_000, Random(4), step=0.1)
    assert together([window], 200, 400.0).n <= 600
    assert together([window], 200, 459.0).n <= 20


def test_at_leasts_do_not_make_samples_differ() -> None:
    """Of one law, of which now all and now none that take longer than 2 s are broken off there."""
    window, random = Window(200, 60.0), Random(5)
    for number in range(1_600):
        took, cut = usual(random), number % 400 < 200
        window.observe(min(took, 2.0) if cut else took, cut and took > 2.0, number * 0.01)
    assert together([window], 200, 16.0).n >= 1_000


def test_a_tail_is_known_better_by_more_samples() -> None:
    alone = [together([filled([usual], 200, Random(seed))], 200, 2.0).quantile(0.98) for seed in range(40)]
    longer = [together([filled([usual], 1_600, Random(seed))], 200, 16.0).quantile(0.98) for seed in range(40)]
    assert stdev(longer) < 0.6 * stdev(alone)


@given(
    samples=st.lists(st.tuples(st.integers(0, 1), st.floats(0.5, 2.0), st.booleans()), min_size=30, max_size=400),
    size=st.integers(8, 24),
    pause=st.sampled_from([0.001, 0.1]),
    to=st.integers(4, 40),
)
def test_what_is_counted_is_the_window_and_the_latest_parts_before(
    samples: list[tuple[int, float, bool]], size: int, pause: float, to: int
) -> None:
    """Counted part by part, or all at once less the parts that are too old or unlike: it comes to the same."""
    windows, now = [Window(size, 20.0) for _ in range(2)], 0.0
    for number, (which, seconds, censored) in enumerate(samples):
        now += pause
        windows[which].observe(seconds, censored, now)
        if number == len(samples) // 2:
            windows[which].resize(to, 20.0)
            size = min(size, to)
        if number % 10 == 0:
            held, before = latest(windows, size, now)
            whole = Counter(held)
            sums = [dict(whole)]
            for part in before:
                whole.update(part.values)
                whole.update(part.at_least)
                sums.append(dict(whole))
            assert together(windows, size, now) in [of_counts(each) for each in sums]


def of_counts(counts: dict[int, int]) -> Distribution:
    codes = sorted(counts)
    return Distribution.estimated(
        [MIDDLES[code >> 1] for code in codes], [code & 1 for code in codes], [counts[code] for code in codes]
    )


def plainly_longer(samples: Sequence[int], cut: int) -> tuple[Fraction, int]:
    """By its definition: values of a tie come first, and of what was broken off before the cut nothing is known."""
    share, known = Fraction(1), len(samples)
    for code in sorted(set(samples)):
        at_risk = sum(other >= code for other in samples)
        if code > cut:
            break
        if code & 1:
            known -= samples.count(code)
        else:
            share *= 1 - Fraction(samples.count(code), at_risk)
    return share, known if share == 0 or any(code > cut for code in samples) else 0


numbers = st.lists(st.integers(2, 40), min_size=1, max_size=60)


@given(samples=numbers, cuts=st.sets(st.integers(0, 21), min_size=1, max_size=5), pieces=st.integers(1, 4))
def test_shares_that_take_longer_are_those_of_kaplan_and_meier(samples: list[int], cuts: set[int], pieces: int) -> None:
    at = sorted(2 * cut + 1 for cut in cuts)
    codes = sorted(set(samples))
    shorter = list(accumulate((samples.count(code) for code in codes), initial=0))
    found = _longer(codes, shorter, at)
    parts = [apart(samples[piece::pieces]) for piece in range(pieces)]
    assert _longer_of(parts, at) == found
    plainly = [plainly_longer(samples, cut) for cut in at]
    assert [known for _, known in found] == [known for _, known in plainly]
    assert [share for share, _ in found] == [pytest.approx(float(share), abs=1e-12) for share, _ in plainly]


def apart(samples: Sequence[int]) -> Sorted:
    return sorted(code for code in samples if not code & 1), sorted(code for code in samples if code & 1)


@given(latest=numbers, older=numbers)
def test_samples_are_alike_where_the_shares_beyond_quantiles_of_the_latest_are(
    latest: list[int], older: list[int]
) -> None:
    counts = [latest.count(code) for code in range(42)]
    ordered = sorted(latest)
    near = True
    for cut in sorted({ordered[min(int(p * len(ordered)), len(ordered) - 1)] | 1 for p in QUANTILES}):
        (a, known), (b, others) = plainly_longer(latest, cut), plainly_longer(older, cut)
        if known and others:
            share = float((a * known + b * others) / (known + others))
            spread = sqrt(share * (1.0 - share) * (1.0 / known + 1.0 / others))
            near &= abs(a - b) <= TOLERANCE * spread + 1e-12
    assert Alike(counts).to([apart(older)]) == near
