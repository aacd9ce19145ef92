"""Compares what was seen of a run with what its case expects: every key of `expect` has its check."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.cases.case import (
    NAMES,
    Expected,
    Name,
    UpstreamRequestExpected,
    Window,
    given,
)
from tests.cases.check_client import check_client
from tests.cases.record import check_record
from tests.cases.seen import Run, StepSeen
from tests.cases.words import Difference, differs

GRAIN = 2.0
"""Milliseconds by which two clocks may disagree; the gateway's goes in whole ones."""
SLACK = 150.0
"""Milliseconds for which the runner itself may look away: what it sees from outside may be that much later than what
the gateway's own clock says."""

OUTCOMES = {
    "won": "won",
    "superseded": "lost_cancelled",
    "failed": "failed",
    "failed_after_commit": "failed_after_commit",
    "client_gone": "client_gone",
}
"""From our words to those of the cases."""


def check(expected: Expected, step: StepSeen) -> Iterator[Difference]:
    """Everything that differs, of all runs of a step."""
    for number, run in enumerate(step.runs, 1):
        for key, value in given(expected).items():
            for difference in CHECKS[key](value, run, step):
                yield difference.within(key).of_run(number if len(step.runs) > 1 else None)


Check = Callable[[Any, Run, StepSeen], Iterator[Difference]]


def _winner(expected: str | None, run: Run, _step: StepSeen) -> Iterator[Difference]:
    if expected == "any":
        return
    yield from differs(expected, run.winner)
    told = run.got.headers.get("x-hedgerow-target")
    if run.winner is not None and told is not None and told != run.winner:
        yield Difference(f"the client told {run.winner}", told)


def _contacted(expected: list[Name], run: Run, _step: StepSeen) -> Iterator[Difference]:
    yield from differs(expected, run.contacted)
    for name in NAMES:
        launched = run.launched(name)
        if run.seen[name] and not launched:
            yield Difference(f"no request at {name} without an attempt", f"{len(run.seen[name])} requests")
        arrived = [event for event in run.of_kind("attempt_ended") if event["target"] == name and event["status"]]
        if arrived and not run.seen[name]:
            yield Difference(f"a request at {name}", "none")


def _contacted_counts(expected: dict[str, int], run: Run, step: StepSeen) -> Iterator[Difference]:
    if run is not step.runs[-1]:
        return
    for key, count in expected.items():
        name, _, bound = key.partition("_")
        came = sum(len(each.seen[name]) for each in step.runs if name in NAMES)
        right = {"": came == count, "max": came <= count, "min": came >= count}.get(bound)
        if name not in NAMES or right is None:
            yield Difference("a key that the runner knows", key)
        elif not right:
            yield Difference(count, came, key)


def _backup_start_ms(window: Window, run: Run, _step: StepSeen) -> Iterator[Difference]:
    started, launched = run.one("request_started"), run.launched("backup")
    if started is None or not launched:
        yield Difference(window, "no start")
        return
    yield from _in_window(window, (launched[0]["at"] - started["at"]) * 1000)
    if run.seen["backup"]:
        yield from _seen_from_outside(window, run, run.seen["backup"][0].at, "at the backup")


def _first_token_ms(window: Window, run: Run, _step: StepSeen) -> Iterator[Difference]:
    finished = run.one("request_finished")
    if finished is None or finished["first_token_at"] is None or run.got.head_at is None:
        yield Difference(window, "no first token")
        return
    yield from _in_window(window, (finished["first_token_at"] - finished["started_at"]) * 1000)
    yield from _seen_from_outside(window, run, run.got.head_at, "at the client")


def _in_window(window: Window, came: float) -> Iterator[Difference]:
    if not window[0] <= round(came) <= window[1]:
        yield Difference(list(window), f"{came:.0f} ms")


def _seen_from_outside(window: Window, run: Run, at: float, where: str) -> Iterator[Difference]:
    """The gateway's own times are checked against the runner's clock, in case that it deceives itself."""
    at_most, at_least = (at - run.got.began_at) * 1000, run.ms(at)
    if at_most < window[0] - GRAIN or at_least > window[1] + SLACK:
        yield Difference(list(window), f"{at_least:.0f} to {at_most:.0f} ms {where}")


