"""What is on record (the gateway's events), against `expect.record`.

Our words are not those of the cases: superseded is `lost_cancelled`, timeout_first_token `timeout_ttft`, timeout_stall
`timeout_idle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hedgerow.events import Failure, FailureClass, Outcome
from hedgerow.policy.failures import blames_target
from hedgerow.policy.latency.samples import sample_of
from tests.cases.case import AttemptExpected, Name, RecordExpected, UsageExpected, Window, given
from tests.cases.seen import Event, Run, StepSeen
from tests.cases.words import Difference, differs

CLASSES = {"timeout_first_token": "timeout_ttft", "timeout_stall": "timeout_idle"}
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


def _billed(expected: str, ended: Event, run: Run, _name: Name) -> Iterator[Difference]:
    yield from differs(expected, billed(ended, _bills(run)[ended["attempt"]]))


def _bills(run: Run) -> dict[int, Event]:
    """What each attempt came to."""
    told = run.one("request_billed")
    return {} if told is None else {bill["attempt"]: bill for bill in told["bills"]}


def billed(ended: Event, bill: Event) -> str:
    """Whether its provider bills an attempt: what it came to for certain, and at least, says so.

    Of an error status, which costs nothing elsewhere, that it is guessed to cost something says that it does.
    """
    if bill["certainty"] == "exact":
        return "yes" if bill["nanousd"] else "no"
    if bill["least"]:
        return "likely"
    return "yes" if bill["nanousd"] and (ended["status"] or 0) >= 400 else "unknown"


ATTEMPT_CHECKS: Mapping[str, Callable[[Any, Event, Run, Name], Iterator[Difference]]] = {
    "billed": _billed,
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
    skipped = next(iter(skipped_hedges(run)[::-1]), None)
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
            if run is step.runs[-1]:
                yield from _as_counted(target, name, step)
        if name == "loser" and not losers:
            yield Difference(effect, "nobody lost", name)


def _as_counted(target: str, name: str, step: StepSeen) -> Iterator[Difference]:
    """The gateway's breaker itself must have counted what, by the events, it should count."""
    ended = [event for run in step.runs for event in run.of_kind("attempt_ended") if event["target"] == target]
    counted, blamed = step.counted(target), sum(map(blames, ended))
    if counted is not None and counted != blamed:
        yield Difference(f"{blamed} counted by the breaker of {target}", counted, name)


def blames(ended: Event) -> bool:
    """Whether an attempt's end says that its target is unwell."""
    failure = ended["failure"]
    if failure is None:
        return False
    # No body is written down; but an answer is `empty` only when it is whole.
    kind, body = FailureClass(failure["kind"]), b"" if failure["kind"] == "empty" else None
    return blames_target(Failure(kind, "", failure["status"], body=body, retry_after=failure["retry_after"]))


def effect_on_health(ended: Event | None, taken_out: list[Event]) -> str:
    """What an attempt's end did to the standing of its target.

    Out for what only an operator can mend is `pinned`; `ignored` is an end that says nothing about the target and did
    not take it out; the others `counts`, for its breaker.
    """
    if ended is None:
        return "no attempt"
    kinds = {event["kind"] for event in taken_out if event["target"] == ended["target"]}
    if kinds:
        return "pinned" if kinds <= PINNING_CLASSES else "out for a while"
    return "counts" if blames(ended) else "ignored"


def _breaker_state(expected: dict[Name, str], run: Run, step: StepSeen) -> Iterator[Difference]:
    """Of the target's breaker for the model that was asked for: as the gateway shows it, and as it was told of."""
    if run is not step.runs[-1]:
        return
    started = run.one("request_started")
    model = str(started and started["model"])
    for name, state in expected.items():
        shown = step.breakers.get((name, model), {"state": "closed"})["state"]
        told = [event["state"] for event in step.changes(name, run)] or ["closed"]
        yield from differs(state, shown, name)
        yield from differs(state, told[-1], name)


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
    """Whether the attempt says how long the target's first token takes: a time, or at least a time."""
    for name, wanted in expected.items():
        ended = run.attempt(name)
        yield from differs(wanted, ended and is_sample(ended), name)


def is_sample(ended: Event) -> bool:
    """Whether an attempt's end is a latency, or a part of one."""
    kind = ended["failure"] and FailureClass(ended["failure"]["kind"])
    times = ended["first_token_at"], ended["launched_at"], ended["ended_at"]
    return sample_of(Outcome(ended["outcome"]), kind, *times) is not None


def _failures(expected: dict[Name, int], _run: Run, step: StepSeen) -> Iterator[Difference]:
    """Attempts of the case so far that failed at the target."""
    for name, count in expected.items():
        ended = [event for run in step.so_far for event in run.of_kind("attempt_ended") if event["target"] == name]
        yield from differs(count, sum(map(blames, ended)), name)


def _transparent_retries(expected: int, run: Run, _step: StepSeen) -> Iterator[Difference]:
    """Requests that the upstreams saw beyond one for each attempt."""
    yield from differs(expected, sum(map(len, run.seen.values())) - len(run.of_kind("attempt_launched")))


def _cost_is_lower_bound(expected: bool, run: Run, _step: StepSeen) -> Iterator[Difference]:
    """Whether the invoice may say more than the sum of what its attempts are taken to have come to."""
    bills = _bills(run).values()
    more = [bill["most"] is None or bill["most"] > bill["nanousd"] for bill in bills]
    yield from differs(expected, bool(more) and any(more))


def _denied(reason: str) -> Callable[[int, Run, StepSeen], Iterator[Difference]]:
    """A check of how many hedges of the whole step did not start for this reason."""

    def check(expected: int, run: Run, step: StepSeen) -> Iterator[Difference]:
        if run is step.runs[-1]:
            skipped = [event for each in step.runs for event in skipped_hedges(each)]
            yield from differs(expected, sum(event["reason"] == reason for event in skipped))

    return check


def skipped_hedges(run: Run) -> list[Event]:
    """Hedges whose time had come and that were not launched."""
    return [event for event in run.of_kind("hedge_skipped") if event["role"] == "hedge"]


RECORD_CHECKS: Mapping[str, Callable[[Any, Run, StepSeen], Iterator[Difference]]] = {
    "attempts": _attempts,
    "request_status": _request_status,
    "hedge_skipped": _hedge_skipped,
    "hedge_won": _hedge_won,
    "breaker": _breaker,
    "breaker_state": _breaker_state,
    "cooldown_ms": _cooldown_ms,
    "cooldown_capped": _cooldown_capped,
    "latency_sample": _latency_sample,
    "failures": _failures,
    "transparent_retries": _transparent_retries,
    "cost_is_lower_bound": _cost_is_lower_bound,
    "hedges_denied_by_budget": _denied("budget"),
    "hedges_denied_by_throttle": _denied("outage"),
}
