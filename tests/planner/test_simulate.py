"""`hedgerow simulate`: what each scenario shows, by arithmetic where there is any and else with room to spare."""

from __future__ import annotations

import re
from functools import cache
from math import ceil, log, sqrt
from typing import Any

import pytest

from hedgerow.config import loads
from hedgerow.config.load import read
from hedgerow.errors import ConfigError
from hedgerow.events import Failure, Reason, Role
from hedgerow.lab.latency import LatencyModel
from hedgerow.planner.flight import BreakOff
from hedgerow.planner.simulation.builtin import BUILTIN
from hedgerow.planner.simulation.result import Phase, Simulation
from hedgerow.planner.simulation.run import Simulator, Told
from hedgerow.planner.simulation.scenario import Scenario, scenario_of
from hedgerow.planner.simulation.simulate import Options, simulate
from hedgerow.planner.simulation.staging import stage
from hedgerow.planner.simulation.upstream import Done, Head
from hedgerow.planner.simulation.world import Targets, Times
from hedgerow.report.words import percent
from tests.unit.lab_support import Bench, Client, in_lab

CONFIG = """\
targets:
  first: {{base_url: "https://first.example/v1", api_key: none, breaker: {{failures: 5, open_for: 10s}}}}
  second: {{base_url: "https://second.example/v1", api_key: none, breaker: {{failures: 5, open_for: 10s}}}}
routes:
  chat:
    targets: [first, second]
    hedge: {hedge}
    timeouts: {timeouts}
"""
ANY_LATENESS = "outage: {max_tokens: 1000, token_ratio: 10, both_slow: off}"
"""As good as no throttle."""


def settings(hedge: str = "{}", timeouts: str = "{}") -> Any:
    return loads(CONFIG.format(hedge=hedge, timeouts=timeouts))


@cache
def simulated(
    scenario: str, hedge: str = "{}", timeouts: str = "{}", *, requests: int = 3_000, rate: float = 20.0
) -> Simulation:
    what = read(Scenario, BUILTIN.get(scenario, scenario), "a scenario")
    return simulate(settings(hedge, timeouts), what, Options(requests=requests, rate=rate), name="it")


def phase(found: Simulation, name: str) -> Phase:
    return next(each for each in found.phases if each.name == name)


def test_a_target_answers_when_the_lab_of_its_name_and_seed_does() -> None:
    """Times of first and second attempts, statuses and hangs, request by request."""
    keys = [str(number) for number in range(200)]
    faults = "503:0.2,hang:0.1"
    ours: dict[tuple[str, int], float | int | None] = {}
    what = Scenario.model_validate(
        {"about": "-", "rho": 0.5, "phases": [{"name": "all", "primary": {"faults": faults}}]}
    )
    targets = Targets(stage(settings(), None, source=""), what, Times(what.phases, 1, 1.0, 7), 1.0, 7)
    for key in keys:
        for seen in (0, 1):
            ours[key, seen] = None

            def done(failure: Failure | None, at: tuple[str, int] = (key, seen)) -> None:
                ours[at] = targets.clock.now if failure is None else failure.status

            targets.send(0, key, lambda _: None, done)
    targets.clock.run()

    def ask(bench: Bench) -> Client:
        return [bench.chat(key=key) for key in keys for _ in (0, 1)][-1]

    def then(bench: Bench, _: Client) -> None:
        records = [(record["key"], record["fault"], record["ttft"]) for record in bench.log("?limit=1000")]
        assert len(records) == len(ours)
        for (key, fault, ttft), (at, our) in zip(records, ours.items(), strict=True):
            assert at[0] == key
            assert our == (503 if fault == "503" else None if fault == "hang" else ttft)

    in_lab(ask, then=then, name="first", seed=7, preset="openai", rho=0.5, fault=faults)
    assert sum(our is None for our in ours.values()) > 20
    assert sum(our == 503 for our in ours.values()) > 50


def test_in_steady_times_hedging_does_what_arithmetic_on_the_draws_says() -> None:
    """Without anything that holds a hedge back, a request takes min(first, delay + second)."""
    delay, count = 4.0, 3_000
    found = simulated("steady", f"{{delay: {delay}s, budget: off, {ANY_LATENESS}}}", "{first_token: 10m}")
    law = scenario_of("steady").law.shape
    laws = [LatencyModel(provider=name, seed=1, shape=law, rho=0.15) for name in ("first", "second")]
    first, second = ([law.ttft(str(i), 0, prompt_tokens=0, nth=0, elapsed=0.0) for i in range(count)] for law in laws)
    late = [took > delay for took in first]
    took = sorted(min(a, delay + b) if a > delay else a for a, b in zip(first, second, strict=True))
    whole = found.total
    assert whole.without.p99 == pytest.approx(sorted(first)[ceil(count * 0.99) - 1], rel=1e-9)
    assert whole.hedged.p99 == pytest.approx(took[ceil(count * 0.99) - 1], rel=1e-9)
    assert whole.hedged.hedges == sum(late)
    assert whole.hedged.failed == whole.without.failed == 0
    assert found.verdict.word == "pays"


