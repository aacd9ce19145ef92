"""Hedges and rate limits: what is carried forward between reports, and what is kept from hedges."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Reason
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import MAX_OUT
from hedgerow.policy.plan import Candidate
from hedgerow.policy.quota import LIMITED, REFRESH, WINDOW, Quota, QuotaGuard
from hedgerow.room import RateLimits, Room

A, A2, B = Candidate("a", "key-a"), Candidate("a2", "key-a"), Candidate("b", "key-b")
ASK = Ask("r1", stream=True, input_tokens=1000, max_output_tokens=500)


def requests(remaining: int, limit: int | None = None, resets_in: float | None = None) -> RateLimits:
    return RateLimits(requests=Room(remaining, limit, resets_in))


def left(quota: Quota, now: float, candidate: Candidate = B) -> int:
    headroom = quota.headroom(candidate, now)
    assert headroom is not None
    assert headroom.requests is not None
    return headroom.requests.remaining


def why(
    guard: QuotaGuard, now: float = 0.0, *, ask: Ask = ASK, primary: Candidate = A, backup: Candidate = B
) -> str | None:
    refusal = guard.refuses(ask, primary, backup, now)
    if refusal is None:
        return None
    assert refusal.reason is Reason.QUOTA
    return refusal.detail


class TestCarriedForward:
    def test_nothing_is_known_of_a_target_that_reported_nothing(self) -> None:
        quota = Quota()
        quota.spent(B, ASK, 0.0)
        assert quota.headroom(B, 0.0) is None

    def test_what_is_used_comes_back_evenly_until_the_reset(self) -> None:
        quota = Quota()
        quota.learn(B, requests(20, 100, 40.0), 10.0)
        assert [left(quota, now) for now in (10.0, 20.0, 30.0, 50.0, 99.0)] == [20, 40, 60, 100, 100]

    def test_openais_bucket_fills_as_recorded(self) -> None:
        """Two answers, two seconds apart (community.openai.com/t/541210): both tell of 1,500,000 tokens a day."""
        for remaining, resets_in in ((1_495_621, 252.172), (1_490_773, 531.438)):
            quota = Quota()
            quota.learn(B, RateLimits(tokens=Room(remaining, 1_500_000, resets_in)), 0.0)
            headroom = quota.headroom(B, 60.0)
            assert headroom is not None
            assert headroom.tokens is not None
            assert headroom.tokens.remaining - remaining == pytest.approx(60.0 * 1_500_000 / 86_400, abs=1.0)

    def test_what_is_sent_is_taken_off_at_once_and_comes_back_at_the_same_rate(self) -> None:
        quota = Quota()
        quota.learn(B, requests(90, 100, 10.0), 0.0)
        for _ in range(5):
            quota.spent(B, ASK, 0.0)
        assert quota.headroom(B, 0.0) == requests(85, 100, 15.0)
        assert left(quota, 14.5) == 99

    def test_a_report_replaces_what_was_reckoned(self) -> None:
        quota = Quota()
        quota.learn(B, requests(90, 100, 10.0), 0.0)
        quota.spent(B, ASK, 0.0)
        quota.learn(B, requests(40, 200, 60.0), 1.0)
        assert quota.headroom(B, 1.0) == requests(40, 200, 60.0)

    def test_a_report_of_one_kind_leaves_the_other(self) -> None:
        quota = Quota()
        quota.learn(B, requests(90, 100, 10.0), 0.0)
        quota.learn(B, RateLimits(tokens=Room(5, 10, 5.0)), 0.0)
        assert quota.headroom(B, 0.0) == RateLimits(Room(90, 100, 10.0), Room(5, 10, 5.0))

    def test_a_full_limit_comes_back_in_a_minute_until_the_upstream_says_more(self) -> None:
        quota = Quota()
        quota.learn(B, requests(60, 60, 0.0), 0.0)
        for _ in range(30):
            quota.spent(B, ASK, 0.0)
        assert [left(quota, now) for now in (0.0, 10.0, 30.0)] == [30, 40, 60]

    def test_without_a_reset_what_is_used_is_back_within_a_minute(self) -> None:
        quota = Quota()
        quota.learn(B, requests(40, 100), 0.0)
        assert [left(quota, now) for now in (0.0, WINDOW / 2, WINDOW)] == [40, 70, 100]

    def test_a_limit_that_is_due_now_is_whole(self) -> None:
        quota = Quota()
        quota.learn(B, requests(40, 100, 0.0), 0.0)
        assert left(quota, 0.0) == 100

    def test_a_limit_that_is_not_told_is_the_most_that_ever_remained(self) -> None:
        quota = Quota()
        quota.learn(B, requests(50), 0.0)
        quota.learn(B, requests(20, None, 60.0), 0.0)
        assert quota.headroom(B, 0.0) == requests(20, 50, 60.0)

    def test_more_left_than_the_limit_is_all_of_it(self) -> None:
        quota = Quota()
        quota.learn(B, requests(500, 100, 1.0), 0.0)
        assert quota.headroom(B, 0.0) == requests(100, 100, 0.0)

    def test_requests_that_count_input_and_output_together_take_the_longest_answer(self) -> None:
        quota = Quota()
        quota.learn(B, RateLimits(tokens=Room(10_000, 10_000, 0.0)), 0.0)
        quota.spent(B, ASK, 0.0)
        headroom = quota.headroom(B, 0.0)
        assert headroom is not None
        assert headroom.tokens is not None
        assert headroom.tokens.remaining == 8500

    def test_who_counts_them_apart_does_not_mind_the_longest_answer(self) -> None:
        quota = Quota()
        full = Room(10_000, 10_000, 0.0)
        quota.learn(B, RateLimits(full, full, full, full), 0.0)
        quota.spent(B, ASK, 0.0)
        headroom = quota.headroom(B, 0.0)
        assert headroom is not None
        rooms = (headroom.requests, headroom.tokens, headroom.input_tokens, headroom.output_tokens)
        assert [room.remaining for room in rooms if room] == [9999, 9000, 9000, 10_000]

    def test_reports_are_read_now_and_then_of_each_target(self) -> None:
        quota = Quota()
        assert [quota.due(B, now, now) for now in (5.0, 5.0, 5.0 + REFRESH / 2, 5.0 + REFRESH)] == [
            True,
            False,
            False,
            True,
        ]
        assert quota.due(A, 5.0, 5.0)

    def test_a_report_on_what_was_left_before_another_request_is_old_news(self) -> None:
        quota = Quota()
        assert quota.due(B, 5.0, 4.0)
        assert not quota.due(B, 30.0, 3.0)
        assert quota.due(A, 30.0, 3.0)
        assert quota.due(B, 30.0, 4.0)
        assert not quota.due(B, 31.0, 3.9)


class TestKept:
    def test_of_what_nobody_reported_nothing_is_refused(self) -> None:
        assert why(QuotaGuard(Quota())) is None

    def test_a_hedge_leaves_a_fifth_to_regular_traffic(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(B, requests(21, 100, 60.0), 0.0)
        assert why(guard) is None
        quota.spent(B, ASK, 0.0)
        assert (
            why(guard)
            == "b: 20 requests left, the hedge needs 1 and 20 are kept for regular traffic (hedge.quota_keep: 20%)"
        )

    def test_it_is_allowed_again_when_enough_has_come_back(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(B, requests(0, 100, 100.0), 0.0)
        assert why(guard, 20.0) is not None
        assert why(guard, 21.5) is None

    def test_a_hedge_too_large_for_the_tokens_left_is_refused_and_a_small_one_is_not(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(B, RateLimits(Room(90, 100, 6.0), Room(9000, 30_000, 42.0)), 0.0)
        assert why(guard, ask=Ask("r1", stream=True, input_tokens=3000)) is None
        assert why(guard, ask=Ask("r1", stream=True, input_tokens=2900, max_output_tokens=101)) == (
            "b: 9000 tokens left, the hedge needs 3001 and 6000 are kept for regular traffic (hedge.quota_keep: 20%)"
        )

    @pytest.mark.parametrize("kind", ["requests", "tokens", "input_tokens", "output_tokens"])
    def test_each_kind_of_limit_holds(self, kind: str) -> None:
        quota = Quota()
        quota.learn(B, RateLimits(**{kind: Room(100, 1000, 60.0)}), 0.0)
        detail = why(QuotaGuard(quota), ask=Ask("r1", stream=True))
        assert detail is not None
        assert detail.startswith(f"b: 100 {kind.replace('_', ' ')} left")

    def test_how_much_is_kept_can_be_set(self) -> None:
        quota = Quota()
        quota.learn(B, requests(50, 100, 60.0), 0.0)
        assert why(QuotaGuard(quota, keep=0.49)) is None
        assert why(QuotaGuard(quota, keep=0.5)) is not None

    def test_with_nothing_kept_the_last_request_may_go_and_not_one_more(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota, keep=0.0)
        quota.learn(B, requests(1, 100, 1e6), 0.0)
        assert why(guard) is None
        quota.spent(B, ASK, 0.0)
        assert why(guard) is not None

    def test_the_primarys_room_matters_only_where_both_share_an_account(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(A, requests(5, 100, 57.0), 0.0)
        assert why(guard, backup=B) is None
        assert (
            why(guard, backup=A2)
            == "a: 5 requests left, the hedge needs 1 and 20 are kept for regular traffic (hedge.quota_keep: 20%)"
        )
        assert (
            why(guard, backup=A)
            == "a: 5 requests left, the hedge needs 1 and 20 are kept for regular traffic (hedge.quota_keep: 20%)"
        )

    @pytest.mark.parametrize("keep", [-0.1, 1.0, 1.5, float("nan")])
    def test_a_keep_that_means_nothing_is_refused(self, keep: float) -> None:
        with pytest.raises(ValueError, match="keep must be"):
            QuotaGuard(Quota(), keep=keep)


class TestShare:
    def test_hedges_hold_at_most_a_fifth_of_the_primarys_limit(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(A, requests(50, 50, 0.0), 0.0)
        quota.learn(B, requests(10_000, 10_000, 0.0), 0.0)
        for _ in range(10):
            assert why(guard) is None
            quota.spent(B, ASK, 0.0, hedge=True)
        assert why(guard) == "b: hedges hold 10 requests, 10 are theirs (hedge.quota_share: 20% of the limit of a)"

    def test_regular_traffic_at_the_backup_does_not_count(self) -> None:
        quota = Quota()
        quota.learn(A, requests(50, 50, 0.0), 0.0)
        quota.learn(B, requests(10_000, 10_000, 0.0), 0.0)
        for _ in range(100):
            quota.spent(B, ASK, 0.0)
        assert why(QuotaGuard(quota)) is None

    def test_what_hedges_hold_comes_back_with_the_rest(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(A, requests(50, 50, 0.0), 0.0)
        quota.learn(B, requests(980, 1000, 20.0), 0.0)
        for _ in range(10):
            quota.spent(B, ASK, 0.0, hedge=True)
        assert why(guard) is not None
        assert why(guard, 1.0) is None  # 29 of 30 are still used, so 9.67 of the 10

    def test_hedges_hold_no_more_than_the_upstream_says_is_used(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(A, requests(50, 50, 0.0), 0.0)
        quota.learn(B, requests(1000, 1000, 0.0), 0.0)
        for _ in range(10):
            quota.spent(B, ASK, 0.0, hedge=True)
        quota.learn(B, requests(995, 1000, 0.3), 0.0)
        for _ in range(5):
            assert why(guard) is None
            quota.spent(B, ASK, 0.0, hedge=True)
        assert why(guard) is not None

    def test_one_hedge_always_fits_however_large(self) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(A, RateLimits(tokens=Room(3000, 3000, 0.0)), 0.0)
        quota.learn(B, RateLimits(tokens=Room(10**6, 10**6, 0.0)), 0.0)
        assert why(guard) is None
        quota.spent(B, ASK, 0.0, hedge=True)
        assert why(guard) == "b: hedges hold 1500 tokens, 600 are theirs (hedge.quota_share: 20% of the limit of a)"

    def test_a_share_without_end_sets_no_bound(self) -> None:
        quota = Quota()
        quota.learn(A, requests(1, 1, 0.0), 0.0)
        quota.learn(B, requests(1000, 1000, 0.0), 0.0)
        for _ in range(500):
            quota.spent(B, ASK, 0.0, hedge=True)
        assert why(QuotaGuard(quota, share=inf)) is None

    @pytest.mark.parametrize("share", [0.0, -1.0, float("nan")])
    def test_a_share_that_means_nothing_is_refused(self, share: float) -> None:
        with pytest.raises(ValueError, match="share must be"):
            QuotaGuard(Quota(), share=share)


class TestLimited:
    @pytest.mark.parametrize(
        ("retry_after", "seconds"), [(None, LIMITED), (1.0, LIMITED), (30.0, 30.0), (3600.0, MAX_OUT)]
    )
    def test_an_account_that_turned_a_request_away_gets_no_hedges(
        self, retry_after: float | None, seconds: float
    ) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.limited(A, retry_after, 5.0)
        assert why(guard, 5.0, primary=B, backup=A2) == f"a2: rate limited, no hedges for {seconds:.1f} s"
        assert why(guard, 4.9 + seconds, primary=B, backup=A) is not None
        assert why(guard, 5.0 + seconds, primary=B, backup=A) is None
        assert why(guard, 5.0) is None

    def test_a_shorter_wait_does_not_end_a_longer_one(self) -> None:
        quota = Quota()
        quota.limited(A, 60.0, 0.0)
        quota.limited(A, None, 1.0)
        assert quota.limited_for(A, 1.0) == 59.0

    @pytest.mark.parametrize("nothing", [Room(0, 0), Room(0)])
    def test_a_limit_of_nothing_counts_as_limited_and_is_asked_again(self, nothing: Room) -> None:
        quota = Quota()
        guard = QuotaGuard(quota)
        quota.learn(B, RateLimits(requests=nothing), 0.0)
        assert quota.headroom(B, 0.0) is None
        assert why(guard) is not None
        assert why(guard, WINDOW) is None

    def test_a_limit_that_became_nothing_is_forgotten(self) -> None:
        quota = Quota()
        quota.learn(B, requests(5, 10, 1.0), 0.0)
        quota.learn(B, requests(0, 0), 1.0)
        assert quota.headroom(B, 1.0) is None


counts = st.integers(0, 10**6)
rooms = st.builds(Room, counts, st.none() | counts, st.none() | st.floats(0.0, 1e6))
limits = st.builds(RateLimits, *[st.none() | rooms] * 4)
happenings = st.one_of(
    st.tuples(st.just("report"), st.sampled_from([A, B]), limits),
    st.tuples(st.just("spend"), st.sampled_from([A, B]), st.booleans()),
    st.tuples(st.just("wait"), st.just(A), st.floats(0.0, 1e4)),
)


@given(st.lists(happenings, max_size=40), st.floats(0.0, 0.99))
def test_whatever_is_reported_no_hedge_takes_what_is_kept(
    events: list[tuple[str, Candidate, object]], keep: float
) -> None:
    quota, now = Quota(), 0.0
    guard = QuotaGuard(quota, keep=keep)
    for what, candidate, value in events:
        if isinstance(value, RateLimits):
            quota.learn(candidate, value, now)
        elif what == "wait" and isinstance(value, float):
            now += value
        else:
            quota.spent(candidate, ASK, now, hedge=bool(value))
        allowed = guard.refuses(ASK, A, B, now) is None
        headroom = quota.headroom(B, now)
        for room in () if headroom is None else (headroom.requests, headroom.tokens, headroom.input_tokens):
            if room is not None and room.limit is not None:
                assert 0 <= room.remaining <= room.limit
                assert not allowed or room.remaining + 1 >= keep * room.limit
