"""What the gateway learns while it serves: delays, breakers, outages, rate limits; and that nothing is left over."""

from __future__ import annotations

import asyncio
import random
from math import log
from typing import ClassVar

import pytest

from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    BreakerChanged,
    BreakerState,
    DelayRuleChanged,
    FirstToken,
    Headers,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestFinished,
    Role,
)
from hedgerow.policy.ask import Ask
from tests.effects.support import STREAM, WHOLE
from tests.engine.scripted import JSON, REFUSED, Answer, RecordingExchange, Script
from tests.engine.test_judgement import HUNG, Changes, Town, after, broken, left_over, play

LONG = b'{"model":"fast","stream":true,"messages":[{"role":"user","content":"%b"}]}' % (b"x" * 40_000)
LEARNING: Changes = {"targets.a.breaker.failure_ratio": "off", "targets.b.breaker.failure_ratio": "off"}


def spread(count: int, low: float, high: float) -> list[Script]:
    """Answers whose first tokens come after times spread evenly, from short to long and to short again."""
    times = [low + (high - low) * ((number * 37) % count) / count for number in range(count)]
    return [after(time) for time in times]


def log_spread(count: int, median: float, sigma: float, seed: int = 4) -> list[Script]:
    """Answers whose times are log-normal."""
    rng = random.Random(seed)
    return [after(rng.lognormvariate(log(median), sigma)) for _ in range(count)]


