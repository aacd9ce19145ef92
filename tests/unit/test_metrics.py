"""What is counted for Prometheus, of requests that a gateway really served, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from hedgerow.audience import Audience
from hedgerow.events import (
    AttemptEnded,
    Bill,
    BreakerChanged,
    BreakerState,
    CancelFailed,
    Certainty,
    Outcome,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
)
from hedgerow.gateway.listening import Loudly
from hedgerow.gateway.metrics_gauges import gauges
from hedgerow.gateway.metrics_page import MetricsPage
from hedgerow.http.exchange import Exchange
from hedgerow.policy.breaker import BreakerView
from hedgerow.policy.health import Health
from hedgerow.telemetry.families import FAMILIES, LATENCY, OVERHEAD, Kind, Samples, add, merge
from hedgerow.telemetry.metrics import Metrics
from hedgerow.testing import VirtualLoop, run_virtual
from tests.effects.support import BROKEN, HELLO, LATE, QUICK, STREAM, WHOLE, Sent, Story, every, settings, tell, token
from tests.engine.scripted import JSON, Answer, Script, ScriptedPool
from tests.engine.test_judgement import Town, broken

HEDGING = {"routes.<name>.hedge.delay": "500ms", "routes.<name>.hedge.budget": "off"}

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway


def counted(story: Story) -> Samples:
    metrics = Metrics()
    for event in story.events:
        if isinstance(event, metrics.kinds):
            metrics(event)
    return metrics.samples()


def told(scripts: Mapping[str, Script | Sequence[Script]], sent: Sequence[Sent] = (Sent(),)) -> Samples:
    return counted(tell(settings(HEDGING), scripts, sent))


def count_of(value: object) -> float:
    """How many values a histogram has."""
    assert isinstance(value, list)
    return sum(value[:-1])


def test_a_request_that_is_not_hedged_is_counted_once_everywhere() -> None:
    samples = told({"a": QUICK}, every(1.0, 3))
    assert samples["hedgerow_requests_total"] == {("fast", "openai.chat", "won", "2xx"): 3}
    assert samples["hedgerow_attempts_total"] == {("a", "primary", "won"): 3}
    (side,) = samples["hedgerow_first_token_seconds"]
    assert side == ("fast", "yes", "no", "none")
    assert count_of(samples["hedgerow_first_token_seconds"][side]) == 3
    assert count_of(samples["hedgerow_request_duration_seconds"][side]) == 3
    assert "hedgerow_hedged_requests_total" not in samples


def test_hedges_are_counted_by_their_route_and_told_apart_from_requests_without() -> None:
    samples = told({"a": [LATE, QUICK, LATE], "b": QUICK}, every(10.0, 3))
    assert samples["hedgerow_hedged_requests_total"] == {("fast",): 2}
    assert samples["hedgerow_hedges_launched_total"] == {("fast",): 2}
    assert samples["hedgerow_hedges_won_total"] == {("fast",): 2}
    assert samples["hedgerow_attempts_total"] == {
        ("a", "primary", "won"): 1,
        ("a", "primary", "superseded"): 2,
        ("b", "hedge", "won"): 2,
    }
    first = samples["hedgerow_first_token_seconds"]
    assert {side[2]: count_of(value) for side, value in first.items()} == {"no": 1, "yes": 2}


def test_a_hedge_that_does_not_win_is_launched_and_not_won() -> None:
    samples = told({"a": LATE, "b": LATE})
    assert samples["hedgerow_hedges_launched_total"] == {("fast",): 1}
    assert samples["hedgerow_hedges_won_total"] == {("fast",): 0}


def test_failovers_are_no_hedges_and_failures_have_their_class() -> None:
    samples = told({"a": BROKEN})
    assert samples["hedgerow_attempts_total"] == {("a", "primary", "failed"): 1, ("b", "failover", "won"): 1}
    assert samples["hedgerow_attempt_failures_total"] == {("a", "server_error"): 1}
    assert {side[2] for side in samples["hedgerow_first_token_seconds"]} == {"no"}
    assert "hedgerow_hedges_launched_total" not in samples


def test_suppressed_hedges_have_their_reason() -> None:
    story = tell(settings({**HEDGING, "routes.<name>.hedge.kill_switch": True}), {"a": LATE}, [Sent()])
    assert counted(story)["hedgerow_hedges_suppressed_total"] == {("fast", "hedge", "kill_switch"): 1}


def test_histograms_put_a_value_where_prometheus_would() -> None:
    samples = told({"a": QUICK})
    (bins,) = samples["hedgerow_attempt_first_token_seconds"].values()
    assert isinstance(bins, list)
    assert bins[LATENCY.index(0.1)] == 1
    assert bins[-1] == pytest.approx(0.1)


def test_what_clients_choose_makes_no_series() -> None:
    def asked(number: int) -> Sent:
        name = f"<evil {number}>"
        body = WHOLE.replace(b"fast", name.encode()) if number % 2 else STREAM
        own = [(b"x-request-id", name.encode()), (b"authorization", b"Bearer " + name.encode())]
        return Sent(number * 1.0, body, own, b"/v1/chat/completions" if number % 3 else b"/v1/" + name.encode())

    passing = settings({**HEDGING, "targets.a.api_key": "passthrough", "server.default_route": "fast"})
    story = tell(passing, {"a": [LATE, QUICK, BROKEN]}, [asked(number) for number in range(60)])
    assert len(story.of(RequestFinished)) > 30
    samples = counted(story)
    labels = {label for series in samples.values() for key in series for label in key}
    assert not [label for label in labels if "evil" in label or "Bearer" in label]
    assert max(len(series) for series in samples.values()) <= 20


USAGE = b'"usage":{"prompt_tokens":40,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":10}}'
SAID = HELLO[:-1] + b"," + USAGE + b"}"
REPORTED = Answer([(0.2, SAID)], headers=JSON)
FLEX = Answer([(0.2, SAID[:-1] + b',"service_tier":"flex"}')], headers=JSON)
ASKED_FLEX = Answer([(0.2, FLEX.chunks[0][1])], headers=JSON)
PLAIN_TIER = Answer([(0.2, SAID[:-1] + b',"service_tier":"default"}')], headers=JSON)
SILENT_ON_USAGE = Answer([(0.2, HELLO)], headers=JSON)
LATE_REPORTED = Answer([(1.5, SAID)], headers=JSON)
DONE = (0.0, b"data: [DONE]\n\n")
STREAMED = Answer([(0.1, token("hello")), (0.3, b'data: {"choices":[],' + USAGE + b"}\n\n"), DONE])
FLEX_STREAM = Answer(
    [STREAMED.chunks[0], (0.3, STREAMED.chunks[1][1].replace(b"{", b'{"service_tier":"flex",', 1)), DONE]
)
PRICED = {**HEDGING, "targets.<name>.price": {"input": 0.25, "output": 2}}


TIERS = {**PRICED, "targets.<name>.price": {"input": 0.25, "output": 2, "tiers": {"flex": "50%"}}}


def rounded(samples: Samples) -> dict[str, dict[tuple[str, ...], object]]:
    """Sums of seconds may be added up in any order."""
    return {
        name: {
            labels: [*value[:-1], round(value[-1], 6)] if isinstance(value, list) else round(value, 6)
            for labels, value in series.items()
        }
        for name, series in samples.items()
    }


@pytest.mark.parametrize("changes", [HEDGING, PRICED, TIERS], ids=["unpriced", "priced", "tiers"])
@pytest.mark.parametrize(
    "first",
    [REPORTED, FLEX, ASKED_FLEX, FLEX_STREAM, PLAIN_TIER, SILENT_ON_USAGE, LATE_REPORTED, STREAMED, BROKEN, LATE],
)
def test_what_is_counted_without_events_is_what_they_would_say(changes: Mapping[str, object], first: Script) -> None:
    body = STREAM if first in (STREAMED, FLEX_STREAM, LATE) else WHOLE
    if first is ASKED_FLEX:
        body = body[:-1] + b',"service_tier":"flex"}'
    asked = every(10.0, 3, like=Sent(body=body))
    asked.append(Sent(50.0, leaves_after=0.05))
    told = counted(tell(settings(changes), {"a": first, "b": REPORTED}, asked))
    metrics = Metrics()
    tell(settings(changes), {"a": first, "b": REPORTED}, asked, listener=metrics)
    metrics.asked = dict  # scripted pools have nothing to say
    assert rounded(metrics.samples()) == rounded(told)
    assert bool(metrics._alone) == (first in (REPORTED, PLAIN_TIER, STREAMED) and changes is not TIERS)


def test_events_are_made_where_anybody_else_wants_them() -> None:
    heard: list[object] = []
    metrics = Metrics()
    assert Audience([metrics]).tally is not None
    assert Audience([metrics, heard.append]).tally is None
    assert Audience([heard.append]).tally is None
    assert Audience([Loudly(), metrics]).tally is not None


BILLS = (
    Bill(0, "a", Role.PRIMARY, Outcome.SUPERSEDED, Usage(10, 0), Certainty.ESTIMATED, 300, 0, 400),
    Bill(1, "b", Role.HEDGE, Outcome.WON, Usage(10, 5), Certainty.EXACT, 1_000, 1_000, 1_000),
)


def billed(*bills: Bill) -> Samples:
    metrics = Metrics()
    metrics(RequestBilled("r-1", "fast", 1.0, bills))
    return metrics.samples()


def test_costs_are_whole_nano_dollars_and_what_gave_no_answer_is_extra() -> None:
    samples = billed(*BILLS)
    assert samples["hedgerow_cost_dollars_total"] == {
        ("fast", "a", "primary", "estimated"): 300,
        ("fast", "b", "hedge", "exact"): 1_000,
    }
    assert samples["hedgerow_extra_cost_dollars_total"] == {("fast", "a", "superseded"): 300}


def test_a_request_alone_has_no_extra_cost_and_one_without_a_price_is_counted_apart() -> None:
    gone = Bill(0, "a", Role.PRIMARY, Outcome.CLIENT_GONE, Usage(10, 1), Certainty.AT_LEAST, 70)
    assert "hedgerow_extra_cost_dollars_total" not in billed(gone)
    unpriced = Bill(0, "a", Role.PRIMARY, Outcome.WON, Usage(10, 1), Certainty.EXACT)
    assert billed(unpriced)["hedgerow_unpriced_attempts_total"] == {("a",): 1}


def test_what_is_only_handed_through_does_not_lack_a_price() -> None:
    passed = Sent(path=b"/v1/files", method=b"GET", body=b"")
    for changes, unpriced in ((PRICED, {}), (HEDGING, {("a",): 1})):
        story = tell(
            settings(changes), {"a": [Answer([(0.1, b"{}")], headers=JSON), REPORTED]}, [passed, Sent(9.0, WHOLE)]
        )
        assert len(story.of(RequestBilled)) == 2
        assert counted(story).get("hedgerow_unpriced_attempts_total", {}) == unpriced


def finished(first: float | None, unhedged: float | None) -> RequestFinished:
    return RequestFinished(
        "r-1", "fast", "openai.chat", True, 10.0, first, 20.0, 200, 1, 2, Outcome.WON, unhedged_at=unhedged, hedges=(1,)
    )


def test_seconds_are_saved_where_the_first_token_came_before_it_would_have() -> None:
    metrics = Metrics()
    for first, unhedged in ((11.0, 14.0), (11.0, 11.0), (11.0, None), (None, 12.0)):
        metrics(finished(first, unhedged))
    samples = metrics.samples()
    assert samples["hedgerow_saved_seconds_total"] == {("fast",): 3.0}
    assert count_of(samples["hedgerow_unhedged_first_token_seconds"]["fast", "yes"]) == 3


def test_tokens_are_told_by_kind_and_by_how_they_are_known() -> None:
    metrics = Metrics()
    usage = Usage(100, 20, 60, 5, 30)
    for each in (usage, usage, Usage(7)):
        ended = AttemptEnded("r", 0, "a", Role.PRIMARY, Outcome.WON, 0.0, 0.1, 0.2, 1.0, 200, 9, usage=each)
        metrics(ended)
    tokens = {kind: count for (_, kind, _), count in metrics.samples()["hedgerow_tokens_total"].items()}
    assert tokens == {"input": 207, "output": 40, "cached_input": 120, "cache_write": 60, "reasoning": 10}


def test_a_target_that_goes_on_after_a_cancel_is_told_until_it_does_no_more() -> None:
    metrics = Metrics()
    for fails in (True, True, False):
        metrics(CancelFailed("a", fails, "seen", "warn", 1.0))
    metrics(BreakerChanged("a", "", BreakerState.OPEN, "so", 1.0))
    metrics(BreakerChanged("a", "", BreakerState.CLOSED, "so", 1.0))
    samples = metrics.samples()
    assert samples["hedgerow_target_cancel_failures_total"] == {("a",): 2}
    assert samples["hedgerow_target_cancel_fails"] == {("a",): 0}
    assert samples["hedgerow_breaker_opened_total"] == {("a",): 1}


def test_it_hears_nothing_of_how_requests_begin_so_that_nothing_is_told_of_that() -> None:
    assert RequestStarted not in Metrics().kinds


def test_what_is_added_to_requests_is_timed_around_their_handler() -> None:
    """Of pages, such as this scrape itself, nothing is counted."""
    metrics, now = Metrics(), 5.0

    def handler(_exchange: Exchange) -> None:
        nonlocal now
        now += 0.25

    timed = MetricsPage(cast("Gateway", SimpleNamespace(loop=None)), metrics).timing(handler, lambda: now)
    for method in (b"POST", b"GET", b"POST"):
        timed(cast("Exchange", SimpleNamespace(method=method)))
    assert metrics.overhead.value == [*[0] * (len(OVERHEAD)), 2, 0.5]


def test_counts_of_processes_are_added_and_gauges_go_by_their_rule() -> None:
    one: Samples = {
        "hedgerow_controls_changed_total": {(): 2},
        "hedgerow_processes": {(): 1},
        "hedgerow_kill_switch": {("fast",): 0},
        "hedgerow_quota_remaining": {("a", "1", "requests"): 50},
        "hedgerow_loop_lag_seconds": {(): [1, 2, 0.5]},
    }
    other: Samples = {
        "hedgerow_controls_changed_total": {(): 3},
        "hedgerow_processes": {(): 1},
        "hedgerow_kill_switch": {("fast",): 1},
        "hedgerow_quota_remaining": {("a", "1", "requests"): 40},
        "hedgerow_loop_lag_seconds": {(): [1, 0, 0.25]},
        "hedgerow_of_a_later_version_total": {(): 1},
    }
    all_of_them: Samples = {}
    merge(all_of_them, one)
    merge(all_of_them, other)
    assert all_of_them == {
        "hedgerow_controls_changed_total": {(): 5},
        "hedgerow_processes": {(): 2},
        "hedgerow_kill_switch": {("fast",): 1},
        "hedgerow_quota_remaining": {("a", "1", "requests"): 40},
        "hedgerow_loop_lag_seconds": {(): [2, 2, 0.75]},
    }
    merge(all_of_them, other, alive=False)
    assert all_of_them["hedgerow_processes"] == {(): 2}
    assert all_of_them["hedgerow_controls_changed_total"] == {(): 8}


def test_buckets_of_another_version_are_left_out() -> None:
    series = {("a",): [1, 1, 0.5]}
    add(series, ("a",), [1, 1, 1, 0.5])  # type: ignore[arg-type]  # the list's values may be any number
    assert series == {("a",): [1, 1, 0.5]}


def test_breakers_are_looked_through_once_for_all_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """By target and model there may be very many, and a scrape holds up requests."""
    looked: list[int] = []
    real = Health.breakers

    def breakers(health: Health, now: float) -> dict[tuple[str, str], BreakerView]:
        looked.append(1)
        return real(health, now)

    async def main(loop: VirtualLoop) -> Samples:
        town = Town(loop, {"targets.<name>.breaker.failures": 2}, {"a": broken(), "c": broken()})
        await town.steady(30, 1.0)
        monkeypatch.setattr(Health, "breakers", breakers)
        for count in ("idle", "open", "connecting", "waiting"):  # of connections, which these pools have none of
            monkeypatch.setattr(ScriptedPool, count, 0, raising=False)
        samples = gauges(town.gateway, 0.0)
        town.gateway.close()
        return samples

    found = run_virtual(main)["hedgerow_breakers"]
    assert looked == [1]
    assert {target: found[target, "open"] for target in "abc"} == {"a": 1, "b": 0, "c": 0}
    assert found["b", "closed"] == 1


def test_every_metric_counted_is_a_family_with_as_many_labels() -> None:
    samples = told({"a": [LATE, QUICK, BROKEN]}, every(10.0, 3)) | billed(*BILLS)
    for name, series in samples.items():
        family = FAMILIES[name]
        assert {len(labels) for labels in series} <= {len(family.labels)}, name
        assert name.endswith("_total") == (family.kind is Kind.COUNTER)
