"""What is on record (the gateway's events), against `expect.record`.

Our words are not those of the cases: superseded is `lost_cancelled`, timeout_first_token `timeout_ttft`, timeout_stall
`timeout_idle`. Keys that no event can tell yet are named in `waiting` and never come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.cases.case import AttemptExpected, Name, RecordExpected, UsageExpected, Window, given
from tests.cases.seen import Event, Run, StepSeen
from tests.cases.words import Difference, differs

CLASSES = {"timeout_first_token": "timeout_ttft", "timeout_stall": "timeout_idle"}
BLAMELESS_CLASSES = {"fatal_request", "content_policy"}
"""Failures that say something about the request, not about the target."""
BLAMELESS_OUTCOMES = {"won", "superseded", "client_gone"}
PINNING_CLASSES = {"upstream_auth", "upstream_missing_model", "quota_exhausted"}
"""What takes a target out until an operator has done something."""
LONGEST_OUT = 120.0
"""Seconds; a longer Retry-After is cut to this."""


def check_record(expected: RecordExpected, run: Run, step: StepSeen) -> Iterator[Difference]:
    """Everything that differs."""
    for key, value in given(expected).items():
        for difference in RECORD_CHECKS[key](value, run, step):
            yield difference.within(key)


def _attempts(expected: dict[Name, AttemptExpected], run: Run, _step: StepSeen) -> Iterator[Difference]:
    for name, wanted in expected.items():
        ended = run.attempt(name)
        if ended is None:
            yield Difference("an attempt", "none", name)
            continue
        for key, value in given(wanted).items():
            for difference in ATTEMPT_CHECKS[key](value, ended, run, name):
                yield difference.within(f"{name}.{key}")


def _error_class(expected: str | None, ended: Event, _run: Run, _name: Name) -> Iterator[Difference]:
    kind = ended["failure"] and ended["failure"]["kind"]
    yield from differs(expected, CLASSES.get(kind, kind))


def _http_status(expected: int | None, ended: Event, _run: Run, _name: Name) -> Iterator[Difference]:
    yield from differs(expected, ended["status"])


def _in_stream(expected: bool, ended: Event, _run: Run, _name: Name) -> Iterator[Difference]:
    failure, status = ended["failure"], ended["status"]
    told_inside = failure is not None and failure["status"] is not None and failure["status"] != status
    yield from differs(expected, told_inside and status is not None and status < 300)


def _requests_seen(expected: int, _ended: Event, run: Run, name: Name) -> Iterator[Difference]:
    yield from differs(expected, len(run.seen[name]))


def _usage(expected: UsageExpected, ended: Event, _run: Run, _name: Name) -> Iterator[Difference]:
    usage = ended["usage"]
    if usage is None:
        yield Difference(given(expected), "none")
        return
    came = {"input": usage["input_tokens"], "output": usage["output_tokens"], "source": usage["source"]}
    for key, value in given(expected).items():
        what, _, least = key.partition("_")
        if not least:
            yield from differs(value, came[what], key)
        elif came[what] is None or came[what] < value:
            yield Difference(value, came[what], key)


ATTEMPT_CHECKS: Mapping[str, Callable[[Any, Event, Run, Name], Iterator[Difference]]] = {
    "error_class": _error_class,
    "http_status": _http_status,
    "in_stream": _in_stream,
    "requests_seen": _requests_seen,
    "usage": _usage,
}


def _request_status(expected: str, run: Run, _step: StepSeen) -> Iterator[Difference]:
    finished = run.one("request_finished")
    words = {"won": "ok", "failed": "error", "failed_after_commit": "error", "client_gone": "client_gone"}
    yield from differs(expected, finished and words[finished["outcome"]])


def _hedge_skipped(expected: str | None, run: Run, _step: StepSeen) -> Iterator[Difference]:
    skipped = run.one("hedge_skipped")
    came = skipped and ("endpoint" if skipped["detail"] == "endpoint" else skipped["reason"])
    yield from differs(expected, came)


def _hedge_won(expected: bool, run: Run, _step: StepSeen) -> Iterator[Difference]:
    won = [event for event in run.of_kind("attempt_ended") if event["outcome"] == "won"]
    yield from differs(expected, any(event["role"] == "hedge" for event in won))


def _breaker(expected: dict[str, str], run: Run, step: StepSeen) -> Iterator[Difference]:
    ended = {event["target"]: event for event in run.of_kind("attempt_ended")}
    for name, effect in expected.items():
        losers = [target for target, event in ended.items() if event["outcome"] == "superseded"]
        for target in losers if name == "loser" else [name]:
            yield from differs(effect, effect_on_health(ended.get(target), step.taken_out), name)
        if name == "loser" and not losers:
            yield Difference(effect, "nobody lost", name)


def effect_on_health(ended: Event | None, taken_out: list[Event]) -> str:
    """What an attempt's end did to the standing of its target.

    Out for what only an operator can mend is `pinned`; `ignored` is an end that says nothing about the target and did
    not take it out.
    """
    if ended is None:
        return "no attempt"
    kinds = {event["kind"] for event in taken_out if event["target"] == ended["target"]}
    if kinds:
        return "pinned" if kinds <= PINNING_CLASSES else "out for a while"
    failure = ended["failure"]
    blameless = ended["outcome"] in BLAMELESS_OUTCOMES if failure is None else failure["kind"] in BLAMELESS_CLASSES
    return "ignored" if blameless else "not ignored"


def _cooldown_ms(expected: dict[Name, Window], _run: Run, step: StepSeen) -> Iterator[Difference]:
    for name, (least, most) in expected.items():
        came = [round((event["until"] - event["at"]) * 1000) for event in step.taken_out if event["target"] == name]
        if not came or not all(least <= one <= most for one in came):
            yield Difference([least, most], came, name)


def _cooldown_capped(expected: bool, _run: Run, step: StepSeen) -> Iterator[Difference]:
    limited = [event for event in step.taken_out if event["kind"] == "rate_limited"]
    capped = [round(event["until"] - event["at"], 3) == LONGEST_OUT for event in limited]
    yield from differs(expected, bool(capped) and all(capped))


def _latency_sample(expected: dict[Name, bool], run: Run, _step: StepSeen) -> Iterator[Difference]:
    """A listener can learn a time to first token from an attempt that had one."""
    for name, wanted in expected.items():
        ended = run.attempt(name)
        yield from differs(wanted, ended and ended["first_token_at"] is not None, name)


def _failures(expected: dict[Name, int], _run: Run, step: StepSeen) -> Iterator[Difference]:
    """Attempts of the case so far that failed at the target."""
    for name, count in expected.items():
        ended = [event for run in step.so_far for event in run.of_kind("attempt_ended") if event["target"] == name]
        failed = [event for event in ended if event["failure"] and event["failure"]["kind"] not in BLAMELESS_CLASSES]
        yield from differs(count, len(failed), name)


def _transparent_retries(expected: int, run: Run, _step: StepSeen) -> Iterator[Difference]:
    """Requests that the upstreams saw beyond one for each attempt."""
    yield from differs(expected, sum(map(len, run.seen.values())) - len(run.of_kind("attempt_launched")))


def _hedges_denied_by_budget(expected: int, run: Run, step: StepSeen) -> Iterator[Difference]:
    """Of the whole step."""
    if run is step.runs[-1]:
        skipped = [event for each in step.runs for event in each.of_kind("hedge_skipped")]
        yield from differs(expected, sum(event["reason"] == "budget" for event in skipped))


RECORD_CHECKS: Mapping[str, Callable[[Any, Run, StepSeen], Iterator[Difference]]] = {
    "attempts": _attempts,
    "request_status": _request_status,
    "hedge_skipped": _hedge_skipped,
    "hedge_won": _hedge_won,
    "breaker": _breaker,
    "cooldown_ms": _cooldown_ms,
    "cooldown_capped": _cooldown_capped,
    "latency_sample": _latency_sample,
    "failures": _failures,
    "transparent_retries": _transparent_retries,
    "hedges_denied_by_budget": _hedges_denied_by_budget,
}