def test_what_happens_without_hedging_does_not_depend_on_how_one_hedges() -> None:
    first, other = (simulated("hang", f"{{delay: {delay}, budget: off}}", requests=1_000) for delay in ("2s", "1s"))
    assert first.total.without == other.total.without
    assert first.total.hedged != other.total.hedged


@pytest.mark.parametrize("scenario", BUILTIN)
def test_no_stretch_of_any_scenario_passes_a_cap(scenario: str) -> None:
    """Not even with a delay that half of the requests reach."""
    found = simulated(scenario, "{delay: 1s, budget: 5%, burst: 20}")
    assert found.hedges is not None
    assert found.failovers is not None
    assert found.hedges.launched == found.total.hedged.hedges > 20
    for cap in (found.hedges, found.failovers):
        assert cap.most_at_once <= cap.burst + 1e-6
    assert found.total.hedged.hedges <= 20 + 0.05 * 3_000 + found.total.seconds / 60


def test_in_an_outage_the_traffic_moves_to_the_backup_and_comes_back() -> None:
    found = simulated("outage")
    before, during, after = (phase(found, name).hedged for name in ("before", "outage", "after"))
    assert set(before.first) == {"first"}
    assert during.first["second"] > 0.9 * during.requests
    assert during.answered["second"] > 0.99 * during.requests
    assert during.failed <= 0.01 * during.requests
    assert after.first["first"] > 0.5 * after.requests
    assert found.total.hedged.opened >= 1
    first, last = found.breakers[0], found.breakers[-1]
    assert (first.target, first.state, last.target, last.state) == ("first", "open", "first", "closed")
    assert 0.0 < first.at - phase(found, "outage").since < 5.0


def test_hedges_save_requests_that_hang() -> None:
    """Without a hedge they wait for the first-token timeout."""
    found = simulated("hang", f"{{delay: 3s, budget: 40%, {ANY_LATENESS}}}", "{first_token: 30s}")
    hanging = phase(found, "hanging")
    assert hanging.without.p95 is None or hanging.without.p95 > 30.0
    assert hanging.hedged.p95 is not None
    assert hanging.hedged.p95 < 10.0
    assert hanging.hedged.hedges > 0.3 * hanging.hedged.requests


def test_the_verdict_is_of_the_trouble_and_then_of_all() -> None:
    found = simulated("hang", f"{{delay: 3s, budget: 40%, {ANY_LATENESS}}}", "{first_token: 30s}")
    hanging, text = phase(found, "hanging"), found.verdict.text
    assert text.startswith("Hedging pays in 'hanging': ")
    first, then = text.split(" In all phases together ")
    assert f"{percent(hanging.hedged.extra)} more attempts (cap: 40% of requests" in first
    assert f"{percent(found.total.hedged.extra)} more attempts" in then
    assert simulated("shift").verdict.text.partition(":")[0].endswith(" in 'just after' and 'later'")
    assert " here: " in simulated("diurnal").verdict.text  # where nothing is usual, or all is, it is of the whole
    lost = "{about: -, phases: [{name: usual}, {name: down, primary: {faults: 'hang:1'}, backups: {faults: 'hang:1'}}]}"
    assert "more than 1 % fail with hedging and without it, so that there is no p99" in simulated(lost).verdict.text


def test_a_learned_delay_follows_a_shift() -> None:
    found = simulated("shift", requests=4_000)
    later = phase(found, "later")
    assert later.without.p99 is not None
    assert later.hedged.p99 is not None
    assert later.hedged.p99 < 0.75 * later.without.p99


