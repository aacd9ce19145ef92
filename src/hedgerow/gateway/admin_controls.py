"""What an operator may change while the gateway runs: read in the configuration's words and limits, and applied."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from hedgerow.errors import RequestError
from hedgerow.events import ControlsChanged
from hedgerow.policy import delay as delays
from hedgerow.policy.controls import Controls
from hedgerow.units import parse_duration, parse_percent, show_duration, show_percent

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.parts import Parts
    from hedgerow.policy.settings import Policy

Value = bool | float | str | None

LONGEST_DELAY = 3_600.0
LEAST_BUDGET, MOST_BUDGET = 0.001, 1.0
"""As `hedge.delay` and `hedge.budget` in the configuration."""


class Unfit(RequestError):
    """What was sent cannot be applied; `problems` has a sentence for each key."""

    def __init__(self, problems: dict[str, str]) -> None:
        text = "; ".join(f"{key}: {text}" if key else text for key, text in problems.items())
        super().__init__(422, f"Nothing was changed. {text}", code="invalid_controls", param=next(iter(problems)))
        self.problems = problems


class _Expected(Exception):
    """The value is not what the text says."""


def read_changes(body: bytes) -> dict[str, Value]:
    """The controls to set, by name. Raises `Unfit` with all that is wrong, and what is allowed."""
    try:
        sent = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        sent = None
    if not isinstance(sent, dict) or not sent:
        raise Unfit({"": f"Send a JSON object with some of {', '.join(_READ)}."})
    changes: dict[str, Value] = {}
    problems: dict[str, str] = {}
    for key, value in sent.items():
        if key not in _READ:
            problems[key[:100]] = f"unknown key; the keys here are {', '.join(_READ)}"
            continue
        try:
            changes[key] = _READ[key](value)
        except _Expected as what:
            problems[key] = f"got {_shown(value)}; expected {what}"
    if problems:
        raise Unfit(problems)
    return changes


def check_fit(changes: dict[str, Value], parts: Parts, route: str | None) -> None:
    """Each change must do something, and a delay leave time for a hedge on every route. Raises `Unfit`."""
    policies = {name: each.policy for name, each in parts.blueprint.routes.items() if route in (None, name)}
    problems: dict[str, str] = {}
    for key in [key for key, value in changes.items() if value is not None]:
        if all(key in _without(policy) for policy in policies.values()):
            modes = " or ".join(sorted({"race" if policy.width > 1 else "chain" for policy in policies.values()}))
            where = "every route" if route is None else f"route {route}"
            problems[key] = f"{where} has hedge.mode: {modes}, {_WITHOUT[key]}; only null is allowed here"
    if problems:
        raise Unfit(problems)
    spec = _spec(changes.get("delay"))
    if isinstance(spec, delays.Fixed | delays.Slo):
        _check_time(spec, {name: policy for name, policy in policies.items() if not _without(policy)})


def _check_time(spec: delays.Fixed | delays.Slo, policies: Mapping[str, Policy]) -> None:
    """A delay must leave time for a hedge. Raises `Unfit`."""
    for name, policy in policies.items():
        limits = {"total": (policy.total, "no hedge would ever start")}
        if isinstance(spec, delays.Fixed):
            limits["first_token"] = (policy.first_token, "no stream would ever be hedged")
        for key, (limit, why) in limits.items():
            if spec.seconds >= limit:
                there = f"routes.{name}.timeouts.{key} ({show_duration(limit)})"
                raise Unfit({"delay": f"{show_duration(spec.seconds)} is too long for {there}: {why}"})


_WITHOUT = {
    "delay": "which waits for no delay",
    "rollout": "where nothing is hedged",
    "budget": "where nothing is hedged",
}


def _without(policy: Policy) -> Collection[str]:
    """The controls that do nothing in its mode."""
    if policy.chain:
        return _WITHOUT
    return ("delay",) if policy.width > 1 else ()


def apply(gateway: Gateway, parts: Parts, route: str | None, changes: dict[str, Value], by: str) -> None:
    """Set the controls of a route, or with None those of all routes, and tell who listens."""
    now = gateway.loop.time()
    controls = gateway.controls if route is None else parts.hedgers[route].controls
    for key, value in changes.items():
        setattr(controls, key, value)
    for hedger in parts.hedgers.values() if route is None else [parts.hedgers[route]]:
        hedger.apply(now)
    event = ControlsChanged(now, route, changes, by)
    for listener in gateway.listeners:
        if ControlsChanged in getattr(listener, "kinds", (ControlsChanged,)):
            listener(event)


def toggle_kill_switch(gateway: Gateway, parts: Parts, by: str) -> None:
    """Stop all hedges of all routes, or let them start again."""
    apply(gateway, parts, None, {"kill_switch": not gateway.controls.kill_switch}, by)


def shown(controls: Controls) -> dict[str, Value]:
    """As they can be sent."""
    rollout, budget, spec = controls.rollout, controls.budget, _spec(controls.delay)
    return {
        "kill_switch": controls.kill_switch,
        "rollout": None if rollout is None else show_percent(rollout),
        "delay": None if spec is None else delays.show(spec, show_duration),
        "budget": None if budget is None else show_percent(budget),
    }


def _flag(value: object) -> Value:
    if not isinstance(value, bool):
        raise _Expected("true or false")
    return value


def _rollout(value: object) -> Value:
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    share = value if number else parse_percent(value)
    if not isinstance(share, int | float) or not 0.0 <= share <= 1.0:
        raise _Expected("a percentage between 0% and 100%, a number from 0 to 1, or null (as configured)")
    return round(float(share), 6)


def _budget(value: object) -> Value:
    if value is None:
        return None
    share = parse_percent(value)
    if share is None:
        raise _Expected("a percentage such as 10% or null (as configured); a number needs its %")
    if not LEAST_BUDGET <= share <= MOST_BUDGET:
        bounds = f"{show_percent(LEAST_BUDGET)} and {show_percent(MOST_BUDGET)}"
        raise _Expected(f"a percentage between {bounds} or null (as configured)")
    return share


def _delay(value: object) -> Value:
    if value is None:
        return None
    try:
        spec = delays.parse_delay(value, parse_duration)
        text = delays.show(spec, _seconds)
        delays.parse_delay(text, parse_duration)  # an objective of less than a microsecond is none
    except ValueError:
        raise _Expected(f"{delays.ALLOWED}, or null (as configured)") from None
    if isinstance(spec, delays.Fixed | delays.Slo) and spec.seconds > LONGEST_DELAY:
        raise _Expected(f"a delay of at most {show_duration(LONGEST_DELAY)}")
    return text


def _seconds(seconds: float) -> str:
    """To the microsecond, as every duration is read."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


_READ: dict[str, Callable[[object], Value]] = {
    "kill_switch": _flag,
    "rollout": _rollout,
    "delay": _delay,
    "budget": _budget,
}


def _spec(delay: Value) -> delays.Spec | None:
    return None if delay is None else delays.parse_delay(delay, parse_duration)


def _shown(value: object) -> str:
    """The value as it was sent, in JSON, not too long."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
