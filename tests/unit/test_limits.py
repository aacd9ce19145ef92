"""What upstreams say of their rate limits: header sets as their documentation and recorded answers show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Headers
from hedgerow.room import RateLimits, Room
from hedgerow.wire.limits import MAX_RESET, rate_limits

NOON = b"Mon, 30 Nov 2026 12:00:00 GMT"


def read(lines: str) -> RateLimits | None:
    """The limits in a head written as in documentation."""
    fields = (line.strip().split(": ", 1) for line in lines.strip().splitlines())
    return rate_limits([(name.encode(), value.encode()) for name, value in fields])


def resets_in(value: bytes, date: bytes = NOON) -> float | None:
    found = rate_limits(
        [(b"date", date), (b"x-ratelimit-remaining-tokens", b"7"), (b"x-ratelimit-reset-tokens", value)]
    )
    assert found is not None
    assert found.tokens is not None
    return found.tokens.resets_in


def test_openai_as_documented() -> None:
    assert read("""
        x-ratelimit-limit-requests: 60
        x-ratelimit-limit-tokens: 150000
        x-ratelimit-remaining-requests: 59
        x-ratelimit-remaining-tokens: 149984
        x-ratelimit-reset-requests: 1s
        x-ratelimit-reset-tokens: 6m0s
    """) == RateLimits(Room(59, 60, 1.0), Room(149_984, 150_000, 360.0))


def test_openai_as_recorded_with_a_tighter_limit_beside_the_documented_one() -> None:
    """community.openai.com/t/571736"""
    assert read("""
        x-ratelimit-limit-requests: 5000
        x-ratelimit-limit-tokens: 5000000
        x-ratelimit-limit-tokens_usage_based: 5000000
        x-ratelimit-remaining-requests: 4999
        x-ratelimit-remaining-tokens: 43018
        x-ratelimit-remaining-tokens_usage_based: 13190
        x-ratelimit-reset-requests: 12ms
        x-ratelimit-reset-tokens: 23h47m36.648s
        x-ratelimit-reset-tokens_usage_based: 23h56m12.07s
    """) == RateLimits(Room(4999, 5000, 0.012), Room(13_190, 5_000_000, 86_172.07))


def test_openai_project_that_has_less_left_than_its_organisation() -> None:
    assert read("""
        x-ratelimit-limit-tokens: 200000
        x-ratelimit-remaining-tokens: 150000
        x-ratelimit-reset-tokens: 15s
        x-ratelimit-limit-project-tokens: 100000
        x-ratelimit-remaining-project-tokens: 20000
        x-ratelimit-reset-project-tokens: 48s
    """) == RateLimits(tokens=Room(20_000, 100_000, 48.0))


def test_groq_as_documented() -> None:
    assert read("""
        retry-after: 2
        x-ratelimit-limit-requests: 14400
        x-ratelimit-limit-tokens: 18000
        x-ratelimit-remaining-requests: 14370
        x-ratelimit-remaining-tokens: 17997
        x-ratelimit-reset-requests: 2m59.56s
        x-ratelimit-reset-tokens: 7.66s
    """) == RateLimits(Room(14_370, 14_400, 179.56), Room(17_997, 18_000, 7.66))


def test_azure_in_whole_seconds_and_without_the_limits() -> None:
    assert read("""
        x-ratelimit-remaining-requests: 19
        x-ratelimit-remaining-tokens: 19913
        x-ratelimit-reset-requests: 10
    """) == RateLimits(Room(19, None, 10.0), Room(19_913))


def test_azure_where_it_does_not_know() -> None:
    """learn.microsoft.com/en-us/answers/questions/5625878"""
    assert (
        read("""
        x-ratelimit-limit-tokens: -1
        x-ratelimit-remaining-tokens: -1
        x-ratelimit-reset-tokens: 0
    """)
        is None
    )


def test_anthropic_as_documented_by_its_own_clock() -> None:
    assert read("""
        date: Mon, 04 May 2026 12:34:26 GMT
        anthropic-ratelimit-requests-limit: 50
        anthropic-ratelimit-requests-remaining: 49
        anthropic-ratelimit-requests-reset: 2026-05-04T12:34:27Z
        anthropic-ratelimit-tokens-limit: 38000
        anthropic-ratelimit-tokens-remaining: 36000
        anthropic-ratelimit-tokens-reset: 2026-05-04T12:34:30Z
        anthropic-ratelimit-input-tokens-limit: 30000
        anthropic-ratelimit-input-tokens-remaining: 15000
        anthropic-ratelimit-input-tokens-reset: 2026-05-04T12:34:56Z
        anthropic-ratelimit-output-tokens-limit: 8000
        anthropic-ratelimit-output-tokens-remaining: 8000
        anthropic-ratelimit-output-tokens-reset: 2026-05-04T12:34:26Z
    """) == RateLimits(Room(49, 50, 1.0), Room(36_000, 38_000, 4.0), Room(15_000, 30_000, 30.0), Room(8000, 8000, 0.0))


def test_cerebras_tells_the_window_in_the_name() -> None:
    assert read("""
        x-ratelimit-limit-requests-day: 10000
        x-ratelimit-remaining-requests-day: 9500
        x-ratelimit-reset-requests-day: 33011.382867
        x-ratelimit-limit-requests-minute: 120
        x-ratelimit-remaining-requests-minute: 60
        x-ratelimit-reset-requests-minute: 45.5
        x-ratelimit-limit-tokens-minute: 200000
        x-ratelimit-remaining-tokens-minute: 195000
        x-ratelimit-reset-tokens-minute: 30.2
    """) == RateLimits(Room(60, 120, 45.5), Room(195_000, 200_000, 30.2))


def test_mistral_as_recorded() -> None:
    assert read("""
        x-ratelimit-limit-req-minute: 60
        x-ratelimit-limit-tokens-minute: 50000
        x-ratelimit-limit-tokens-month: 4000000
        x-ratelimit-remaining-req-minute: 59
        x-ratelimit-remaining-tokens-minute: 47196
        x-ratelimit-remaining-tokens-month: 3950246
        x-ratelimit-tokens-query-cost: 2804
    """) == RateLimits(Room(59, 60), Room(47_196, 50_000))


def test_mistral_by_its_older_names() -> None:
    assert read("""
        ratelimitbysize-limit: 500000
        ratelimitbysize-remaining: 499000
        ratelimitbysize-reset: 12
        x-ratelimitbysize-limit-month: 10000000000
        x-ratelimitbysize-remaining-month: 9999999999
    """) == RateLimits(tokens=Room(499_000, 500_000, 12.0))


def test_openrouter_in_milliseconds_since_1970() -> None:
    assert read("""
        date: Mon, 30 Nov 2026 12:00:00 GMT
        x-ratelimit-limit: 20
        x-ratelimit-remaining: 0
        x-ratelimit-reset: 1796040030500
    """) == RateLimits(Room(0, 20, 30.5))


def test_digitalocean_in_seconds_since_1970() -> None:
    assert read("""
        date: Mon, 30 Nov 2026 12:00:00 GMT
        x-ratelimit-limit-tokens-per-minute: 6000
        x-ratelimit-remaining-tokens-per-minute: 1500
        x-ratelimit-reset-tokens-per-minute: 1796040045
    """) == RateLimits(tokens=Room(1500, 6000, 45.0))


def test_an_answer_without_any_says_nothing() -> None:
    assert read("content-type: application/json\ndate: Mon, 30 Nov 2026 12:00:00 GMT\nretry-after: 5") is None
    assert read("x-ratelimit-limit-requests: 60\nx-ratelimit-reset-requests: 1s") is None
    assert rate_limits([]) is None


def test_of_two_limits_that_are_not_told_the_empty_one_counts() -> None:
    assert read("x-ratelimit-remaining-tokens-day: 9\nx-ratelimit-remaining-tokens-minute: 0") == RateLimits(
        tokens=Room(0)
    )
    assert read("x-ratelimit-limit-req-minute: 0\nx-ratelimit-remaining-req-minute: 0") == RateLimits(Room(0, 0))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"20ms", 0.02),
        (b"1s", 1.0),
        (b"6m0s", 360.0),
        (b"4h17m", 15_420.0),
        (b"1d", 86_400.0),
        (b"1h0m0.5s", 3600.5),
        ("1.5µs".encode(), 1.5e-6),
        (b"250us", 250e-6),
        (b"900ns", 900e-9),
        (b"0s", 0.0),
        (b"0", 0.0),
        (b"59", 59.0),
        (b"0.25", 0.25),
        (b"99d", MAX_RESET),
        (b"999999999", MAX_RESET),
        (b"2026-11-30T12:00:30Z", 30.0),
        (b"2026-11-30t12:00:00.250z", 0.25),
        (b"2026-11-30T06:30:01-05:30", 1.0),
        (b"2026-11-30T13:00:01+01:00", 1.0),
        (b"2026-11-30T11:59:59Z", 0.0),
        (b"2099-01-01T00:00:00Z", MAX_RESET),
        (b"1796040001", 1.0),
    ],
)
def test_every_form_of_a_reset(value: bytes, seconds: float) -> None:
    assert resets_in(value) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    "value",
    [
        *(
            b"",
            b"soon",
            b"-1",
            b"-1s",
            b"1x",
            b"1s 2s",
            b"s",
            b"nan",
            b"inf",
            b"1e3",
            b"1_000",
            b" 1",
            b"0x10",
            b"9" * 40,
        ),
        *(b"6m0s,1s", b"1..5s", b"2026-11-30", b"2026-11-30T12:00Z", b"2026-11-30T12:00:30", "٣".encode(), b"\xff"),
    ],
)
def test_a_reset_that_means_nothing_is_left_out(value: bytes) -> None:
    assert resets_in(value) is None


@pytest.mark.parametrize("value", [b"1796040001", b"1796040001000", b"2026-11-30T12:00:30Z"])
@pytest.mark.parametrize("date", [b"", b"today", b"Monday, 30-Nov-26 12:00:00 GMT", b"Mon, 30 Foo 2026 12:00:00 GMT"])
def test_a_point_in_time_without_the_upstreams_clock_says_nothing(value: bytes, date: bytes) -> None:
    assert resets_in(value, date) is None


@pytest.mark.parametrize("count", [b"", b"-1", b"1.5", b"30,000", b"many", b"1" * 16, "٣".encode(), b"\xb2", b" 5"])
def test_a_count_that_means_nothing_is_left_out(count: bytes) -> None:
    assert rate_limits([(b"x-ratelimit-remaining-requests", count)]) is None
    assert rate_limits(
        [(b"x-ratelimit-remaining-requests", b"5"), (b"x-ratelimit-limit-requests", count)]
    ) == RateLimits(Room(5))


zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1), timezones=zones)  # noqa: DTZ001  # zones come from `zones`


@given(now=moments, later=st.timedeltas(timedelta(0), timedelta(days=31)))
def test_times_are_read_as_the_standard_library_reads_them(now: datetime, later: timedelta) -> None:
    now = now.replace(microsecond=0)
    date = format_datetime(now.astimezone(UTC), usegmt=True).encode()
    assert resets_in((now + later).isoformat().encode(), date) == pytest.approx(later.total_seconds(), abs=2e-5)


@given(hours=st.integers(0, 700), minutes=st.integers(0, 59), milliseconds=st.integers(0, 59_999))
def test_durations_add_up(hours: int, minutes: int, milliseconds: int) -> None:
    text = f"{hours}h{minutes}m{milliseconds / 1000:g}s".encode()
    assert resets_in(text) == pytest.approx(hours * 3600 + minutes * 60 + milliseconds / 1000)


names = st.builds(
    "-".join,
    st.lists(
        st.sampled_from(
            [
                *(
                    "x",
                    "anthropic",
                    "ratelimit",
                    "ratelimitbysize",
                    "limit",
                    "remaining",
                    "reset",
                    "requests",
                    "tokens",
                ),
                *("input", "output", "project", "req", "per", "minute", "day", "tokens_usage_based"),
            ]
        ),
        max_size=6,
    ),
).map(str.encode)
known = st.sampled_from(
    [
        f"x-ratelimit-{p}-{k}".encode()
        for p in ("limit", "remaining", "reset")
        for k in ("requests", "tokens", "req-day")
    ]
    + [f"anthropic-ratelimit-input-tokens-{p}".encode() for p in ("limit", "remaining", "reset")]
)
texts = st.text("0123456789.-:+TZdhmsnu ", max_size=24).map(str.encode)
heads = st.lists(
    st.tuples(names | known | st.just(b"date"), st.binary(max_size=24) | texts | st.just(NOON)), max_size=14
)


@given(heads)
def test_whatever_the_headers_hold_what_is_read_makes_sense(headers: Headers) -> None:
    found = rate_limits(headers)
    if found is not None:
        rooms = [found.requests, found.tokens, found.input_tokens, found.output_tokens]
        assert any(rooms)
        for room in filter(None, rooms):
            assert room.remaining >= 0
            assert room.limit is None or room.limit >= 0
            assert room.resets_in is None or 0.0 <= room.resets_in <= MAX_RESET
