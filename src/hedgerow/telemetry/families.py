"""Every metric there is: its name, type, labels and what it says. docs/metrics.md explains them; a test compares both.

Label values are names from the configuration or words of hedgerow's own, never anything that a client may choose.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

Labels = tuple[str, ...]
Value = int | float | list[float]
"""A number; of a histogram its buckets (each for itself) and, last, the sum."""
Samples = dict[str, dict[Labels, Value]]
"""By name and the values of its labels."""


class Kind(Enum):
    """A metric's type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """One metric. A counter's name ends in `_total`. `unit`: what a number stands for. `over`: how gauges of several
    processes become one.
    """

    name: str
    kind: Kind
    labels: Labels
    help: str
    unit: float = 1.0
    over: str = "sum"
    bounds: tuple[float, ...] = ()


LATENCY = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0, 60.0)
"""Upper bounds in seconds: first tokens take 0.2 to 3 s, stragglers up to a minute."""
WHOLE = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0)
SENDING = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
OVERHEAD = (0.00002, 0.00003, 0.00005, 0.00007, 0.0001, 0.00015, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1)
LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
NANO = 1e-9
"""Money is counted in whole nano-dollars."""

_SIDES = ("route", "stream", "hedged", "arm")


def _counter(name: str, labels: Labels, text: str, unit: float = 1.0) -> Family:
    return Family(f"hedgerow_{name}_total", Kind.COUNTER, labels, text, unit)


def _gauge(name: str, labels: Labels, text: str, over: str = "sum", unit: float = 1.0) -> Family:
    return Family(f"hedgerow_{name}", Kind.GAUGE, labels, text, unit, over)


def _histogram(name: str, labels: Labels, text: str, bounds: tuple[float, ...]) -> Family:
    return Family(f"hedgerow_{name}", Kind.HISTOGRAM, labels, text, bounds=bounds)


_COUNTED: Iterable[Family] = (
    _counter("requests", ("route", "protocol", "outcome", "status"), "Requests that are over"),
    _histogram("request_duration_seconds", _SIDES, "From a request's arrival to the end of its answer", WHOLE),
    _histogram("first_token_seconds", _SIDES, "From a request's arrival to its first token", LATENCY),
    _histogram(
        "unhedged_first_token_seconds",
        ("route", "stream"),
        "What the first token would have taken without hedging: measured where the first attempt won, else estimated",
        LATENCY,
    ),
    _counter("saved_seconds", ("route",), "Estimated waiting for first tokens that hedges have saved"),
    _counter("hedges_launched", ("route",), "Hedges and racers that were launched, of requests that are over"),
    _counter("hedges_won", ("route",), "Hedges and racers that won"),
    _counter("hedged_requests", ("route",), "Requests of which a hedge or racer was launched"),
    _counter("hedges_suppressed", ("route", "role", "reason"), "Further attempts that were due and not launched"),
    _counter("attempts", ("target", "role", "outcome"), "Attempts that are over"),
    _counter("attempt_failures", ("target", "class"), "Attempts that failed, by the class of failure"),
    _histogram(
        "attempt_sent_seconds", ("target",), "From an attempt's launch to its request's last byte written", SENDING
    ),
    _histogram("attempt_headers_seconds", ("target",), "From an attempt's launch to the head of its answer", LATENCY),
    _histogram("attempt_first_token_seconds", ("target",), "From an attempt's launch to its first token", LATENCY),
    _counter("tokens", ("target", "kind", "source"), "Tokens of attempts; source says how they are known"),
    _counter("cost_dollars", ("route", "target", "role", "certainty"), "What attempts cost", NANO),
    _counter("extra_cost_dollars", ("route", "target", "outcome"), "Of it what hedging added: those that lost", NANO),
    _counter("unpriced_attempts", ("target",), "Attempts whose cost is not known, as their target has no price"),
    _counter("answers_rejected", ("route", "target", "gate"), "Answers that a gate rejected"),
    _counter("answers_not_judged", ("route",), "Answers that a gate could not judge, and let pass"),
    _counter("answers_rescued", ("route",), "Answers that broke off and that another attempt went on with"),
    _counter("requests_repeated", ("route",), "Requests answered with an earlier one's answer (Idempotency-Key)"),
    _counter("target_taken_out", ("target", "class"), "Times that a target was taken out"),
    _counter("breaker_opened", ("target",), "Times that a breaker of the target opened"),
    _counter("target_cancel_failures", ("target",), "Times that a target was found to go on with what is cancelled"),
    _counter("controls_changed", (), "Changes that operators made while the gateway ran"),
    _histogram(
        "overhead_seconds", (), "From a whole request to its first attempt written, or given to a connection", OVERHEAD
    ),
    _histogram("loop_lag_seconds", (), "How late a timer fires that is due every second: what waits for the CPU", LAG),
)

_ASKED: Iterable[Family] = (
    _gauge("build_info", ("version", "python"), "Always 1", "max"),
    _gauge("processes", (), "Gateway processes in these numbers"),
    _gauge("requests_in_flight", ("route",), "Requests being answered"),
    _gauge("attempts_open", ("target",), "Attempts under way, of requests in flight"),
    _gauge("draining", (), "Processes that take no more requests"),
    _gauge("kill_switch", ("route",), "1 where hedging is switched off", "max"),
    _gauge("hedging_throttled", ("route",), "Processes whose outage guard holds the hedges of the route back"),
    _gauge(
        "hedge_delay_seconds",
        ("route", "primary", "backup", "stream", "prompt_tokens"),
        "How long a first attempt runs alone, for requests of about so many tokens",
        "max",
    ),
    _gauge("budget_balance", ("scope", "route", "kind"), "Attempts that the budget allows at once"),
    _gauge("budget_burst", ("scope", "route", "kind"), "The most that its balance can be"),
    _gauge("budget_spent_dollars", ("scope", "route", "window"), "Spent on further attempts", unit=NANO),
    _gauge("budget_limit_dollars", ("scope", "route", "window"), "What may be", unit=NANO),
    _gauge("breakers", ("target", "state"), "Breakers of the target (of every model and process) in this state"),
    _gauge("target_out", ("target",), "Processes in which the target is out, with all of its keys"),
    _gauge("target_cancel_fails", ("target",), "1 where a target is known to go on with what is cancelled", "max"),
    _gauge("quota_remaining", ("target", "key", "kind"), "What should be left of an upstream's rate limit", "min"),
    _gauge("quota_limit", ("target", "key", "kind"), "That limit", "max"),
    _gauge("quota_limited_seconds", ("target", "key"), "How long a key still counts as rate limited", "max"),
    _gauge("pool_connections", ("target", "state"), "Connections to the target"),
    _gauge("pool_waiting", ("target",), "Attempts without a connection yet"),
    _gauge("alternatives_bytes", (), "What is kept of losers' answers, about"),
    _gauge("replay_bytes", (), "Answers kept to be given again"),
    _counter("config_reloads", ("result",), "Reloads of the configuration"),
    _gauge("config_last_reload_successful", (), "0 after a faulty one", "min"),
    _gauge("config_last_reload_success_timestamp_seconds", (), "When the configuration in force was read", "min"),
    _gauge("events_queued", ("sink",), "Records of events that are yet to be written (to the event log, the ledger)"),
    _counter("events_written", ("sink",), "Records of events that were written"),
    _counter("events_lost", ("sink",), "Records of events that could not be written and are lost"),
)

FAMILIES: dict[str, Family] = {family.name: family for family in (*_COUNTED, *_ASKED)}


def add(series: dict[Labels, Value], labels: Labels, value: Value) -> None:
    """Add to what is there."""
    there = series.get(labels)
    if there is None:
        series[labels] = value
    elif isinstance(there, list) and isinstance(value, list):
        if len(there) == len(value):  # else another version of hedgerow wrote it
            series[labels] = [one + other for one, other in zip(there, value, strict=True)]
    elif not isinstance(there, list) and not isinstance(value, list):
        series[labels] = there + value


def merge(into: Samples, more: Samples, *, alive: bool = True) -> None:
    """Add the samples of another process; of a dead one only what is counted."""
    for name, found in more.items():
        family = FAMILIES.get(name)
        if family is None or (not alive and family.kind is Kind.GAUGE):
            continue
        series = into.setdefault(name, {})
        for labels, value in found.items():
            if family.over == "sum" or labels not in series:
                add(series, labels, value)
            elif isinstance(value, int | float) and isinstance((there := series[labels]), int | float):
                series[labels] = max(there, value) if family.over == "max" else min(there, value)
