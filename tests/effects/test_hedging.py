"""routes.<name>.hedge.*: when a hedge starts and whether it may; exact times and counts in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import pytest

from hedgerow.events import Reason, Role
from hedgerow.policy.guards import place
from tests.effects.support import (
    BROKEN,
    HELLO,
    LATE,
    QUICK,
    SILENT,
    STREAM,
    WHOLE,
    Sent,
    Story,
    after,
    asked,
    effect_of,
    every,
    play,
    settings,
    tell,
)
from tests.engine.scripted import JSON, Answer, Script

OPTED_OUT = [(b"x-hedgerow-hedge", b"off")]
UNWORRIED = {
    "routes.<name>.hedge.delay": "1s",
    "routes.<name>.hedge.budget": "off",
    "routes.<name>.hedge.outage.max_tokens": 1000,
    "targets.<name>.breaker.failure_ratio": "off",
}
"""Nothing but what a test sets refuses a hedge."""


# --- what is learned -------------------------------------------------------------------------------------------------

RAMP = [round(0.1 * step, 1) for step in range(1, 21)]
"""0.1 s to 2 s: p50 is 1.0, p90 is 1.8."""
LEARNING: Mapping[str, object] = {
    "routes.<name>.hedge.delay": "p50",
    "routes.<name>.hedge.warmup.samples": 10,
    "routes.<name>.hedge.warmup.delay": "3s",
    **{key: value for key, value in UNWORRIED.items() if not key.endswith(".delay")},
}
STEP = 6.0
"""Seconds between requests: delays are worked out anew within it."""


def learned(
    changes: Mapping[str, object], times: Sequence[float] = RAMP, gaps: Mapping[int, float] | None = None
) -> float:
    """The delay of a request after others that took so long and were not hedged; `gaps` are pauses before some.

    `inf` when it is not hedged.
    """
    sent, at = [], 0.0
    for index in range(len(times) + 1):
        at += (gaps or {}).get(index, 0.0)
        sent.append(Sent(at, headers=OPTED_OUT if index < len(times) else ()))
        at += STEP
    story = tell(settings({**LEARNING, **changes}), {"a": [*map(after, times), SILENT]}, sent)
    hedges = [(target, at - sent[-1].at) for _, target, role, at in story.launches if role is Role.HEDGE]
    assert {target for target, _ in hedges} <= {"b"}
    return sum((delay for _, delay in hedges), 0.0) if hedges else inf


@effect_of("routes.<name>.hedge.delay")
@pytest.mark.parametrize(
    ("delay", "expected"),
    [("p50", 1.0), ("p90", 1.8), ("ema(p50, 1)", 1.0), ("auto", 2.0), ("2.5s", 2.5)],
)
def test_a_delay_is_learned_from_the_target_s_own_times(key: str, delay: str, expected: float) -> None:
    assert learned({key: delay}) == pytest.approx(expected, rel=0.011)


@effect_of("routes.<name>.hedge.delay")
def test_a_smoothed_percentile_follows_slowly_and_an_objective_leaves_the_backup_its_time(key: str) -> None:
    times = [0.5] * 20 + [2.0] * 24
    assert learned({key: "p50"}, times) == pytest.approx(2.0, rel=0.011)
    assert 0.7 < learned({key: "ema(p50)"}, times) < 1.7
    # A quarter of the attempts takes longer than 1.5 s, none longer than 2.5 s; the backup is taken to be like them.
    most = {"routes.<name>.hedge.target": "p85"}
    assert 0.1 < learned({key: {"slo": "1.5s"}, **most}) < 1.0
    assert learned({key: {"slo": "2.5s"}, **most}) == inf


@effect_of("routes.<name>.hedge.target")
@pytest.mark.parametrize(("target", "expected"), [("p50", 1.0), ("p90", 1.8), ("p99", 2.0)])
def test_auto_waits_for_the_target_percentile_when_no_budget_lets_it_begin_earlier(
    key: str, target: str, expected: float
) -> None:
    assert learned({key: target, "routes.<name>.hedge.delay": "auto"}) == pytest.approx(expected, rel=0.011)


@effect_of("routes.<name>.hedge.min_delay")
@pytest.mark.parametrize(("least", "expected"), [("50ms", 1.0), ("1500ms", 1.5)])
def test_a_learned_delay_is_no_shorter_than_min_delay(key: str, least: str, expected: float) -> None:
    assert learned({key: least}) == pytest.approx(expected, rel=0.011)


@effect_of("routes.<name>.hedge.max_delay")
@pytest.mark.parametrize(("most", "expected"), [("30s", 1.0), ("700ms", 0.7)])
def test_a_learned_delay_is_no_longer_than_max_delay(key: str, most: str, expected: float) -> None:
    off = {"routes.<name>.hedge.warmup.delay": "off"}
    assert learned({key: most, **off}) == pytest.approx(expected, rel=0.011)


@effect_of("routes.<name>.hedge.warmup.samples")
@pytest.mark.parametrize(("samples", "expected"), [(20, 1.0), (21, 3.0)])
def test_nothing_is_learned_from_fewer_samples_than_the_warmup(key: str, samples: int, expected: float) -> None:
    assert learned({key: samples}) == pytest.approx(expected, rel=0.011)


@effect_of("routes.<name>.hedge.warmup.delay")
@pytest.mark.parametrize(("delay", "expected"), [("2s", 2.0), ("300ms", 0.3), ("off", 60.0)])
def test_during_the_warmup_its_delay_holds(key: str, delay: str, expected: float) -> None:
    pools, _ = play(settings({key: delay}), {"a": SILENT})
    assert asked(pools) == [("a", 0.0), ("b", expected)]  # at 60 s the first one fails


@effect_of("routes.<name>.hedge.window.samples")
@pytest.mark.parametrize(("samples", "expected"), [(10, 0.5), (1000, 2.0)])
def test_only_the_last_samples_of_the_window_count(key: str, samples: int, expected: float) -> None:
    p90 = {"routes.<name>.hedge.delay": "p90"}
    assert learned({key: samples, **p90}, [2.0] * 10 + [0.5] * 10) == pytest.approx(expected, rel=0.011)


@effect_of("routes.<name>.hedge.window.age")
@pytest.mark.parametrize(("age", "expected"), [("100s", 0.5), ("30m", 2.0)])
def test_samples_that_are_too_old_no_longer_count(key: str, age: str, expected: float) -> None:
    p90, gap = {"routes.<name>.hedge.delay": "p90"}, {10: 200.0}
    assert learned({key: age, **p90}, [2.0] * 10 + [0.5] * 10, gap) == pytest.approx(expected, rel=0.011)


# --- whether ---------------------------------------------------------------------------------------------------------


def silent(changes: Mapping[str, object], sent: Sequence[Sent] = (Sent(),), backup: Answer = QUICK) -> Story:
    """A first target that says nothing."""
    return tell(settings({**UNWORRIED, **changes}), {"a": SILENT, "b": backup}, sent)


@effect_of("routes.<name>.hedge.mode")
@pytest.mark.parametrize(
    ("mode", "hedged", "reasons"),
    [("on", [0, 1], [Reason.BUDGET]), ("shadow", [], [Reason.SHADOW] * 2 + [Reason.BUDGET])],
)
def test_shadow_decides_and_pays_and_launches_nothing(
    key: str, mode: str, hedged: list[int], reasons: list[Reason]
) -> None:
    few = {
        f"routes.<name>.hedge.{name}": value for name, value in (("budget", "0.1%"), ("burst", 2), ("per_minute", 0))
    }
    story = silent({key: mode, **few}, every(0.0, 3))
    assert (story.hedged(), story.reasons()) == (hedged, reasons)
    assert len(story.failed_over()) == 3 - len(hedged)


RACE: Mapping[str, object] = {"routes.<name>.hedge": {"mode": "race"}, "routes.<name>.order": "fixed"}


def test_in_a_race_two_targets_are_asked_together_and_no_budget_but_a_given_one_holds() -> None:
    story = tell(settings(RACE), {"a": SILENT, "b": QUICK}, every(1.0, 30))
    assert [role for _, target, role, _ in story.launches if target == "b"] == [Role.RACER] * 30
    assert story.reasons(Role.RACER) == []
    assert [client.ended_at for client in story.clients[:2]] == [0.1, 1.1]
    few = {"mode": "race", "budget": "0.1%", "burst": 2, "per_minute": 0}
    story = tell(settings({**RACE, "routes.<name>.hedge": few}), {"a": after(0.2), "b": QUICK}, every(1.0, 5))
    assert [client.answer_headers[b"x-hedgerow-target"] for client in story.clients] == [b"b", b"b", b"a", b"a", b"a"]
    assert story.reasons(Role.RACER) == [Reason.BUDGET] * 3


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (Sent(headers=OPTED_OUT), Reason.CLIENT_OPT_OUT),
        (Sent(body=STREAM[:-1] + b',"n":2}'), Reason.SIDE_EFFECTS),
        (Sent(body=STREAM[:-1] + b',"service_tier":"flex"}'), Reason.BACKGROUND),
    ],
)
def test_what_must_not_be_hedged_is_not_raced(sent: Sent, reason: Reason) -> None:
    story = tell(settings(RACE), {"a": QUICK, "b": QUICK}, [sent])
    assert [target for _, target, _, _ in story.launches] == ["a"]
    assert story.reasons(Role.RACER) == [reason]


@effect_of("routes.<name>.hedge.width")
@pytest.mark.parametrize(("width", "asked_"), [(2, ["a", "b"]), (3, ["a", "b", "c"])])
def test_so_many_targets_race(key: str, width: int, asked_: list[str]) -> None:
    story = tell(settings({**RACE, key: width}), {"a": SILENT, "b": after(0.5), "c": after(0.2)}, [Sent()])
    assert [(target, at) for _, target, _, at in story.launches] == [(target, 0.0) for target in asked_]
    assert story.clients[0].ended_at == (0.5 if width == 2 else 0.2)


CHAIN = {"routes.<name>.hedge.mode": "chain", "routes.<name>.timeouts.first_token": "5s"}


@pytest.mark.parametrize(
    ("body", "answer"), [(STREAM, QUICK), (WHOLE, Answer([(0.1, HELLO)], headers=JSON))], ids=["stream", "whole"]
)
def test_a_chain_asks_one_target_after_the_other(body: bytes, answer: Answer) -> None:
    pools, client = play(settings(CHAIN), {"a": SILENT, "b": SILENT, "c": answer}, body)
    assert asked(pools) == [("a", 0.0), ("b", 5.0), ("c", 10.0)]
    assert [pools[name].cancelled_at for name in "abc"] == [[5.0], [10.0], []]
    assert (client.status, client.ended_at) == (200, 10.1)
    assert client.answer_headers[b"x-hedgerow-hedged"] == b"false"


def test_each_target_of_a_chain_has_its_own_time() -> None:
    own = {"targets.a.first_token": "9s", "targets.b.first_token": "1s"}
    story = tell(settings({**CHAIN, **own}), dict.fromkeys("abc", SILENT), [Sent(body=WHOLE)])
    assert [(target, role, at) for _, target, role, at in story.launches] == [
        ("a", Role.PRIMARY, 0.0),
        ("b", Role.FAILOVER, 9.0),
        ("c", Role.FAILOVER, 10.0),
    ]
    (client,) = story.clients
    assert (client.status, client.ended_at) == (504, 15.0)
    assert b"no first token within 5 s" in client.text
    assert story.reasons() == []


def test_a_chain_goes_by_the_classes_of_failures() -> None:
    pools, _ = play(settings(CHAIN), {"a": BROKEN}, WHOLE)
    assert asked(pools)[:2] == [("a", 0.0), ("b", 0.1)]
    refused = Answer([(0.0, b"{}")], status=400, headers=JSON, head_after=0.1)
    pools, client = play(settings(CHAIN), {"a": refused}, WHOLE)
    assert (asked(pools), client.status) == ([("a", 0.0)], 400)


def test_what_must_not_happen_twice_is_waited_for_where_nobody_else_may_be_asked() -> None:
    acts = WHOLE.replace(b'"messages"', b'"store":true,"messages"')
    pools, client = play(settings(CHAIN), {"a": Answer([(30.0, HELLO)], headers=JSON)}, acts)
    assert (asked(pools), client.status, client.ended_at) == ([("a", 0.0)], 200, 30.0)


@effect_of("routes.<name>.hedge.burst")
@pytest.mark.parametrize("burst", [1, 3])
def test_so_many_hedges_may_start_in_a_row(key: str, burst: int) -> None:
    few = {"routes.<name>.hedge.budget": "0.1%", "routes.<name>.hedge.per_minute": 0}
    story = silent({key: burst, **few}, every(0.0, 10))
    assert story.hedged() == list(range(burst))
    assert story.reasons() == [Reason.BUDGET] * (10 - burst)


@effect_of("routes.<name>.hedge.per_minute")
@pytest.mark.parametrize(("rate", "hedged"), [(0, [0]), (1, [0, 2, 4]), (2, [0, 1, 2, 3, 4])])
def test_so_many_hedges_are_earned_each_minute(key: str, rate: int, hedged: list[int]) -> None:
    few = {"routes.<name>.hedge.budget": "0.1%", "routes.<name>.hedge.burst": 1}
    assert silent({key: rate, **few}, every(30.0, 5)).hedged() == hedged


LONG = STREAM.replace(b'"messages"', b'"x":"' + b"x" * 4000 + b'","messages"')


@effect_of("routes.<name>.hedge.max_input_tokens")
@pytest.mark.parametrize(("most", "hedged"), [("off", [0, 1]), (500, [0])])
def test_a_longer_prompt_is_not_hedged(key: str, most: object, hedged: list[int]) -> None:
    story = silent({key: most}, [Sent(), Sent(body=LONG)])
    assert (story.hedged(), story.reasons()) == (hedged, [Reason.TOO_LARGE] * (2 - len(hedged)))


@effect_of("routes.<name>.hedge.only_if.streaming")
@pytest.mark.parametrize(("streaming", "hedged"), [(None, [0, 1]), (True, [0]), (False, [1])])
def test_only_streams_or_only_whole_answers_are_hedged(key: str, streaming: bool | None, hedged: list[int]) -> None:
    story = silent({key: streaming}, [Sent(), Sent(body=WHOLE)], Answer([(0.1, HELLO)], headers=JSON))
    assert (story.hedged(), story.reasons()) == (hedged, [Reason.CONDITION] * (2 - len(hedged)))


@effect_of("routes.<name>.hedge.only_if.max_tokens_below")
@pytest.mark.parametrize(("below", "hedged"), [(None, [0, 1, 2]), (100, [1])])
def test_only_requests_for_few_tokens_are_hedged(key: str, below: int | None, hedged: list[int]) -> None:
    bodies = [STREAM, *(STREAM.replace(b'"stream"', b'"max_tokens":%d,"stream"' % most) for most in (99, 100))]
    assert silent({key: below}, [Sent(body=body) for body in bodies]).hedged() == hedged


@effect_of("routes.<name>.hedge.only_if.headers")
@pytest.mark.parametrize(("wanted", "hedged"), [({}, [0, 1, 2]), ({"X-Priority": "High"}, [1])])
def test_only_requests_with_these_headers_are_hedged(key: str, wanted: dict[str, str], hedged: list[int]) -> None:
    sent = [Sent(), *(Sent(headers=[(b"x-priority", value)]) for value in (b"high", b"low"))]
    assert silent({key: wanted}, sent).hedged() == hedged


@effect_of("routes.<name>.hedge.rollout")
@pytest.mark.parametrize("share", [0, 25, 100])
def test_a_share_of_requests_told_by_their_ids_may_be_hedged(key: str, share: int) -> None:
    story = silent({key: f"{share}%"}, every(0.0, 40))
    assert story.hedged() == [at for at in range(40) if place(f"r-{at + 1}") < share * 10_000]
    assert set(story.reasons()) <= {Reason.ROLLOUT}
    assert share != 25 or 0 < len(story.hedged()) < 20


@effect_of("routes.<name>.hedge.kill_switch")
@pytest.mark.parametrize(("thrown", "reasons"), [(False, []), (True, [Reason.KILL_SWITCH])])
def test_the_kill_switch_stops_every_hedge(key: str, thrown: bool, reasons: list[Reason]) -> None:
    story = silent({key: thrown})
    assert (story.reasons(), len(story.hedged())) == (reasons, 1 - len(reasons))


@effect_of("routes.<name>.background")
@pytest.mark.parametrize(("background", "reasons"), [(False, []), (True, [Reason.BACKGROUND])])
def test_a_route_for_background_traffic_is_not_hedged(key: str, background: bool, reasons: list[Reason]) -> None:
    story = silent({key: background})
    assert (story.reasons(), len(story.hedged())) == (reasons, 1 - len(reasons))


def reporting(limit: int, left: int) -> Answer:
    """An answer that says what is left of a rate limit."""
    headers = [(b"content-type", b"text/event-stream")]
    for name, value in (("limit", str(limit)), ("remaining", str(left)), ("reset", "1h0m0s")):
        headers.append((f"x-ratelimit-{name}-requests".encode(), value.encode()))
    return Answer(QUICK.chunks, headers=headers)


@effect_of("routes.<name>.hedge.quota_keep")
@pytest.mark.parametrize(("keep", "hedged"), [("20%", [0, 1]), ("24%", [0, 1]), ("26%", [0]), ("0%", [0, 1])])
def test_a_hedge_leaves_a_share_of_the_rate_limit_to_regular_traffic(key: str, keep: str, hedged: list[int]) -> None:
    story = silent({key: keep}, every(2.0, 2), reporting(100, 25))
    assert (story.hedged(), story.reasons()) == (hedged, [Reason.QUOTA] * (2 - len(hedged)))


@effect_of("routes.<name>.hedge.quota_share")
@pytest.mark.parametrize(("share", "count"), [("20%", 2), ("50%", 5)])
def test_hedges_take_a_share_of_the_first_target_s_capacity(key: str, share: str, count: int) -> None:
    # First both targets report; then eight hedges are due at once.
    sent = [Sent(0.0), Sent(1.0), *every(0.0, 8, start=4.0)]
    scripts: dict[str, Script | Sequence[Script]] = {
        "a": [reporting(10, 10), SILENT],
        "b": reporting(1000, 900),
    }
    story = tell(settings({**UNWORRIED, key: share}), scripts, sent)
    assert story.hedged() == [1, *range(2, 2 + count)]
    assert story.reasons() == [Reason.QUOTA] * (8 - count)


TOKENS_ALONE = {"routes.<name>.hedge.outage.both_slow": "off"}
"""That the backup is well does not count."""


@effect_of("routes.<name>.hedge.outage.max_tokens")
@pytest.mark.parametrize(("tokens", "count"), [(4, 1), (20, 9), (1000, 12)])
def test_late_requests_use_up_the_tokens_that_let_hedges_start(key: str, tokens: int, count: int) -> None:
    story = silent({key: tokens, **TOKENS_ALONE}, every(0.0, 12))
    assert story.hedged() == list(range(count))
    assert story.reasons() == [Reason.OUTAGE] * (12 - count)


@effect_of("routes.<name>.hedge.outage.token_ratio")
@pytest.mark.parametrize(("ratio", "hedged"), [(0.5, 1), (0.1, 0)])
def test_requests_in_time_give_tokens_back(key: str, ratio: float, hedged: int) -> None:
    # Ten late ones stop hedging at half of the tokens; ten in time give 5 or 1 back, and it goes on at three quarters.
    tokens = {"routes.<name>.hedge.outage.max_tokens": 20, **TOKENS_ALONE}
    scripts = {"a": [SILENT] * 10 + [QUICK] * 10 + [SILENT]}
    sent = [*every(0.0, 10), *every(1.0, 10, start=10.0), Sent(30.0)]
    story = tell(settings({**UNWORRIED, **tokens, key: ratio}), scripts, sent)
    assert story.hedged() == [*range(9), *[20] * hedged]


@effect_of("routes.<name>.hedge.outage.both_slow")
def test_while_the_backup_is_well_late_requests_stop_no_hedges(key: str) -> None:
    tokens = {"routes.<name>.hedge.outage.max_tokens": 20}
    well, alone = (silent({key: share, **tokens}, every(3.0, 30)) for share in ("50%", "off"))
    assert well.hedged() == list(range(30))
    assert alone.hedged() == list(range(9))


@effect_of("routes.<name>.hedge.outage.both_slow")
@pytest.mark.parametrize(("share", "refused"), [("50%", 4), ("off", 0)])
def test_hedges_stop_when_the_further_attempts_are_late_as_well(key: str, share: str, refused: int) -> None:
    # Ten late ones of each are enough to tell.
    story = silent({key: share}, every(3.0, 14), backup=LATE)
    assert story.reasons() == [Reason.OUTAGE] * refused