class Watched(Targets):
    """Notes what is left of the backup's rate limit, as a share of it, whenever a hedge is sent there."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.left: list[float] = []
        self._wall = {target: wall for (target, _), wall in self.walls.items()}
        self._running: set[str] = set()

    def send(self, which: int, key: str, head: Head, done: Done) -> BreakOff:
        wall = self._wall["second" if which else "first"]
        assert wall is not None
        if which and key in self._running:  # the first attempt was let in, so this is no failover
            self.left.append(wall.left(self.clock.now) / wall.limit)
        refused = wall.refused
        over = super().send(which, key, head, done)
        if not which and wall.refused == refused:
            self._running.add(key)
        return over


def at_the_wall(hedge: str, window: str = "window: 5s") -> tuple[Watched, Told]:
    staged = stage(settings(hedge, "{first_token: 10m}"), None, source="")
    what = read(Scenario, BUILTIN["wall"].replace("window: 20s", window), "wall")
    times = Times(what.phases, 3_000, 20.0, 1)
    targets = Watched(staged, what, times, 20.0, 1)
    run = Simulator(staged, staged.policy, targets, len(what.phases), 1)
    return targets, run.run(times.arrivals, times.starts, lambda _: None)


def test_at_the_wall_hedges_leave_the_backup_what_others_need() -> None:
    """By default a fifth of its limit. The contrast: without that."""
    eager = f"delay: 500ms, budget: 60%, {ANY_LATENESS}"
    kept, told = at_the_wall(f"{{{eager}}}")
    assert min(kept.left) > 0.2
    assert sum(tally.skipped[Reason.QUOTA] for tally in told.tallies) > 100
    assert sum(tally.limited[Role.HEDGE] for tally in told.tallies) == 0
    assert told.tallies[1].limited[Role.PRIMARY] > 50
    eaten, _ = at_the_wall(f"{{{eager}, quota_keep: 0%, quota_share: 100%}}")
    assert min(eaten.left) < 0.1


def test_heads_that_come_late_and_overtake_each_other_do_not_mislead() -> None:
    """A slow answer's head says what was left long ago; it does not undo what is known since."""
    kept, _ = at_the_wall(f"{{delay: 500ms, budget: 60%, {ANY_LATENESS}}}", "window: 20s, late: true")
    assert sum(left < 0.2 for left in kept.left) < 0.01 * len(kept.left)


QUEUE = "{{about: -, queue: {{servers: 10, load: 60%, cancels: {cancels}}}, phases: [{{name: all}}]}}"
SOON = f"delay: 300ms, {ANY_LATENESS}"
"""Which three requests in ten take of a fleet whose work takes 100 ms."""


def at_a_fleet(hedge: str, *, cancels: bool, requests: int = 4_000) -> Simulation:
    return simulated(QUEUE.format(cancels=str(cancels).lower()), hedge, requests=requests, rate=60.0)


def fleet(hedge: str, *, cancels: bool, requests: int = 4_000) -> Phase:
    return at_a_fleet(hedge, cancels=cancels, requests=requests).total


def test_a_fleet_without_hedges_does_what_theory_says() -> None:
    """Each queue is M/M/1: times in the system are exponential with mean 100 ms / (1 - 0.6)."""
    alone = fleet("{delay: off}", cancels=True, requests=8_000).without
    assert alone.p50 == pytest.approx(0.25 * log(2), rel=0.06)
    assert alone.p95 == pytest.approx(0.25 * log(20), rel=0.15)
    assert alone.load == pytest.approx(0.6, abs=0.02)


def test_a_fleet_that_runs_on_collapses_without_a_cap_and_not_with_one() -> None:
    free = at_a_fleet(f"{{budget: off, {SOON}}}", cancels=False)
    capped = fleet(f"{{budget: 10%, {SOON}}}", cancels=False)
    assert free.total.without == capped.without
    alone, collapsed, held = free.total.without, free.total.hedged, capped.hedged
    assert alone.p50 and alone.p99 and collapsed.p50 and collapsed.p99 and held.p50 and held.p99  # noqa: PT018
    assert collapsed.p50 > 4.0 * alone.p50
    assert collapsed.p99 > 2.0 * alone.p99
    assert collapsed.load == pytest.approx(0.93, abs=0.03)
    assert free.verdict.word == "hurts"
    assert "The servers' load goes from 59 % to 9" in free.verdict.text
    assert held.p50 < 1.3 * alone.p50
    assert held.p99 < 1.4 * alone.p99
    assert held.load == pytest.approx(0.66, abs=0.02)


def test_a_fleet_that_stops_what_is_cancelled_has_no_more_work_and_a_shorter_tail() -> None:
    found = fleet(f"{{budget: 10%, {SOON}}}", cancels=True)
    assert found.without.p99 is not None
    assert found.hedged.p99 is not None
    assert found.hedged.p99 < 0.85 * found.without.p99
    assert found.hedged.load == pytest.approx(found.without.load, abs=0.02)