class TestDelays:
    async def warm(self, town: Town, count: int = 300) -> None:
        """Let it learn; the delays are chosen anew within five seconds of a request after that."""
        await town.steady(count, 1.0)
        await asyncio.sleep(10)
        town.ask()
        await asyncio.sleep(20)

    def test_a_percentile_holds_once_a_hundred_samples_are_known(self) -> None:
        async def story(town: Town) -> None:
            await self.warm(town)
            town.pools["a"].scripts = [HUNG]
            town.ask()

        changes = {"routes.<name>.hedge.delay": "p90", "routes.<name>.hedge.warmup.delay": "off"}
        town = play(story, {"a": spread(300, 0.1, 1.1)}, changes)
        asked = max(event.at for event in town.of(AttemptLaunched) if event.role is Role.PRIMARY)
        assert town.hedges[-1][1] - asked == pytest.approx(1.0, abs=0.03)

    def test_until_then_the_warmup_holds(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(99, 10.0)
            town.pools["a"].scripts = [HUNG]
            town.ask()

        changes = {"routes.<name>.hedge.delay": "p90", "routes.<name>.hedge.warmup.delay": "3s"}
        town = play(story, {"a": spread(99, 0.1, 1.1)}, changes)
        assert town.hedges == [("b", 993.0)]

    def test_a_smoothed_percentile_lags_behind(self) -> None:
        def delay_after_a_shift(written: str) -> float:
            async def story(town: Town) -> None:
                await self.warm(town)
                town.pools["a"].scripts = spread(100, 2.1, 3.1)
                await town.steady(100, 1.0)
                delays.append(town.judge.choose(Ask("r", True), town.parts.hedgers["fast"]._candidates, 0.0).delay)

            delays: list[float] = []
            changes = {"routes.<name>.hedge.delay": written, "routes.<name>.hedge.kill_switch": True}
            play(story, {"a": spread(300, 0.1, 1.1)}, changes)
            return delays[0]

        fresh, smoothed = delay_after_a_shift("p80"), delay_after_a_shift("ema(p80, 0.05)")
        assert 2.0 < fresh < 2.5
        assert 0.8 < smoothed < fresh

    def test_an_objective_leaves_the_backup_its_time(self) -> None:
        async def story(town: Town) -> None:
            await self.warm(town)
            town.pools["a"].scripts = [HUNG]
            town.ask()

        changes = {**LEARNING, "routes.<name>.hedge.delay": {"slo": "3s"}}
        town = play(story, {"a": log_spread(300, 0.5, 1.0), "b": log_spread(300, 0.5, 0.3)}, changes)
        asked = max(event.at for event in town.of(AttemptLaunched) if event.role is Role.PRIMARY)
        assert 0.05 <= town.hedges[-1][1] - asked < 3.0
        assert town.hedges[-1][0] == "b"

    def test_auto_comes_to_its_budget(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(2000, 0.5)

        changes = {
            **LEARNING,
            "routes.<name>.hedge.delay": "auto",
            "routes.<name>.hedge.budget": "10%",
            "routes.<name>.hedge.per_minute": 0,
        }
        town = play(story, {"a": log_spread(2000, 0.5, 0.8), "b": log_spread(2000, 0.5, 0.8, seed=5)}, changes)
        after_warmup = [at for _, at in town.hedges if at > 100]
        assert 0.07 * 1800 <= len(after_warmup) <= 0.1 * 1800 + 10

    def test_prompts_of_another_size_have_a_delay_of_their_own(self) -> None:
        async def story(town: Town) -> None:
            for script in spread(150, 0.1, 1.1):
                town.pools["a"].scripts = [script]
                town.ask()
                await asyncio.sleep(0.5)
                town.pools["a"].scripts = [after(8.0)]
                town.ask(LONG)
                await asyncio.sleep(0.5)
            for body in (STREAM, LONG):
                await asyncio.sleep(20)
                town.ask(body)
            await asyncio.sleep(20)
            town.pools["a"].scripts = [HUNG]
            for body in (STREAM, LONG):
                began.append(town.loop.time())
                town.ask(body)
                await asyncio.sleep(200)

        began: list[float] = []
        changes = {**LEARNING, "routes.<name>.hedge.delay": "p90", "routes.<name>.hedge.warmup.delay": "off"}
        town = play(story, {"a": after(0.1)}, {**changes, "routes.<name>.hedge.rollout": "100%"})
        delays = [min(at for _, at in town.hedges if at > start) - start for start in began]
        assert delays[0] == pytest.approx(1.0, abs=0.05)
        assert delays[1] == pytest.approx(8.0, rel=0.02)

    def test_when_too_many_straggle_the_budget_takes_over_and_that_is_told(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(400, 1.0)

        hangs = [HUNG if number % 3 == 0 else after(0.5) for number in range(400)]
        changes = {
            **LEARNING,
            "routes.<name>.hedge.delay": "p95",
            "routes.<name>.hedge.warmup.delay": "5s",
            "routes.<name>.hedge.max_delay": "10s",
        }
        town = play(story, {"a": hangs}, changes)
        (told,) = town.of(DelayRuleChanged)
        assert (told.route, told.target, told.stream, told.straggles) == ("fast", "a", True, True)
        last = max(town.of(AttemptLaunched), key=lambda event: event.at if event.role is Role.HEDGE else 0.0)
        primary = next(e for e in town.of(AttemptLaunched) if e.request_id == last.request_id)
        assert last.at - primary.at < 5.0


def test_a_refresh_that_fails_is_not_the_last() -> None:
    async def story(town: Town) -> None:
        when, refreshed = town.judge.when, []

        def failing(now: float) -> None:
            refreshed.append(now)
            raise ZeroDivisionError

        when.__class__ = type(
            "Failing", (type(when),), {"__slots__": (), "refreshing": lambda _self, now, _pace: failing(now)}
        )
        loop_errors: list[object] = []
        town.loop.set_exception_handler(lambda _loop, context: loop_errors.append(context["exception"]))
        await town.steady(20, 1.0)
        assert refreshed == [5.0, 10.0, 15.0, 20.0]
        assert [type(error) for error in loop_errors] == [ZeroDivisionError] * 4

    play(story, {})


class TestWhatIsLearned:
    def known(self, town: Town, target: str, *, stream: bool = True) -> tuple[int, int]:
        """Samples of this target, and how many of them are only "at least"."""
        known_of = town.judge._latency.first_tokens._targets.get(target)
        codes = [code for cell in (known_of.cells[stream] if known_of else ()) if cell for code in cell._codes]
        return len(codes), sum(code & 1 for code in codes)

    def test_a_first_token_counts_when_it_comes_and_not_when_the_answer_ends(self) -> None:
        async def story(town: Town) -> None:
            town.ask()
            await asyncio.sleep(0.6)
            assert self.known(town, "a") == (1, 0)

        play(story, {"a": Answer([(0.5, b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')], end="hang")})

    def test_a_superseded_primary_took_at_least_as_long_and_its_hedge_just_as_long(self) -> None:
        async def story(town: Town) -> None:
            town.ask()
            await asyncio.sleep(10)
            assert (self.known(town, "a"), self.known(town, "b")) == ((1, 1), (1, 0))

        play(story, {"a": HUNG})

    def test_a_superseded_hedge_took_at_least_as_long(self) -> None:
        async def story(town: Town) -> None:
            town.ask()
            await asyncio.sleep(10)
            assert (self.known(town, "a"), self.known(town, "b")) == ((1, 0), (1, 1))

        play(story, {"a": after(3.0), "b": HUNG})

    @pytest.mark.parametrize("script", [broken(), broken(400), broken(429), REFUSED, Answer(end="reset")])
    def test_a_failure_is_no_latency(self, script: Script) -> None:
        async def story(town: Town) -> None:
            await town.steady(3, 5.0)
            assert self.known(town, "a") == (0, 0)

        play(story, {"a": script})

    def test_a_client_that_left_says_at_least(self) -> None:
        async def story(town: Town) -> None:
            client = town.ask()
            await asyncio.sleep(1)
            client.leave()
            assert self.known(town, "a") == (1, 1)

        play(story, {"a": HUNG})

    def test_other_paths_teach_nothing(self) -> None:
        async def story(town: Town) -> None:
            for _ in range(30):
                town.ask(b'{"model":"fast","prompt":"x"}', path=b"/v1/images/generations")
            await asyncio.sleep(20)
            assert len(town.of(FirstToken)) == len(town.of(AttemptEnded)) == 30  # others hear of them
            assert self.known(town, "a", stream=False) == (0, 0)
            assert town.judge._throttle.view(town.loop.time()).first_late is None

        play(story, {"a": Answer([(0.0, b"{}")], headers=JSON, head_after=5.0)})

    def test_pairs_are_learned_from_both_ways_a_hedge_can_end(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(400, 10.0)
            pairs = town.judge.when._pairs
            assert set(pairs) == {("a", "b")}
            estimated.append(town.judge.when.correlation("a", "b"))

        estimated: list[float] = []
        changes = {**LEARNING, "routes.<name>.hedge.window": {"age": "1d"}}
        scripts = {"a": log_spread(400, 1.5, 0.8), "b": log_spread(400, 1.5, 0.8, seed=7)}
        play(story, scripts, changes)
        assert estimated[0] != 0.15  # what is assumed of two accounts


class TestThrottle:
    def told(self, story_of: Script, changes: Changes | None = None, **asked: object) -> list[bool]:
        """What a throttle is told of one request's first attempt: whether it was late."""
        heard: list[bool] = []

        async def story(town: Town) -> None:
            throttle = town.judge._throttle
            town.judge._lessons.throttle = type(
                "Ear",
                (),
                {
                    "first": lambda _self, late, _now: heard.append(late),
                    **dict.fromkeys(("other", "launched", "helped"), lambda *_: None),
                    "refuses": lambda _self, now: throttle.refuses(now),
                    "holds": lambda _self, now: throttle.holds(now),
                },
            )()
            town.ask(**asked)  # type: ignore[arg-type]

        play(story, {"a": story_of, "b": after(1.0), "c": after(5.0)}, changes)
        return heard

    OFF: ClassVar[Headers] = [(b"x-hedgerow-hedge", b"off")]

    @pytest.mark.parametrize(
        ("script", "changes", "asked", "expected"),
        [
            (after(1.0), {}, {}, [False]),
            (after(2.5), {}, {}, [True]),  # hedged, and won
            (HUNG, {}, {}, [True]),  # hedged, and lost
            (broken(), {}, {}, [True]),  # failed, and others were asked
            (broken(after=2.5), {}, {}, [True]),  # late, then failed
            (broken(400), {}, {}, []),  # the client's own fault
            (after(5.0), {}, {"headers": OFF}, [True]),  # late, and no hedge allowed
            (after(5.0), {"routes.<name>.hedge.kill_switch": True}, {}, [True]),
            (after(5.0), {"routes.<name>.hedge.mode": "shadow"}, {}, [True]),
            (after(5.0), {}, {"body": b'{"model":"fast","stream":true,"messages":[],"store":true}'}, [True]),
            (after(5.0), {"targets.b.protocol": "anthropic", "targets.c.protocol": "anthropic"}, {}, [True]),
            (after(5.0), {"routes.<name>.hedge.delay": "0"}, {}, []),  # a race knows no late
            (after(5.0), {"routes.<name>.hedge.delay": "off"}, {}, [False]),
        ],
    )
    def test_each_first_attempt_is_told_once(
        self, script: Script, changes: Changes, asked: dict[str, object], expected: list[bool]
    ) -> None:
        assert self.told(script, {"routes.<name>.targets": ["a", "b", "c"], **changes}, **asked) == expected

    def test_a_late_hedge_after_a_failure_is_no_second_lateness(self) -> None:
        changes = {"routes.<name>.targets": ["a", "c", "b"]}  # a fails, c is late, b is its hedge
        assert self.told(broken(), changes) == [True]

    def test_an_outage_stops_hedges_and_they_come_back(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(60, 1.0)
            town.pools["a"].scripts = [after(0.1)]
            await town.steady(40, 1.0)
            town.pools["a"].scripts = [after(3.0)]
            town.ask()

        outage = {"routes.<name>.hedge.outage.max_tokens": 20, "routes.<name>.hedge.outage.both_slow": "off"}
        town = play(story, {"a": HUNG}, {**LEARNING, **outage})
        during = [at for _, at in town.hedges if at < 62]
        assert len(during) == 9  # the tenth late one leaves half of the tokens
        assert set(town.refusals) == {Reason.OUTAGE}
        assert town.hedges[-1] == ("b", 102.0)

    def test_a_target_that_hangs_alone_goes_on_to_be_hedged(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(60, 1.0)

        town = play(story, {"a": HUNG}, {**LEARNING, "routes.<name>.hedge.outage.max_tokens": 20})
        assert len(town.hedges) == 60
        assert not town.refusals

    def test_both_slow_stops_them_too(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(60, 1.0)

        town = play(story, {"a": after(6.0), "b": after(5.0)}, LEARNING)
        assert Reason.OUTAGE in town.refusals
        assert len(town.hedges) < 30


class TestBreakers:
    BREAKER: ClassVar[Changes] = {"targets.<name>.breaker": {"minimum": 10, "open_for": "20s"}}

    def test_the_backup_carries_the_traffic_without_hedges_until_a_probe_brings_the_known_ofback(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(10, 1.0)  # opens
            town.pools["b"].scripts = [after(3.0)]
            await town.steady(15, 1.0)
            town.pools["a"].scripts = [after(0.5)]
            await asyncio.sleep(6)
            await town.steady(6, 5.0)
            town.pools["b"].scripts = [after(0.1)]
            town.ask()

        town = play(story, {"a": broken()}, self.BREAKER)
        changed = [(event.target, event.state) for event in town.of(BreakerChanged)]
        assert changed == [("a", BreakerState.OPEN), ("a", BreakerState.HALF_OPEN), ("a", BreakerState.CLOSED)]
        opened, half_open, _ = (event.at for event in town.of(BreakerChanged))
        meanwhile = [event for event in town.of(AttemptLaunched) if opened < event.at < half_open]
        assert {(event.target, event.role) for event in meanwhile} == {("b", Role.PRIMARY)}
        assert town.refusals == [Reason.BREAKER] * 15  # of b by itself, which is late
        probes = [event.role for event in town.of(AttemptLaunched) if event.at >= half_open and event.target == "a"]
        assert probes[:3] == [Role.HEDGE, Role.PRIMARY, Role.PRIMARY]  # one good answer, and it may lead again
        assert town.launched(Role.PRIMARY)[-1][0] == "a"

    def test_a_probe_that_won_frees_its_slot_at_its_first_token(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(10, 0.5)
            town.pools["a"].scripts = [Answer([(0.1, TOKEN), (60.0, TOKEN)])]
            town.pools["b"].scripts = [HUNG]
            await asyncio.sleep(25)
            await town.steady(3, 3.0)  # three long answers at once close it
            assert town.of(BreakerChanged)[-1].state is BreakerState.CLOSED

        play(story, {"a": broken()}, self.BREAKER)

    @pytest.mark.parametrize("end", [after(5.0), HUNG, broken(), broken(400), REFUSED, Answer(end="reset"), after(0.1)])
    def test_a_probe_frees_its_slot_however_it_ends(self, end: Script) -> None:
        async def story(town: Town) -> None:
            await town.steady(10, 0.5)
            town.pools["a"].scripts = [end]
            town.pools["b"].scripts = [after(3.0)]
            await asyncio.sleep(25)
            client = town.ask()
            await asyncio.sleep(2.5)
            if end is HUNG:
                client.leave()
            await asyncio.sleep(10)
            assert any(event.target == "a" for event in town.of(AttemptLaunched) if event.at > 25)
            assert town.parts.health.breakers(town.loop.time())["a", "fast"].probes == 0

        play(story, {"a": broken()}, self.BREAKER)

    def test_a_crowd_sends_one_probe_only(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(10, 0.5)
            town.pools["a"].scripts = [HUNG]
            town.pools["b"].scripts = [after(3.0)]
            await asyncio.sleep(22)
            for _ in range(50):
                town.ask()
            await asyncio.sleep(2.5)
            assert len(town.hedges) == 1

        town = play(story, {"a": broken()}, self.BREAKER)
        assert town.refusals.count(Reason.BREAKER) == 49

    def test_a_breaker_that_opens_meanwhile_forbids_the_hedge(self) -> None:
        async def story(town: Town) -> None:
            town.ask()
            town.pools["a"].scripts = [broken()]
            await town.steady(9, 0.1)
            town.pools["b"].scripts = [after(0.1)]
            await asyncio.sleep(20)

        changes = {"targets.b.breaker": {"minimum": 5, "open_for": "20s"}, "targets.a.breaker.failure_ratio": "off"}
        town = play(story, {"a": [after(5.0), broken()], "b": broken()}, changes)
        assert town.of(BreakerChanged)[0].target == "b"
        assert town.hedges == []
        assert Reason.BREAKER in town.refusals

    def test_with_all_open_the_one_that_comes_back_first_is_tried(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(20, 0.5)
            assert {e.target for e in town.of(BreakerChanged)} == {"a", "b"}
            town.pools["a"].scripts, town.pools["b"].scripts = [after(0.1)], [after(0.1)]
            client = town.ask()
            await asyncio.sleep(1)
            assert client.status == 200

        breakers = {"targets.b.breaker": {"minimum": 10, "open_for": "20s"}, **self.BREAKER}
        play(story, {"a": broken(), "b": broken()}, breakers)

    def test_a_known_ofthat_is_out_is_asked_when_nobody_else_is_left(self) -> None:
        async def story(town: Town) -> None:
            town.ask()
            await asyncio.sleep(5)
            town.pools["a"].scripts, town.pools["b"].scripts = [after(0.1)], [broken()]
            client = town.ask()
            await asyncio.sleep(5)
            assert client.answer_headers[b"x-hedgerow-target"] == b"a"

        town = play(story, {"a": broken(401)})
        assert town.launched(Role.PRIMARY) == [("a", 0.0), ("b", 5.0)]

    def test_a_primary_that_hangs_for_all_its_time_is_blamed(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(10, 1.0)

        changes = {**self.BREAKER, "routes.<name>.hedge.delay": "off", "routes.<name>.timeouts.total": "10s"}
        town = play(story, {"a": HUNG}, {**changes, "routes.<name>.timeouts.first_token": "10s"})
        assert [event.state for event in town.of(BreakerChanged)] == [BreakerState.OPEN]


TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'


class TestQuota:
    """With header sets as their upstreams send them."""

    OPENAI: ClassVar[Headers] = [
        (b"x-ratelimit-limit-requests", b"100"),
        (b"x-ratelimit-remaining-requests", b"15"),
        (b"x-ratelimit-reset-requests", b"51s"),
        (b"x-ratelimit-limit-tokens", b"1500000"),
        (b"x-ratelimit-remaining-tokens", b"1499000"),
        (b"x-ratelimit-reset-tokens", b"40ms"),
    ]
    ANTHROPIC: ClassVar[Headers] = [
        (b"date", b"Mon, 30 Nov 2026 17:00:00 GMT"),
        (b"anthropic-ratelimit-requests-limit", b"4000"),
        (b"anthropic-ratelimit-requests-remaining", b"3999"),
        (b"anthropic-ratelimit-requests-reset", b"2026-11-30T17:00:01Z"),
        (b"anthropic-ratelimit-input-tokens-limit", b"400000"),
        (b"anthropic-ratelimit-input-tokens-remaining", b"1000"),
        (b"anthropic-ratelimit-input-tokens-reset", b"2026-11-30T17:01:00Z"),
    ]
    PLENTY: ClassVar[Headers] = [(b"x-ratelimit-limit-requests", b"100"), (b"x-ratelimit-remaining-requests", b"99")]

    @pytest.mark.parametrize(
        ("headers", "words"), [(OPENAI, "requests left"), (ANTHROPIC, "input tokens left"), (PLENTY, None)]
    )
    def test_a_backup_keeps_what_its_regular_traffic_needs(self, headers: Headers, words: str | None) -> None:
        async def story(town: Town) -> None:
            town.ask()  # fails over, and so b reports
            await asyncio.sleep(1)
            town.pools["a"].scripts = [after(5.0)]
            town.ask()

        changes = {f"targets.{name}.api_key": f"key-{name}" for name in "ab"}
        town = play(story, {"a": broken(), "b": after(0.1, headers=headers)}, changes)
        assert town.refusals == ([] if words is None else [Reason.QUOTA])
        assert all(words in event.detail for event in town.of(HedgeSkipped))

    def test_a_rate_limit_stops_hedges_to_it_for_a_while(self) -> None:
        async def story(town: Town) -> None:
            town.ask()
            await asyncio.sleep(6)
            town.pools["b"].scripts = [after(0.1)]
            town.ask()
            await asyncio.sleep(20)
            town.ask()

        changes = {f"targets.{name}.api_key": f"key-{name}" for name in "ab"}
        town = play(story, {"a": after(5.0), "b": broken(429)}, changes)
        assert town.refusals == [Reason.QUOTA]
        assert [at for _, at in town.hedges] == [2.0, 28.0]

    def test_what_a_clients_own_key_is_told_says_nothing_of_the_next_client(self) -> None:
        async def story(town: Town) -> None:
            await town.steady(2, 10.0)

        changes = {f"targets.{name}.api_key": "passthrough" for name in "ab"}
        town = play(story, {"a": after(5.0), "b": after(0.1, headers=self.OPENAI)}, changes)
        assert (town.refusals, len(town.hedges)) == ([], 2)


def mixed(rng: random.Random) -> Script:
    """Anything that an upstream may do; what takes a target out for long is rare."""
    rare = [broken(400), broken(401), broken(404), broken(429), broken(503, [(b"retry-after", b"1")])]
    if rng.random() < 0.005:
        return rng.choice(rare)
    if rng.random() < 0.5:
        return after(rng.random())
    others: list[Script] = [
        after(4.0 * rng.random()),
        Answer([(0.0, TOKEN)], end="hang", head_after=3.0 * rng.random()),
        HUNG,
        broken(after=4.0 * rng.random()),
        REFUSED,
        Answer([(0.5, TOKEN)], end="reset"),
        Answer(end="reset", head_after=3.0 * rng.random()),
        Answer([(0.1, b"x")], headers=JSON),
    ]
    return rng.choice(others)


def test_nothing_is_left_over_of_ten_thousand_mixed_requests() -> None:
    rng = random.Random(44)
    launched = dict.fromkeys(Role, 0)

    async def story(town: Town) -> None:
        clients: list[RecordingExchange] = []
        for number in range(10_000):
            for pool in town.pools.values():
                pool.scripts = [mixed(rng)]
            body = rng.choice([STREAM, WHOLE, LONG, STREAM[:-1] + b',"n":2}', STREAM[:-1] + b',"store":true}'])
            headers: Headers = [(b"x-hedgerow-hedge", b"off")] if rng.random() < 0.1 else []
            if rng.random() < 0.1:
                headers.append((b"x-hedgerow-deadline-ms", b"%d" % rng.randrange(1, 9000)))
            clients.append(town.ask(body, headers, rng.choice([b"", b"", b"", b"", b"/v1/images/generations"])))
            await asyncio.sleep(rng.expovariate(10.0))
            if rng.random() < 0.2 and (left := rng.choice(clients[-20:])).outcome is None:
                left.leave()
            if number % 1000 == 999:
                town.reload({**changes, "routes.<name>.hedge.mode": rng.choice(["on", "on", "shadow"])})
        await asyncio.sleep(200)
        assert left_over(town.judge) == (0, 0)
        assert all(view.probes == 0 for view in town.parts.health.breakers(town.loop.time()).values())
        assert all(client.outcome is not None for client in clients)

    changes = {
        "routes.<name>.targets": ["a", "b", "c"],
        "routes.<name>.hedge": {"delay": "1s", "budget": "30%", "max_hedges": 2, "outage": {"max_tokens": 1000}},
        "routes.<name>.failover.budget": "50%",
        "routes.<name>.spend.usd_per_hour": "5",
        "routes.<name>.timeouts": {"total": "30s", "first_token": "8s", "stall": "5s"},
        **{f"targets.{name}.price": {"input": "1", "output": "2"} for name in "abc"},
        **{f"targets.{name}.breaker.open_for": "1s" for name in "abc"},
    }
    town = play(story, {}, changes)
    for event in town.of(AttemptLaunched):
        launched[event.role] += 1
    assert len(town.of(RequestFinished)) == 10_000
    assert len(town.of(AttemptEnded)) == len(town.of(AttemptLaunched))
    assert launched[Role.HEDGE] > 500
    assert launched[Role.FAILOVER] > 500
    assert {event.outcome for event in town.of(AttemptEnded)} == set(Outcome) - {Outcome.REJECTED, Outcome.KEPT}
    minutes = town.of(RequestFinished)[-1].ended_at / 60
    assert launched[Role.HEDGE] <= 10 + 0.3 * 10_000 + minutes
    assert launched[Role.FAILOVER] <= 50 + 0.5 * 10_000 + minutes
