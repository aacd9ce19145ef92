"""The plain guards: what each refuses, with which reason, and what it tells the user."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hedgerow.events import Reason
from hedgerow.policy.ask import Ask
from hedgerow.policy.guards import (
    Background,
    Deadline,
    Guard,
    KillSwitch,
    OnlyIf,
    Rollout,
    TooLarge,
    first_refusal,
    place,
)
from hedgerow.policy.plan import Candidate, Refusal

BACKUP = Candidate("b", "key-b")
ASK = Ask("r1", stream=True)


def ask(guard: Guard, request: Ask = ASK, now: float = 0.0) -> Refusal | None:
    return guard(request, BACKUP, now)


class TestTooLarge:
    def test_a_prompt_of_the_most_tokens_may_be_hedged_and_one_more_not(self) -> None:
        guard = TooLarge(1000)
        assert ask(guard, Ask("r1", stream=True, input_tokens=1000)) is None
        assert ask(guard, Ask("r1", stream=True, input_tokens=1001)) == Refusal(
            Reason.TOO_LARGE, "about 1001 input tokens (hedge.max_input_tokens: 1000)"
        )

    def test_a_negative_bound_is_refused(self) -> None:
        with pytest.raises(ValueError, match="max_input_tokens must be"):
            TooLarge(-1)


class TestOnlyIf:
    def test_without_conditions_everything_may_be_hedged(self) -> None:
        assert ask(OnlyIf(), Ask("r1", stream=False)) is None

    @pytest.mark.parametrize("wanted", [True, False])
    def test_streaming(self, wanted: bool) -> None:
        guard = OnlyIf(streaming=wanted)
        assert ask(guard, Ask("r1", stream=wanted)) is None
        assert ask(guard, Ask("r1", stream=not wanted)) == Refusal(
            Reason.CONDITION, f"hedge.only_if.streaming: {'true' if wanted else 'false'}"
        )

    def test_max_tokens_below(self) -> None:
        guard = OnlyIf(max_tokens_below=100)
        assert ask(guard, Ask("r1", stream=True, max_output_tokens=99)) is None
        assert ask(guard, Ask("r1", stream=True, max_output_tokens=100)) == Refusal(
            Reason.CONDITION, "max_tokens 100 (hedge.only_if.max_tokens_below: 100)"
        )
        assert ask(guard, Ask("r1", stream=True)) == Refusal(
            Reason.CONDITION, "no max_tokens (hedge.only_if.max_tokens_below: 100)"
        )

    def test_every_trait_must_be_met(self) -> None:
        guard = OnlyIf(traits=frozenset({"header x-tier", "header x-app"}))
        assert ask(guard, Ask("r1", stream=True, traits=frozenset({"header x-tier", "header x-app", "other"}))) is None
        assert ask(guard, Ask("r1", stream=True, traits=frozenset({"header x-tier"}))) == Refusal(
            Reason.CONDITION, "hedge.only_if.header x-app"
        )

    def test_all_conditions_hold_together(self) -> None:
        guard = OnlyIf(streaming=True, max_tokens_below=100, traits=frozenset({"t"}))
        good = Ask("r1", stream=True, max_output_tokens=9, traits=frozenset({"t"}))
        assert ask(guard, good) is None
        assert ask(guard, replace(good, stream=False)) is not None
        assert ask(guard, replace(good, max_output_tokens=900)) is not None
        assert ask(guard, replace(good, traits=frozenset())) is not None


class TestDeadline:
    @pytest.mark.parametrize(
        ("now", "mostly", "detail"),
        [
            (8.0, 2.0, None),
            (8.5, 2.0, "1.5 s left, b mostly takes 2 s or more"),
            (9.9, None, None),
            (10.0, None, "0 s left"),
            (12.0, 0.1, "0 s left"),
        ],
    )
    def test_a_hedge_must_be_able_to_finish(self, now: float, mostly: float | None, detail: str | None) -> None:
        refusal = ask(Deadline(lambda _ask, _backup: mostly), Ask("r1", stream=True, deadline_at=10.0), now)
        assert refusal == (None if detail is None else Refusal(Reason.DEADLINE, detail))

    def test_without_a_deadline_nothing_is_refused_or_asked(self) -> None:
        assert ask(Deadline(lambda _ask, _backup: pytest.fail("asked")), ASK, 1e9) is None

    def test_it_is_the_backups_time_that_counts(self) -> None:
        asked: list[tuple[Ask, Candidate]] = []
        request = Ask("r1", stream=True, deadline_at=1.0)
        ask(Deadline(lambda about, backup: asked.append((about, backup))), request)
        assert asked == [(request, BACKUP)]


class TestRollout:
    def test_places_are_the_same_in_every_version_and_process(self) -> None:
        assert [place(name) for name in ("", "r1", "req_0001", "\ud800")] == [860222, 112177, 567288, 708711]

    @pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
    def test_the_share_of_requests_is_in(self, share: float) -> None:
        guard = Rollout(share)
        for ids in ([f"req-{i}" for i in range(20_000)], [f"{i:032x}" for i in range(20_000)]):
            let = sum(ask(guard, Ask(name, stream=True)) is None for name in ids)
            assert let == pytest.approx(20_000 * share, abs=4 * (20_000 * share * (1 - share)) ** 0.5)

    def test_none_and_all(self) -> None:
        none, everyone = Rollout(0.0), Rollout(1.0)
        for i in range(1000):
            request = Ask(f"r{i}", stream=True)
            assert ask(none, request) == Refusal(Reason.ROLLOUT, "hedge.rollout: 0% of requests")
            assert ask(everyone, request) is None

    @given(name=st.text(), share=st.floats(0.0, 1.0), more=st.floats(0.0, 1.0))
    def test_who_is_in_stays_in_when_the_share_grows(self, name: str, share: float, more: float) -> None:
        small, large = sorted((share, more))
        request = Ask(name, stream=True)
        assert ask(Rollout(small), request) == ask(Rollout(small), request)
        assert ask(Rollout(large), request) is None or ask(Rollout(small), request) is not None

    def test_the_refusal_names_the_setting(self) -> None:
        refusals = {ask(Rollout(0.125), Ask(f"r{i}", stream=True)) for i in range(100)}
        assert refusals == {None, Refusal(Reason.ROLLOUT, "hedge.rollout: 12.5% of requests")}

    @pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
    def test_a_share_that_means_nothing_is_refused(self, share: float) -> None:
        with pytest.raises(ValueError, match="rollout must be"):
            Rollout(share)


def test_the_kill_switch_can_be_thrown_and_put_back_at_any_time() -> None:
    switch = KillSwitch("route fast")
    assert ask(switch) is None
    switch.thrown = True
    assert ask(switch) == Refusal(Reason.KILL_SWITCH, "hedging is switched off for route fast")
    switch.thrown = False
    assert ask(switch) is None
    assert ask(KillSwitch("all routes", thrown=True)) is not None


class TestBackground:
    @pytest.mark.parametrize("tier", ["flex", "batch"])
    def test_requests_that_wait_in_no_hurry(self, tier: str) -> None:
        request = Ask("r1", stream=True, traits=frozenset({f"service_tier: {tier}", "header x-app"}))
        assert ask(Background(), request) == Refusal(Reason.BACKGROUND, f"service_tier: {tier}")

    @pytest.mark.parametrize("traits", [frozenset(), frozenset({"service_tier: priority"})], ids=["none", "priority"])
    def test_others_may_be_hedged(self, traits: frozenset[str]) -> None:
        assert ask(Background(), Ask("r1", stream=True, traits=traits)) is None

    def test_a_route_for_background_traffic(self) -> None:
        assert ask(Background(route=True)) == Refusal(Reason.BACKGROUND, "the route is for background traffic")


def test_the_first_refusal_counts_and_the_guards_after_it_are_not_asked() -> None:
    asked: Counter[str] = Counter()

    def guard(name: str, refusal: Refusal | None) -> Guard:
        def answer(_ask: Ask, _backup: Candidate, _now: float) -> Refusal | None:
            asked[name] += 1
            return refusal

        return answer

    second = Refusal(Reason.ROLLOUT, "second")
    guards = (guard("first", None), guard("second", second), guard("third", Refusal(Reason.BUDGET)))
    assert first_refusal(guards, ASK, BACKUP, 0.0) is second
    assert asked == {"first": 1, "second": 1}
    assert first_refusal(guards[:1], ASK, BACKUP, 0.0) is None
    assert first_refusal((), ASK, BACKUP, 0.0) is None