def test_what_holds_every_hedge_back_is_named() -> None:
    found = simulated("steady", "{delay: 1s, kill_switch: true}", requests=500)
    assert found.verdict.word == "off"
    assert "kill_switch held" in found.verdict.text
    assert found.total.hedged.hedges == 0
    assert simulated("steady", "{delay: off}", requests=500).verdict.word == "off"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("about: x\n", "own.yaml:1: phases: is required"),
        ("about: x\nphases:\n- {name: a, faults: 1}\n", "own.yaml:3: phases[0].faults: unknown key"),
        ('about: x\nphases:\n- {name: a, primary: {faults: "cut:1"}}\n', "expected error statuses and"),
        ('about: x\nphases:\n- {name: a, primary: {faults: "503"}}\n', "STATUS:PROBABILITY"),
        ("about: x\nlaw: {p50: 1s}\nphases: [{name: a}]\n", "own.yaml:2: law: give p50 and p95"),
        ("about: x\nlaw: {p50: 2s, p95: 1s}\nphases: [{name: a}]\n", "need 0 < p50 <= p95"),
        ("[]\n", "expected a mapping with the keys about"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        read(Scenario, text, "own.yaml")


def test_requests_come_as_often_as_each_phase_says() -> None:
    phases = read(Scenario, BUILTIN["diurnal"], "diurnal").phases
    times = Times(phases, 50_000, 20.0, 3)
    assert len(times.arrivals) == 50_000
    assert times.arrivals == sorted(times.arrivals)
    ends = [*times.starts[1:], times.total]
    for each, start, end in zip(phases, times.starts, ends, strict=True):
        expected = (end - start) * 20.0 * each.rate
        come = sum(start <= at < end for at in times.arrivals)
        assert come == pytest.approx(expected, abs=4.0 * sqrt(expected))
    assert times.arrivals[-1] == pytest.approx(times.total, rel=0.02)


BASE = "{about: x, phases: [{name: a, backups: {slower: 2}}], limits: {primary: 0.9, backups: 0.5, window: 5s}}"
TWO = "{about: x, phases: [{name: a}, {name: b, rate: 2}]}"
FLEET = "{about: x, phases: [{name: a}], queue: {servers: 4, load: 70%}}"


@pytest.mark.parametrize(
    ("scenario", "key", "other"),
    [
        (BASE, "about: x", "about: x, law: {preset: groq}"),
        (BASE, "about: x", "about: x, law: {p50: 1s, p95: 2s}"),
        (BASE, "about: x", "about: x, law: {p50: 1072ms, p95: 5991ms, p99: 30s}"),
        (BASE, "about: x", "about: x, backups_law: {preset: groq}"),
        (BASE, "about: x", "about: x, rho: 0.9"),
        (BASE, "primary: 0.9", "primary: 0.8"),
        (BASE, "backups: 0.5", "backups: 0.2"),
        (BASE, "window: 5s", "window: 7s"),
        (BASE, "window: 5s", "window: 5s, late: true"),
        (BASE, "slower: 2", "slower: 3"),
        (BASE, "slower: 2", 'slower: 2, faults: "503:0.5"'),
        (BASE, "name: a", 'name: a, primary: {faults: "hang:0.1"}'),
        (BASE, "name: a", "name: a, slower: 1.1"),
        (BASE, "name: a", "name: b"),
        (BASE, "[{name: a,", "[{name: a}, {name: b, rate: 2, "),
        (TWO, "[{name: a}", "[{name: a, lasts: 3}"),
        (FLEET, "servers: 4", "servers: 5"),
        (FLEET, "load: 70%", "load: 80%"),
        (FLEET, "load: 70%", "load: 70%, cancels: false"),
    ],
)
def test_every_key_has_an_effect(scenario: str, key: str, other: str) -> None:
    hedge = f"{{delay: 500ms, budget: off, {ANY_LATENESS}}}"
    told = {text: simulated(text, hedge, requests=400) for text in (scenario, scenario.replace(key, other))}
    assert len(told) == 2
    assert len({(str(found.total), str(found.phases)) for found in told.values()}) == 2


def test_a_chain_is_paid_for_with_failovers() -> None:
    found = simulated("hang", "{mode: chain}", "{first_token: 5s}", requests=1_500)
    during = phase(found, "hanging")
    assert during.hedged.hedges == 0
    assert during.hedged.failovers > during.without.failovers
    assert found.verdict.word == "pays"
    assert "more attempts (cap: 20% of requests" in found.verdict.text


def test_limits_in_money_hold_here_too() -> None:
    priced = CONFIG.replace("api_key: none", "api_key: none, price: {{input: 1, output: 1}}")
    priced = priced.replace("timeouts:", "spend: {{usd_per_hour: 0.02}}\n    timeouts:")
    known = loads(priced.format(hedge="{delay: 1s, budget: off}", timeouts="{}"))
    found = simulate(known, scenario_of("steady"), Options(requests=1_000))
    assert 20 <= found.total.hedged.hedges <= 40  # $0.001 with a whole answer, half of that for a prompt alone
    assert found.total.hedged.skipped["budget"] > 100
    assert "no cap on their number" in found.verdict.text


def test_one_is_told_when_there_were_too_few_requests_to_see_anything() -> None:
    found = simulated("wall", requests=500)
    assert [note.partition(",")[0] for note in found.notes] == [
        "no request met a rate limit",
        "a p99 of 500 requests says little: take more (--requests)",
    ]