def _outcomes(expected: dict[Name, str], run: Run, step: StepSeen) -> Iterator[Difference]:
    """`failed` is right as well of a target that has failed so often that its breaker leaves it out.

    Who must have been asked is said by `contacted`.
    """
    for name, outcome in expected.items():
        ended = run.attempt(name)
        if ended is None:
            came = "launched, never ended" if run.launched(name) else "not_started"
            if outcome == "failed" and came == "not_started" and step.left_out(name, run):
                continue
        else:
            came = OUTCOMES[ended["outcome"]]
        yield from differs(outcome, came, name)


def _upstream_closed_by_ms(expected: dict[Name, float], run: Run, _step: StepSeen) -> Iterator[Difference]:
    for name, limit in expected.items():
        if not run.seen[name]:
            yield Difference(limit, "no request", name)
        for seen in run.seen[name]:
            if seen.closed_at is None:
                yield Difference(limit, "still open", name)
            elif run.ms(seen.closed_at) > limit:
                yield Difference(limit, f"{run.ms(seen.closed_at):.0f} ms", name)


def _upstream_request(expected: dict[Name, UpstreamRequestExpected], run: Run, _step: StepSeen) -> Iterator[Difference]:
    for name, wanted in expected.items():
        if not run.seen[name]:
            yield Difference("a request", "none", name)
        for seen in run.seen[name]:
            for key, value in given(wanted).items():
                for difference in _BODY_CHECKS[key](value, seen.body, run):
                    yield difference.within(f"{name}.{key}")


def _body_json_contains(wanted: Any, body: bytes, _run: Run) -> Iterator[Difference]:
    try:
        came = json.loads(body)
    except ValueError:
        came = "no JSON"
    if not _is_part(wanted, came):
        yield Difference(wanted, came)


def _is_part(wanted: Any, came: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(came, dict):
        return all(key in came and _is_part(value, came[key]) for key, value in wanted.items())
    return type(wanted) is type(came) and bool(wanted == came)


def _body_bytes_contain(wanted: list[str], body: bytes, _run: Run) -> Iterator[Difference]:
    for text in wanted:
        if text.encode() not in body:
            yield Difference(text, body[:200])


def _body_sha256_equals(other: Name, body: bytes, run: Run) -> Iterator[Difference]:
    sums = {hashlib.sha256(seen.body).hexdigest() for seen in run.seen[other]}
    if sums != {own := hashlib.sha256(body).hexdigest()}:
        yield Difference(f"that of {other} {sorted(sums)}", own)


_BODY_CHECKS: Mapping[str, Callable[[Any, bytes, Run], Iterator[Difference]]] = {
    "body_json_contains": _body_json_contains,
    "body_bytes_contain": _body_bytes_contain,
    "body_sha256_equals": _body_sha256_equals,
}


def _open_upstream_sockets_max(most: int, _run: Run, step: StepSeen) -> Iterator[Difference]:
    if step.open_sockets > most:
        yield Difference(most, step.open_sockets)


def _log_must_not_contain(texts: list[str], _run: Run, step: StepSeen) -> Iterator[Difference]:
    for text in texts:
        if text in step.log:
            yield Difference(f"no {text!r}", "it is there")


CHECKS: Mapping[str, Check] = {
    "winner": _winner,
    "contacted": _contacted,
    "contacted_counts": _contacted_counts,
    "backup_start_ms": _backup_start_ms,
    "first_token_ms": _first_token_ms,
    "outcomes": _outcomes,
    "client": lambda expected, run, _step: check_client(expected, run),
    "upstream_closed_by_ms": _upstream_closed_by_ms,
    "upstream_request": _upstream_request,
    "open_upstream_sockets_max": _open_upstream_sockets_max,
    "log_must_not_contain": _log_must_not_contain,
    "record": check_record,
}
