"""What an operator changes at run time: read as the configuration reads it, obeyed at once, and on record."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from hedgerow.config.amounts import DELAY
from hedgerow.config.fields import percentage
from hedgerow.events import AttemptLaunched, ControlsChanged, HedgeSkipped, Reason, Role
from hedgerow.gateway.access import Token
from hedgerow.gateway.admin_controls import LEAST_BUDGET, MOST_BUDGET, Unfit, read_changes, toggle_kill_switch
from hedgerow.gateway.listening import Loudly
from hedgerow.policy import delay as delays
from hedgerow.telemetry.event_log import line
from hedgerow.units import parse_duration
from tests.effects.support import SILENT
from tests.unit.admin_support import TOKEN, Running, blueprint, play

UNTOUCHED = {"kill_switch": False, "rollout": None, "delay": None, "budget": None}
PERCENT = "a percentage between 0% and 100%, a number from 0 to 1, or null (as configured)"
SHARE = "a percentage such as 10% or null (as configured); a number needs its %"
BOUNDS = "a percentage between 0.1% and 100% or null (as configured)"
FIRST = "routes.fast.timeouts.first_token (10s): no stream would ever be hedged"
TOTAL = "routes.fast.timeouts.total (5m): no hedge would ever start"
ROUTE = "/admin/api/routes/fast"


def problems(sent: object) -> dict[str, str]:
    """What is wrong with what was sent."""
    with pytest.raises(Unfit) as caught:
        read_changes(json.dumps(sent).encode())
    return caught.value.problems


# --- read ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "sent", "shown"),
    [
        ("kill_switch", True, True),
        ("kill_switch", False, False),
        ("rollout", "25%", "25%"),
        ("rollout", 0.25, "25%"),
        ("rollout", 0, "0%"),
        ("rollout", "100 %", "100%"),
        ("rollout", None, None),
        ("delay", "2s", "2s"),
        ("delay", "1m30s", "90s"),
        ("delay", "0.3", "300ms"),
        ("delay", 1.5, "1.5s"),
        ("delay", 0, "0"),
        ("delay", "off", "off"),
        ("delay", "auto", "auto"),
        ("delay", "p95", "p95"),
        ("delay", "p99.5", "p99.5"),
        ("delay", "ema(p95)", "ema(p95)"),
        ("delay", "slo: 1200ms", "slo: 1.2s"),
        ("delay", {"slo": "1.2s"}, "slo: 1.2s"),
        ("delay", None, None),
        ("budget", "10%", "10%"),
        ("budget", "0.1%", "0.1%"),
        ("budget", "100%", "100%"),
        ("budget", None, None),
    ],
)
@pytest.mark.parametrize("path", ["/admin/api", ROUTE])
def test_what_is_set_is_shown_as_it_can_be_sent_again(key: str, sent: object, shown: object, path: str) -> None:
    async def story(running: Running) -> None:
        status, told = running.ask("PATCH", path, {key: sent})
        assert (status, told["controls"]) == (200, {**UNTOUCHED, key: shown})
        again = running.ask("PATCH", path, {key: shown})
        assert again == (status, told)
        assert running.ask("GET", path)[1]["controls"] == told["controls"]

    play(story, {"routes.<name>.timeouts.first_token": "5m"})


@pytest.mark.parametrize(
    ("key", "sent", "expected"),
    [
        ("kill_switch", "true", 'got "true"; expected true or false'),
        ("kill_switch", 1, "got 1; expected true or false"),
        ("kill_switch", None, "got null; expected true or false"),
        ("rollout", "101%", f'got "101%"; expected {PERCENT}'),
        ("rollout", 25, f"got 25; expected {PERCENT}"),
        ("rollout", -0.1, f"got -0.1; expected {PERCENT}"),
        ("rollout", True, f"got true; expected {PERCENT}"),
        ("rollout", "0.25", f'got "0.25"; expected {PERCENT}'),
        ("rollout", [1], f"got [1]; expected {PERCENT}"),
        ("delay", "p100", f'got "p100"; expected {delays.ALLOWED}, or null (as configured)'),
        ("delay", "soon", f'got "soon"; expected {delays.ALLOWED}, or null (as configured)'),
        ("delay", -1, f"got -1; expected {delays.ALLOWED}, or null (as configured)"),
        ("delay", False, f"got false; expected {delays.ALLOWED}, or null (as configured)"),
        ("delay", "2h", 'got "2h"; expected a delay of at most 1h'),
        ("delay", "slo: 2h", 'got "slo: 2h"; expected a delay of at most 1h'),
        ("delay", 10**400, f"got {'1' + '0' * 56}...; expected {delays.ALLOWED}, or null (as configured)"),
        ("rollout", 10**400, f"got {'1' + '0' * 56}...; expected {PERCENT}"),
        ("budget", 0.1, f"got 0.1; expected {SHARE}"),
        ("budget", "off", f'got "off"; expected {SHARE}'),
        ("budget", "0%", f'got "0%"; expected {BOUNDS}'),
        ("budget", "101%", f'got "101%"; expected {BOUNDS}'),
        ("budget", {"a": "x" * 100}, f'got {{"a":"{"x" * 51}...; expected {SHARE}'),
        ("kill-switch", True, "unknown key; the keys here are kill_switch, rollout, delay, budget"),
    ],
)
def test_what_cannot_be_is_told_with_what_can(key: str, sent: object, expected: str) -> None:
    assert problems({key: sent}) == {key: expected}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'"kill_switch"', b"null", b"\xff", b'{"kill_switch": NaN}', b"[" * 100_000],
)
def test_what_is_no_object_is_answered_with_what_to_send(body: bytes) -> None:
    async def story(running: Running) -> None:
        status, told = running.ask("PATCH", ROUTE, raw=body)
        assert (status, told["error"]["code"]) == (422, "invalid_controls")
        message = "Nothing was changed. Send a JSON object with some of kill_switch, rollout, delay, budget."
        assert told["error"]["message"] == message

    play(story)


def test_one_fault_keeps_all_from_being_applied_and_every_fault_is_told() -> None:
    async def story(running: Running) -> None:
        status, told = running.ask("PATCH", ROUTE, {"kill_switch": True, "delay": "soon", "rollout": 2})
        assert status == 422
        assert list(told["error"]["problems"]) == ["delay", "rollout"]
        assert running.ask("GET", ROUTE)[1]["controls"] == UNTOUCHED
        assert running.events == []

    play(story)


@pytest.mark.parametrize(
    ("path", "sent", "expected"),
    [
        (ROUTE, "20s", f"20s is too long for {FIRST}"),
        (ROUTE, "20m", f"20m is too long for {TOTAL}"),
        (ROUTE, "slo: 5m", f"5m is too long for {TOTAL}"),
        ("/admin/api", "10s", f"10s is too long for {FIRST}"),
    ],
)
def test_a_delay_must_leave_time_for_a_hedge(path: str, sent: str, expected: str) -> None:
    async def story(running: Running) -> None:
        status, told = running.ask("PATCH", path, {"delay": sent})
        assert (status, told["error"]["problems"]) == (422, {"delay": expected})
        assert running.ask("PATCH", path, {"delay": "p95"})[0] == 200

    play(story, {"routes.<name>.timeouts": {"first_token": "10s", "total": "5m"}})


@pytest.mark.parametrize("mode", ["race", "chain"])
@pytest.mark.parametrize("sent", ["1s", "off", "p95", "slo: 2s"])
def test_no_delay_is_taken_where_none_is_waited_for(mode: str, sent: str) -> None:
    async def alone(running: Running) -> None:
        for path, where in ((ROUTE, "route fast"), ("/admin/api", "every route")):
            status, told = running.ask("PATCH", path, {"delay": sent})
            problem = f"{where} has hedge.mode: {mode}, which waits for no delay; only null is allowed here"
            assert (status, told["error"]["problems"]) == (422, {"delay": problem})
            assert running.ask("PATCH", path, {"delay": None, "kill_switch": True})[0] == 200

    async def beside_another(running: Running) -> None:
        assert running.ask("PATCH", ROUTE, {"delay": sent})[0] == 422
        assert running.ask("PATCH", "/admin/api/routes/slow", {"delay": sent})[0] == 200
        assert running.ask("PATCH", "/admin/api", {"delay": sent})[0] == 200

    play(alone, {"routes.<name>.hedge": {"mode": mode}})
    play(beside_another, {"routes.<name>.hedge": {"mode": mode}, "routes.slow": {"targets": ["a", "b"]}})


def test_a_chain_takes_no_share_of_hedges_and_a_race_does() -> None:
    changes = {"rollout": "25%", "budget": "5%"}

    async def chain(running: Running) -> None:
        status, told = running.ask("PATCH", ROUTE, changes)
        why = "route fast has hedge.mode: chain, where nothing is hedged; only null is allowed here"
        assert (status, told["error"]["problems"]) == (422, dict.fromkeys(changes, why))
        assert running.ask("PATCH", ROUTE, {"rollout": None, "budget": None})[0] == 200

    async def race(running: Running) -> None:
        assert running.ask("PATCH", ROUTE, changes)[0] == 200

    async def both(running: Running) -> None:
        assert running.ask("PATCH", "/admin/api", changes)[0] == 200
        problems = running.ask("PATCH", "/admin/api", {"delay": "1s"})[1]["error"]["problems"]
        assert problems["delay"].startswith("every route has hedge.mode: chain or race, which waits for no delay")

    play(chain, {"routes.<name>.hedge": {"mode": "chain"}})
    play(race, {"routes.<name>.hedge": {"mode": "race"}})
    other = {"targets": ["a", "b"], "hedge": {"mode": "race"}}
    play(both, {"routes.<name>.hedge": {"mode": "chain"}, "routes.other": other})


DELAYS: st.SearchStrategy[Any] = st.one_of(
    st.from_regex(
        r"(p[0-9]{1,3}(\.[0-9])?|ema\(p9[0-9](, 0?\.[0-9])?\)|slo: ?[0-9]{1,4}m?s|auto|[0-9]{1,5}(ms|s|m|h)?)"
    ),
    st.floats(-10, 10_000),
    st.integers(-1, 5_000),
    st.booleans(),
    st.fixed_dictionaries({"slo": st.sampled_from(["1s", "2h", "x", 3])}),
)


@given(DELAYS)
def test_a_delay_means_what_it_means_in_the_configuration(sent: Any) -> None:
    try:
        configured = DELAY.parse(sent, Path())
    except PydanticCustomError:
        configured = None
    try:
        given_ = read_changes(json.dumps({"delay": sent}).encode())["delay"]
    except Unfit:
        given_ = None
    if sent is False:  # `off` in YAML's words, which JSON does not have
        return
    tiny = isinstance(configured, delays.Fixed | delays.Slo) and configured.seconds < 1e-6
    assert tiny or (configured is None) == (given_ is None)
    if configured is not None and not tiny:
        again = delays.parse_delay(given_, parse_duration)
        assert type(again) is type(configured)
        assert close(again, configured)


def close(one: delays.Spec, other: delays.Spec) -> bool:
    """Whether they are the same to the microsecond."""
    if isinstance(one, delays.Fixed | delays.Slo) and isinstance(other, delays.Fixed | delays.Slo):
        return abs(one.seconds - other.seconds) < 1e-6
    return one == other


@given(st.one_of(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3})? ?%", fullmatch=True), st.sampled_from(["10", "%", "-1%"])))
def test_a_budget_has_the_limits_that_it_has_in_the_configuration(sent: str) -> None:
    leaf = percentage(LEAST_BUDGET, MOST_BUDGET)
    try:
        configured = leaf.parse(sent, Path())
    except PydanticCustomError:
        configured = None
    try:
        assert read_changes(json.dumps({"budget": sent}).encode()) == {"budget": configured}
    except Unfit:
        assert configured is None


# --- obeyed ----------------------------------------------------------------------------------------------------------


async def hedges(running: Running) -> int:
    """How often a request to a silent target is hedged."""
    before = len(running.events)
    running.chat()
    await asyncio.sleep(10)
    return sum(isinstance(each, AttemptLaunched) and each.role is Role.HEDGE for each in running.events[before:])


@pytest.mark.parametrize("path", ["/admin/api", ROUTE])
@pytest.mark.parametrize(
    ("off", "on", "reason"),
    [
        ({"kill_switch": True}, {"kill_switch": False}, Reason.KILL_SWITCH),
        ({"rollout": 0}, {"rollout": None}, Reason.ROLLOUT),
        ({"rollout": "0%"}, {"rollout": "100%"}, Reason.ROLLOUT),
    ],
)
def test_hedging_stops_and_goes_on_at_once(path: str, off: object, on: object, reason: Reason) -> None:
    async def story(running: Running) -> None:
        assert await hedges(running) == 1
        assert running.ask("PATCH", path, off)[0] == 200
        assert await hedges(running) == 0
        assert [event.reason for event in running.of(HedgeSkipped)] == [reason]
        assert running.ask("PATCH", path, on)[0] == 200
        assert await hedges(running) == 1

    play(story, scripts={"a": SILENT})


def test_requests_under_way_obey_the_kill_switch_too() -> None:
    async def story(running: Running) -> None:
        running.chat()
        await asyncio.sleep(1.9)
        running.ask("PATCH", "/admin/api", {"kill_switch": True})
        await asyncio.sleep(10)
        assert running.asked() == {"a": 1, "b": 0}

    play(story, scripts={"a": SILENT})


def test_the_switch_of_one_route_is_not_that_of_another() -> None:
    async def story(running: Running) -> None:
        running.ask("PATCH", "/admin/api/routes/slow", {"kill_switch": True})
        assert await hedges(running) == 1
        running.ask("PATCH", ROUTE, {"kill_switch": True})
        assert await hedges(running) == 0
        running.ask("PATCH", ROUTE, {"kill_switch": False})
        running.ask("PATCH", "/admin/api", {"kill_switch": True})
        assert await hedges(running) == 0

    play(story, {"routes.slow": {"targets": ["a", "b"]}}, scripts={"a": SILENT})


def test_another_delay_holds_from_the_next_request_on() -> None:
    async def story(running: Running) -> list[float]:
        for delay in ("500ms", "4s", "off", None):
            assert running.ask("PATCH", ROUTE, {"delay": delay})[0] == 200
            running.chat()
            await asyncio.sleep(100)
        return [at for at, _, _ in running.pools[1].requests]

    hedged_at = play(story, scripts={"a": SILENT})
    # One with `off` fails over when its time for a first token is over, as every request would.
    assert hedged_at == [0.5, 104.0, 260.0, 302.0]


def test_another_budget_holds_from_the_next_request_on() -> None:
    async def story(running: Running) -> list[int]:
        found = []
        for budget in (None, "100%", None):
            assert running.ask("PATCH", ROUTE, {"budget": budget})[0] == 200
            found += [await hedges(running) for _ in range(3)]
        return found

    poor = {"delay": "2s", "budget": "0.1%", "burst": 1, "per_minute": 0}
    assert play(story, {"routes.<name>.hedge": poor}, scripts={"a": SILENT}) == [1, 0, 0, 1, 1, 1, 0, 0, 0]


def test_settings_made_at_run_time_outlive_a_reload_and_end_with_null() -> None:
    async def story(running: Running) -> None:
        running.ask("PATCH", ROUTE, {"delay": "1s"})
        running.ask("PATCH", "/admin/api", {"rollout": "50%"})
        assert await running.reload(blueprint({"routes.<name>.hedge.delay": "3s"})) == ()
        told = running.ask("GET", ROUTE)[1]
        assert (told["delay"], told["controls"]["delay"]) == ("1s", "1s")
        assert running.ask("GET", "/admin/api")[1]["controls"]["rollout"] == "50%"
        assert running.ask("PATCH", ROUTE, {"delay": None})[1]["delay"] == "3s"

    play(story)


# --- on record -------------------------------------------------------------------------------------------------------


def test_a_change_is_an_event_that_says_who_but_not_their_token() -> None:
    async def story(running: Running) -> None:
        await asyncio.sleep(7)
        running.ask("PATCH", ROUTE, {"kill_switch": True, "rollout": "25%", "delay": "1m", "budget": None})
        running.ask("PATCH", "/admin/api", {"delay": "p95"})
        by = Token(TOKEN).fingerprint
        changes: dict[str, bool | float | str | None]
        changes = {"kill_switch": True, "rollout": 0.25, "delay": "60s", "budget": None}
        first, second = running.of(ControlsChanged)
        assert first == ControlsChanged(7.0, "fast", changes, by)
        assert second == ControlsChanged(7.0, None, {"delay": "p95"}, by)
        assert TOKEN.encode() not in line(first)

    play(story, {"routes.<name>.timeouts.first_token": "5m"})


def test_the_kill_switch_by_signal_goes_on_and_off() -> None:
    async def story(running: Running) -> None:
        for on in (True, False):
            toggle_kill_switch(running.gateway, running.reloader.parts, "SIGUSR1")
            assert running.gateway.controls.kill_switch is on
            assert running.of(ControlsChanged)[-1] == ControlsChanged(0.0, None, {"kill_switch": on}, "SIGUSR1")

    play(story)


def test_a_listener_of_other_kinds_is_not_told() -> None:
    class Deaf:
        kinds = (HedgeSkipped,)

        def __call__(self, event: object) -> None:
            raise AssertionError(event)

    async def story(running: Running) -> None:
        running.gateway.listeners = [Deaf()]
        assert running.ask("PATCH", ROUTE, {"kill_switch": True})[0] == 200

    play(story)


def test_changes_are_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    hear = Loudly()
    with caplog.at_level(logging.WARNING):
        hear(ControlsChanged(1.0, None, {"kill_switch": True}, "SIGUSR1"))
        hear(ControlsChanged(1.0, "fast", {"kill_switch": False, "delay": "p95", "budget": None}, "token 1a2b3c4d"))
    assert [record.getMessage() for record in caplog.records] == [
        "all routes: KILL SWITCH ON: nothing is hedged any more, by SIGUSR1",
        "route fast: KILL SWITCH OFF: hedging goes on, by token 1a2b3c4d",
        "route fast: delay is now p95, by token 1a2b3c4d",
        "route fast: budget is as configured again, by token 1a2b3c4d",
    ]
