"""When and whether, through the whole gateway in virtual time: what a configuration says is what happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Event,
    Headers,
    HedgeSkipped,
    HedgingThrottled,
    Outcome,
    Reason,
    Role,
)
from hedgerow.gateway.build import Builder
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.policy.judge import Judge
from hedgerow.testing import VirtualLoop, run_virtual
from tests.effects.support import STREAM, settings, token
from tests.engine.scripted import JSON, REFUSED, SSE, Answer, RecordingExchange, Script, ScriptedPool

DONE = b"data: [DONE]\n\n"
HUNG = Answer(end="hang")
Changes = Mapping[str, object]
Scripts = Mapping[str, Script | Sequence[Script]]

FIXED: Changes = {
    "routes.<name>.targets": ["a", "b"],
    "routes.<name>.hedge.delay": "2s",
    "routes.<name>.hedge.budget": "off",
    "routes.<name>.failover.budget": "off",
    "routes.<name>.hedge.outage.max_tokens": 1000,
}
"""A hedge after two seconds, and nothing that forbids it."""


def after(seconds: float, *, headers: Headers | None = None) -> Answer:
    """A stream whose first token comes after so many seconds."""
    return Answer([(seconds, token("hello")), (0.1, DONE)], headers=SSE + (headers or []))


def broken(status: int = 500, headers: Headers | None = None, after: float = 0.1) -> Answer:
    return Answer([(0.0, b"{}")], status=status, headers=JSON + (headers or []), head_after=after)


class Town:
    """A gateway built from a configuration, over scripted targets."""

    def __init__(self, loop: VirtualLoop, changes: Changes, scripts: Scripts) -> None:
        self.loop = loop
        self.events: list[Event] = []
        self.pools: dict[str, ScriptedPool] = {}
        self._scripts = scripts
        self._builder = Builder([self.events.append], self._make_pool)  # type: ignore[arg-type]  # stands for a Pool
        self.gateway, self.parts = self._builder.gateway(self._blueprint(changes), loop)

    def _blueprint(self, changes: Changes) -> Any:
        return blueprint_of(settings({**FIXED, **changes}))

    def _make_pool(self, name: str, _origin: Origin, _settings: PoolSettings) -> ScriptedPool:
        script = self._scripts.get(name, after(0.1))
        self.pools[name] = ScriptedPool(self.loop, *(script if isinstance(script, Sequence) else [script]))
        return self.pools[name]

    def reload(self, changes: Changes) -> None:
        """Go on with another configuration."""
        parts = self._builder.parts(self._blueprint(changes), self.loop.time(), self.parts)
        self.parts = parts
        self.gateway.install(parts)

    def ask(self, body: bytes = STREAM, headers: Headers | None = None, path: bytes = b"") -> RecordingExchange:
        exchange = RecordingExchange(self.loop, body, path or b"/v1/chat/completions", list(headers or []))
        self.gateway(exchange)
        return exchange

    async def steady(self, count: int, every: float, body: bytes = STREAM) -> list[RecordingExchange]:
        """So many requests, one every so many seconds."""
        asked = []
        for _ in range(count):
            asked.append(self.ask(body))
            await asyncio.sleep(every)
        return asked

    @property
    def judge(self) -> Judge:
        return self.parts.hedgers["fast"]._judge

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def launched(self, role: Role) -> list[tuple[str, float]]:
        """Where and when attempts of this role went."""
        return [(e.target, round(e.at, 6)) for e in self.of(AttemptLaunched) if e.role is role]

    @property
    def hedges(self) -> list[tuple[str, float]]:
        return self.launched(Role.HEDGE)

    @property
    def refusals(self) -> list[Reason]:
        return [event.reason for event in self.of(HedgeSkipped)]


def play(
    story: Callable[[Town], Coroutine[Any, Any, object]], scripts: Scripts, changes: Changes | None = None
) -> Town:
    """Run the story until nothing is left to happen; then nothing may be left over of its requests."""

    async def main(loop: VirtualLoop) -> Town:
        town = Town(loop, changes or {}, scripts)
        await story(town)
        await asyncio.sleep(2000)
        assert town.gateway.in_flight == 0
        assert left_over(town.judge) == (0, 0)
        town.gateway.close()
        return town

    return run_virtual(main)


def left_over(judge: Judge) -> tuple[int, int]:
    """How many requests a judge remembers, and how many attempts that were paid for are not over."""
    return len(judge._lessons), judge.spend.state(0.0)["open"]


def one(scripts: Scripts, changes: Changes | None = None, **asked: Any) -> tuple[Town, RecordingExchange]:
    """A single request."""
    clients = []

    async def story(town: Town) -> None:
        clients.append(town.ask(**asked))

    return play(story, scripts, changes), clients[0]


class TestGuards:
    """Each forbids the hedge of a late request, says why, and leaves the primary alone."""

    @pytest.mark.parametrize(
        ("changes", "asked", "reason"),
        [
            ({"routes.<name>.hedge.kill_switch": True}, {}, Reason.KILL_SWITCH),
            ({"routes.<name>.hedge.rollout": "0%"}, {}, Reason.ROLLOUT),
            ({"routes.<name>.background": True}, {}, Reason.BACKGROUND),
            ({}, {"body": STREAM[:-1] + b',"service_tier":"flex"}'}, Reason.BACKGROUND),
            ({}, {"body": STREAM[:-1] + b',"service_tier":"batch"}'}, Reason.BACKGROUND),
            ({"routes.<name>.hedge.only_if": {"streaming": False}}, {}, Reason.CONDITION),
            ({"routes.<name>.hedge.only_if": {"max_tokens_below": 100}}, {}, Reason.CONDITION),
            ({"routes.<name>.hedge.only_if": {"headers": {"x-priority": "high"}}}, {}, Reason.CONDITION),
            (
                {"routes.<name>.hedge.only_if": {"headers": {"x-priority": "high"}}},
                {"headers": [(b"x-priority", b"low")]},
                Reason.CONDITION,
            ),
            ({"routes.<name>.hedge.max_input_tokens": 10}, {"body": STREAM[:-1] + b' ,"user":"1"}'}, Reason.TOO_LARGE),
            ({}, {"headers": [(b"x-hedgerow-hedge", b"off")]}, Reason.CLIENT_OPT_OUT),
            ({}, {"body": STREAM[:-1] + b',"n":2}'}, Reason.SIDE_EFFECTS),
            ({"targets.b.protocol": "anthropic"}, {}, Reason.TARGETS),
            ({"routes.<name>.hedge.mode": "shadow"}, {}, Reason.SHADOW),
        ],
    )
    def test_its_reason_is_told(self, changes: Changes, asked: dict[str, Any], reason: Reason) -> None:
        """bhope sends any POST twice whose body it can read again; what takes effect is not hedged, and it says why."""
        town, client = one({"a": after(5.0)}, changes, **asked)
        assert (town.refusals, town.hedges) == ([reason], [])
        (skipped,) = town.of(HedgeSkipped)
        assert (skipped.at, skipped.role) == (2.0, Role.HEDGE)
        assert client.answer_headers[b"x-hedgerow-hedge-skipped"] == reason.encode()
        assert (client.outcome, client.pieces[0][0]) == ("whole", 5.0)

    @pytest.mark.parametrize(
        ("changes", "asked"),
        [
            ({"routes.<name>.hedge.rollout": "100%"}, {}),
            ({"routes.<name>.hedge.only_if": {"streaming": True}}, {}),
            ({"routes.<name>.hedge.only_if": {"max_tokens_below": 100}}, {"body": STREAM[:-1] + b',"max_tokens":99}'}),
            (
                {"routes.<name>.hedge.only_if": {"headers": {"x-priority": "high"}}},
                {"headers": [(b"x-priority", b" HIGH ")]},
            ),
            ({"routes.<name>.hedge.max_input_tokens": 11}, {}),
            ({"routes.<name>.hedge.allow": ["n"]}, {"body": STREAM[:-1] + b',"n":2}'}),
            ({}, {"body": STREAM[:-1] + b',"service_tier":"priority"}'}),
            ({}, {"headers": [(b"x-hedgerow-hedge", b"on")]}),
        ],
    )
    def test_what_it_does_not_mind_is_hedged(self, changes: Changes, asked: dict[str, Any]) -> None:
        town, client = one({"a": after(5.0)}, changes, **asked)
        assert (town.refusals, town.hedges) == ([], [("b", 2.0)])
        assert b"x-hedgerow-hedge-skipped" not in client.answer_headers

    def test_the_cheapest_is_asked_first_and_the_budget_last(self) -> None:
        everything = {
            "routes.<name>.hedge.kill_switch": True,
            "routes.<name>.hedge.rollout": "0%",
            "routes.<name>.background": True,
            "routes.<name>.hedge.only_if": {"streaming": False},
            "routes.<name>.hedge.max_input_tokens": 1,
            "routes.<name>.hedge.mode": "shadow",
        }
        expected = [
            ("routes.<name>.hedge.kill_switch", Reason.KILL_SWITCH),
            ("routes.<name>.hedge.rollout", Reason.ROLLOUT),
            ("routes.<name>.background", Reason.BACKGROUND),
            ("routes.<name>.hedge.only_if", Reason.CONDITION),
            ("routes.<name>.hedge.max_input_tokens", Reason.TOO_LARGE),
            ("routes.<name>.hedge.mode", Reason.SHADOW),
        ]
        for key, reason in expected:
            town, _ = one({"a": after(5.0)}, everything)
            assert town.refusals == [reason]
            del everything[key]

    def test_a_kill_switch_stops_requests_that_are_under_way(self) -> None:
        async def story(town: Town) -> None:
            town.ask()
            await asyncio.sleep(1)
            hedger = town.parts.hedgers["fast"]
            hedger.controls.kill_switch = True
            hedger.apply(town.loop.time())
            await asyncio.sleep(20)
            hedger.controls.kill_switch = False
            town.parts.shared.controls.kill_switch = True
            hedger.apply(town.loop.time())
            town.ask()
            await asyncio.sleep(20)
            town.parts.shared.controls.kill_switch = False
            hedger.apply(town.loop.time())
            town.ask()

        town = play(story, {"a": after(5.0)})
        details = [event.detail for event in town.of(HedgeSkipped)]
        assert details == ["hedging is switched off for route fast", "hedging is switched off for all routes"]
        assert town.hedges == [("b", 43.0)]

    def test_a_rollout_lets_in_a_share_of_requests_and_more_of_them_as_it_grows(self) -> None:
        def hedged(share: str) -> set[str]:
            async def story(town: Town) -> None:
                town.gateway.request_ids = iter(f"r-{number}" for number in range(400))
                for _ in range(400):
                    town.ask()

            town = play(story, {"a": after(5.0)}, {"routes.<name>.hedge.rollout": share})
            return {event.request_id for event in town.of(AttemptLaunched) if event.role is Role.HEDGE}

        few, many = hedged("10%"), hedged("50%")
        assert few == hedged("10%")
        assert 20 <= len(few) <= 60
        assert 160 <= len(many) <= 240
        assert few < many

    def test_global_delay_and_budget_hold_where_a_route_has_no_controls_of_its_own(self) -> None:
        async def story(town: Town) -> None:
            everywhere, hedger = town.parts.shared.controls, town.parts.hedgers["fast"]
            everywhere.delay, everywhere.budget = "1s", 0.1
            hedger.apply(0.0)
            for _ in range(11):
                town.ask()
            await asyncio.sleep(10)
            hedger.controls.delay, hedger.controls.budget = "3s", 1.0
            hedger.apply(10.0)
            await town.steady(2, 10)

        town = play(story, {"a": after(5.0)})
        assert [at for _, at in town.hedges] == [1.0] * 10 + [13.0, 23.0]
        assert town.refusals == [Reason.BUDGET]


class TestDeadlines:
    def test_the_total_of_the_route_ends_a_request(self) -> None:
        town, client = one({"a": HUNG, "b": HUNG}, {"routes.<name>.timeouts.total": "30s"})
        assert (client.status, client.ended_at) == (504, 30.0)
        assert town.hedges == [("b", 2.0)]

    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ([(b"x-hedgerow-deadline-ms", b"3000")], 3.0),
            ([(b"x-hedgerow-deadline-ms", b"1500.5")], 1.5005),
            ([(b"x-stainless-timeout", b"7")], 7.0),
            ([(b"x-stainless-timeout", b"7.5")], 7.5),
            ([(b"x-stainless-timeout", b"7"), (b"x-hedgerow-deadline-ms", b"4000")], 4.0),
            ([(b"x-stainless-timeout", b"4"), (b"x-hedgerow-deadline-ms", b"7000")], 4.0),
            ([(b"x-hedgerow-deadline-ms", b"4000"), (b"x-hedgerow-deadline-ms", b"9000")], 4.0),
            ([(b"x-hedgerow-deadline-ms", b"1e9")], 30.0),
            ([(b"x-stainless-timeout", b"600")], 30.0),
            *(([(b"x-stainless-timeout", value)], 30.0) for value in (b"", b"0", b"-1", b"nan", b"inf", b"NOT_GIVEN")),
        ],
    )
    def test_a_client_may_ask_for_less_and_never_for_more(self, headers: Headers, seconds: float) -> None:
        _, client = one({"a": HUNG, "b": HUNG}, {"routes.<name>.timeouts.total": "30s"}, headers=headers)
        assert client.status == 504
        assert client.ended_at == pytest.approx(seconds)

    @pytest.mark.parametrize("value", [b"", b"0", b"-5", b"soon", b"nan", b"inf", b"1,000", b"0x10", b"\xff"])
    def test_a_deadline_that_is_not_understood_is_refused(self, value: bytes) -> None:
        town, client = one({}, headers=[(b"x-hedgerow-deadline-ms", value)])
        assert client.status == 400
        assert json.loads(client.text)["error"]["code"] == "invalid_deadline"
        assert town.pools["a"].requests == []

    @pytest.mark.parametrize("value", [b"1e-300", b"0.001"])
    def test_no_time_at_all_is_over_at_once(self, value: bytes) -> None:
        _, client = one({"a": HUNG}, headers=[(b"x-hedgerow-deadline-ms", value)])
        assert client.status == 504
        assert client.ended_at == pytest.approx(0.0, abs=1e-5)

    def test_it_ends_a_stream_too(self) -> None:
        slow = Answer([(0.5, token("hello"))] * 20)
        _, client = one({"a": slow}, headers=[(b"x-hedgerow-deadline-ms", b"3000")])
        assert (client.outcome, client.ended_at) == ("broken", 3.0)

    def test_no_hedge_starts_that_cannot_have_its_first_token_in_time(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(110, 1.0)  # the backup takes four seconds: that is learned from its failovers
            town.pools["a"].scripts = [HUNG]
            client = town.ask(headers=[(b"x-hedgerow-deadline-ms", b"8500")])
            await asyncio.sleep(10)
            assert client.ended_at is not None
            town.ask(headers=[(b"x-hedgerow-deadline-ms", b"9500")])

        changes = {"targets.a.breaker.failure_ratio": "off", "routes.<name>.hedge.delay": "5s"}
        town = play(story, {"a": broken(), "b": after(4.0)}, changes)
        assert town.refusals == [Reason.DEADLINE]
        assert len(town.hedges) == 1


def test_when_an_outage_holds_hedges_back_the_beginning_and_the_end_are_told_once() -> None:
    async def story(town: Town) -> None:
        await town.steady(30, 1.0)
        town.pools["a"].scripts = town.pools["b"].scripts = [after(0.5)]
        await town.steady(60, 1.0)

    changes = {"routes.<name>.hedge.outage.max_tokens": 20, "targets.a.breaker.failure_ratio": "off"}
    town = play(story, {"a": after(6.0), "b": after(6.0)}, changes)
    begun, over = town.of(HedgingThrottled)
    assert (begun.route, begun.throttled, over.throttled, over.detail) == ("fast", True, False, "")
    assert "too many requests are late or fail" in begun.detail
    held_back = [event.at for event in town.of(HedgeSkipped) if event.reason is Reason.OUTAGE]
    assert begun.at - 5.0 <= held_back[0] <= held_back[-1] <= over.at


TEN = {
    "routes.<name>.hedge.budget": "0.1%",
    "routes.<name>.hedge.burst": 10,
    "routes.<name>.hedge.per_minute": 0,
}
"""A budget of ten hedges, once and for all."""


class TestBudget:
    def test_a_thousand_at_once_spend_it_to_the_unit(self) -> None:
        async def story(town: Town) -> None:
            for _ in range(1000):
                town.ask()

        changes = {
            "routes.<name>.hedge.budget": "5%",
            "routes.<name>.hedge.burst": 30,
            "routes.<name>.hedge.per_minute": 0,
        }
        town = play(story, {"a": HUNG}, changes)
        assert len(town.hedges) == 30  # full at first: what a thousand requests earn does not fit in
        assert town.refusals.count(Reason.BUDGET) + town.refusals.count(Reason.OUTAGE) == 970

    def test_so_do_failovers_of_theirs(self) -> None:
        async def story(town: Town) -> None:
            for _ in range(1000):
                town.ask()

        changes = {
            "routes.<name>.failover.budget": "5%",
            "routes.<name>.failover.burst": 30,
            "routes.<name>.failover.per_minute": 0,
        }
        town = play(story, {"a": broken()}, changes)
        assert len(town.launched(Role.FAILOVER)) == 30
        assert town.refusals == [Reason.BUDGET] * 970
        assert {event.role for event in town.of(HedgeSkipped)} == {Role.FAILOVER}

    @pytest.mark.parametrize(
        ("backup", "left"),
        [
            (after(0.5), 9),  # won
            (HUNG, 9),  # superseded by its primary
            (broken(), 9),  # sent, and failed
            (REFUSED, 10),  # never sent
            (Answer([(0.0, token("hello"))], end="reset", head_after=0.5), 9),  # broke off
        ],
    )
    def test_an_attempt_is_paid_for_unless_it_was_never_sent(self, backup: Script, left: int) -> None:
        changes = TEN
        town, _ = one({"a": after(5.0), "b": backup}, changes)
        assert town.judge.spend.state(0.0)["route"]["hedges"]["balance"] == left
        assert len(town.hedges) == 1

    def test_a_client_that_leaves_has_paid(self) -> None:
        async def story(town: Town) -> None:
            client = town.ask()
            await asyncio.sleep(3)
            client.leave()

        changes = TEN
        town = play(story, {"a": HUNG, "b": HUNG}, changes)
        assert town.judge.spend.state(0.0)["route"]["hedges"]["balance"] == 9
        assert {event.outcome for event in town.of(AttemptEnded)} == {Outcome.CLIENT_GONE}

    def test_money_is_reserved_at_launch_and_corrected_at_the_end(self) -> None:
        spent = []
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}\n\n'

        async def story(town: Town) -> None:
            town.ask(STREAM[:-1] + b',"max_tokens":1000}')
            for _ in range(2):
                await asyncio.sleep(2.2)
                spent.append(town.judge.spend.state(town.loop.time())["route"]["nanousd"]["day"]["spent"])

        changes = {
            "routes.<name>.spend.usd_per_day": "1",
            "targets.<name>.price": {"input": "1", "output": "2"},
            "targets.b.price": {"input": "1", "output": "2"},
        }
        backup = Answer([(0.5, token("hello")), (0.1, usage + DONE)])
        play(story, {"a": HUNG, "b": backup}, changes)
        prompt = (len(STREAM) + len(',"max_tokens":1000')) >> 2
        assert spent == [prompt * 1000 + 1000 * 2000, 100 * 1000 + 20 * 2000]

    def test_shadow_takes_the_budget_as_real_hedges_would(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(15, 10.0)

        changes = TEN
        real = play(story, {"a": after(5.0)}, changes)
        shadow = play(story, {"a": after(5.0)}, {**changes, "routes.<name>.hedge.mode": "shadow"})
        assert (len(real.hedges), real.refusals) == (10, [Reason.BUDGET] * 5)
        assert (shadow.hedges, shadow.refusals) == ([], [Reason.SHADOW] * 10 + [Reason.BUDGET] * 5)
        assert shadow.of(HedgeSkipped)[0].detail == "to b after 2 s (fixed)"
        assert shadow.pools["b"].requests == []

    def test_an_opt_out_costs_nothing_and_earns(self) -> None:
        async def story(town: Town) -> None:
            for _ in range(20):
                town.ask(headers=[(b"x-hedgerow-hedge", b"off")])
            await asyncio.sleep(10)
            for _ in range(20):
                town.ask()

        changes = {
            "routes.<name>.hedge.budget": "10%",
            "routes.<name>.hedge.burst": 10,
            "routes.<name>.hedge.per_minute": 0,
        }
        town = play(story, {"a": after(5.0)}, changes)
        assert len(town.hedges) == 10

    def test_a_reload_keeps_balance_and_latencies(self) -> None:
        """Finagle makes a new bucket when an option changes, and httpx-hedged cuts what is in it (B23)."""

        async def story(town: Town) -> None:
            await town.steady(150, 1.0)
            town.pools["a"].scripts = [after(5.0)]
            for _ in range(10):
                town.ask()
            await asyncio.sleep(20)
            judge, samples = town.judge, town.judge._latency.first_tokens
            known = samples.seen("a", True, town.loop.time())
            town.reload({**changes, "routes.<name>.hedge.max_hedges": 1, "routes.<name>.hedge.delay": "1s"})
            assert town.judge is judge
            assert judge._latency.first_tokens.seen("a", True, town.loop.time()) == known
            assert known.held == 160
            town.ask()

        changes = TEN
        town = play(story, {"a": after(0.5)}, changes)
        assert (len(town.hedges), town.refusals) == (10, [Reason.BUDGET])
        assert town.of(HedgeSkipped)[0].at == 171.0  # the new delay holds

    def test_a_reload_forgets_targets_that_are_gone(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(5, 1.0)
            assert set(town.judge._latency.first_tokens._targets) == {"a"}
            town.reload({"routes.<name>.targets": ["b", "c"]})
            assert set(town.judge._latency.first_tokens._targets) == set()

        play(story, {})
