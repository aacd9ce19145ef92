"""`hedge.delay`: what it may hold, what it means, and that what is shown reads the same again."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.policy.delay import SMOOTHING, Auto, Fixed, Off, Percentile, Slo, Spec, parse_delay, show
from hedgerow.units import parse_duration, show_duration

specs: st.SearchStrategy[Spec] = st.one_of(
    st.just(Off()),
    st.just(Auto()),
    st.integers(0, 10**7).map(lambda milliseconds: Fixed(milliseconds / 1000)),
    st.integers(1, 10**7).map(lambda milliseconds: Slo(milliseconds / 1000)),
    st.builds(
        Percentile,
        st.integers(1, 99_999).map(lambda p: p / 100_000),
        st.none() | st.integers(1, 100).map(lambda percent: percent / 100),
    ),
)


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        ("off", Off()),
        ("auto", Auto()),
        ("0", Fixed(0.0)),
        (0, Fixed(0.0)),
        (1.5, Fixed(1.5)),
        ("95", Fixed(95.0)),
        ("2s", Fixed(2.0)),
        ("300ms", Fixed(0.3)),
        ("p95", Percentile(0.95)),
        ("p5", Percentile(0.05)),
        ("p99.9", Percentile(0.999)),
        ("ema(p95)", Percentile(0.95, SMOOTHING)),
        ("ema( p90 , 0.5 )", Percentile(0.9, 0.5)),
        ("slo: 1.2s", Slo(1.2)),
        ({"slo": "800ms"}, Slo(0.8)),
        ({"slo": 2}, Slo(2.0)),
    ],
)
def test_what_a_setting_means(value: object, spec: Spec) -> None:
    assert parse_delay(value, parse_duration) == spec


@given(spec=specs)
def test_what_is_shown_reads_the_same_again(spec: Spec) -> None:
    assert parse_delay(show(spec, show_duration), parse_duration) == spec


def test_seconds_are_shown_plainly_without_anybody_who_knows_better() -> None:
    assert [show(spec) for spec in (Fixed(0.0), Fixed(0.25), Slo(1.2))] == ["0", "0.25s", "slo: 1.2s"]
    for seconds in (1e-06, 0.123457, 1234.5678, 12_345_678.0, 1e20):
        assert parse_delay(show(Fixed(seconds)), parse_duration) == Fixed(seconds)


@pytest.mark.parametrize(
    "value",
    ["", "p", "p100", "p-5", "q95", "p95s", "5x", "-1s", "ema(2s)", "ema(p95, )", "slo: soon", "slo:", True, None,
     ["p95"], {"slo": "1s", "p": 95}, {"auto": None}, "ema(p95, 0.2.5)", "P95", nan, inf],
    ids=repr,
)  # fmt: skip
def test_what_is_no_delay_is_refused_with_what_is_allowed(value: object) -> None:
    with pytest.raises(ValueError) as refused:
        parse_delay(value, parse_duration)
    for word in ("2s", "300ms", "p95", "ema(p95)", "auto", "slo: 1.2s", "off", '"0"'):
        assert word in str(refused.value)


@pytest.mark.parametrize("value", ["p0", "p0.0", "ema(p95, 0)", "ema(p95, 1.1)", "slo: 0", {"slo": 0}])
def test_numbers_that_mean_nothing_are_refused_with_their_range(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be (above|more than)"):
        parse_delay(value, parse_duration)


@pytest.mark.parametrize("seconds", [-1.0, inf, nan])
def test_a_delay_is_a_finite_number_of_seconds(seconds: float) -> None:
    with pytest.raises(ValueError, match="0 seconds or more"):
        Fixed(seconds)
