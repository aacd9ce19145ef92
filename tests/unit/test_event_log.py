"""Events as lines of JSON: what is written, when, and what a failing disk does."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    Arm,
    AttemptEnded,
    AttemptLaunched,
    Bill,
    BreakerChanged,
    BreakerState,
    CancelFailed,
    Certainty,
    ControlsChanged,
    DelayRuleChanged,
    Event,
    Failure,
    FailureClass,
    FirstToken,
    HedgeSkipped,
    HedgingThrottled,
    Outcome,
    Reason,
    RequestBilled,
    RequestFinished,
    RequestRepeated,
    RequestStarted,
    Role,
    TargetTakenOut,
    Usage,
)
from hedgerow.telemetry import event_log
from hedgerow.telemetry.event_log import EventLog, line

SECRET = "sk-the-key"
FAILURE = Failure(
    FailureClass.RATE_LIMITED, "HTTP 429", 429, [(b"x-secret", SECRET.encode())], SECRET.encode(), retry_after=7.0
)
ENDED = AttemptEnded("r1", 0, "a", Role.PRIMARY, Outcome.FAILED, 1.0, 1.5, None, 2.0, 429, 12, FAILURE)
TOLD = structs.replace(ENDED, input_tokens=9, model="fast-2", sent_at=1.2, finish_reason="stop", service_tier="flex")
WON: Event = AttemptEnded("r1", 1, "b", Role.HEDGE, Outcome.WON, 1.3, 1.5, 1.6, 2.0, 200, 12, None, Usage(3, 4, 1))
BILL = Bill(1, "b", Role.HEDGE, Outcome.WON, Usage(3, 4, 1), Certainty.EXACT, 70, 70, 70)
STARTED: Event = RequestStarted("r1", "fast", "openai.chat", True, 1.0, "fast-1", "0123456789abcdef", Arm.HOLDOUT)
EVERY_KIND: dict[type[Event], dict[str, Any]] = {
    RequestStarted: {
        "event": "request_started",
        "request_id": "r1",
        "route": "fast",
        "protocol": "openai.chat",
        "stream": True,
        "at": 1.0,
        "model": "fast-1",
        "tenant": "0123456789abcdef",
        "arm": "holdout",
    },
    AttemptLaunched: {
        "event": "attempt_launched",
        "request_id": "r1",
        "attempt": 1,
        "target": "b",
        "role": "hedge",
        "at": 1.3,
        "model": "fast-2",
    },
    HedgeSkipped: {
        "event": "hedge_skipped",
        "request_id": "r1",
        "route": "fast",
        "reason": "budget",
        "at": 1.3,
        "detail": "10 %",
        "role": "hedge",
    },
    FirstToken: {
        "event": "first_token",
        "request_id": "r1",
        "attempt": 1,
        "target": "b",
        "role": "hedge",
        "launched_at": 1.3,
        "at": 1.6,
        "stream": True,
        "input_tokens": 7,
    },
    AnswerRejected: {
        "event": "answer_rejected",
        "request_id": "r1",
        "route": "fast",
        "attempt": 1,
        "target": "b",
        "gate": "min_chars",
        "detail": "3 of 5 characters",
        "at": 1.6,
        "delivered": False,
    },
    AnswerNotJudged: {
        "event": "answer_not_judged",
        "request_id": "r1",
        "route": "fast",
        "attempt": 1,
        "target": "b",
        "why": "gate mine did not judge: KeyError",
        "at": 1.6,
    },
    AttemptEnded: {
        "event": "attempt_ended",
        "request_id": "r1",
        "attempt": 0,
        "target": "a",
        "role": "primary",
        "outcome": "failed",
        "launched_at": 1.0,
        "headers_at": 1.5,
        "first_token_at": None,
        "ended_at": 2.0,
        "status": 429,
        "received_bytes": 12,
        "failure": {"kind": "rate_limited", "message": "HTTP 429", "status": 429, "retry_after": 7.0},
        "usage": None,
        "stream": True,
        "input_tokens": 9,
        "model": "fast-2",
        "sent_at": 1.2,
        "finish_reason": "stop",
        "service_tier": "flex",
        "output_limit": None,
    },
    RequestFinished: {
        "event": "request_finished",
        "request_id": "r1",
        "route": "fast",
        "protocol": "openai.chat",
        "stream": True,
        "started_at": 1.0,
        "first_token_at": 1.6,
        "ended_at": 2.0,
        "status": 200,
        "winner": 1,
        "attempts": 2,
        "outcome": "won",
        "usage": {
            "input_tokens": 3,
            "output_tokens": 4,
            "cached_input_tokens": 1,
            "reasoning_tokens": None,
            "cache_write_tokens": None,
            "cache_write_1h_tokens": None,
            "source": "reported",
        },
        "gate": "min_chars",
        "arm": "hedged",
        "unhedged_at": 2.5,
        "hedges": [1],
    },
    RequestBilled: {
        "event": "request_billed",
        "request_id": "r1",
        "route": "fast",
        "at": 2.1,
        "bills": [
            {
                "attempt": 1,
                "target": "b",
                "role": "hedge",
                "outcome": "won",
                "usage": {
                    "input_tokens": 3,
                    "output_tokens": 4,
                    "cached_input_tokens": 1,
                    "reasoning_tokens": None,
                    "cache_write_tokens": None,
                    "cache_write_1h_tokens": None,
                    "source": "reported",
                },
                "certainty": "exact",
                "nanousd": 70,
                "least": 70,
                "most": 70,
            }
        ],
    },
    RequestRepeated: {
        "event": "request_repeated",
        "request_id": "r1",
        "route": "fast",
        "at": 2.0,
        "running": False,
    },
    AnswerRescued: {
        "event": "answer_rescued",
        "request_id": "r1",
        "route": "fast",
        "attempt": 2,
        "target": "b",
        "chars": 12,
        "at": 2.0,
    },
    TargetTakenOut: {
        "event": "target_taken_out",
        "target": "a",
        "kind": "rate_limited",
        "message": "HTTP 429",
        "at": 2.0,
        "until": 9.0,
        "key": 2,
    },
    BreakerChanged: {
        "event": "breaker_changed",
        "target": "a",
        "model": "",
        "state": "open",
        "why": "5 failures in a row",
        "at": 2.0,
        "until": 32.0,
    },
    DelayRuleChanged: {
        "event": "delay_rule_changed",
        "route": "fast",
        "target": "a",
        "stream": True,
        "straggles": True,
        "detail": "p95 is 30 s",
        "at": 2.0,
    },
    HedgingThrottled: {
        "event": "hedging_throttled",
        "route": "fast",
        "throttled": True,
        "detail": "too many requests are late or fail: 9 of 20 tokens left",
        "at": 2.0,
    },
    CancelFailed: {
        "event": "cancel_failed",
        "target": "a",
        "fails": True,
        "detail": "whole: it went on for 400 tokens",
        "action": "warn",
        "at": 2.0,
    },
    ControlsChanged: {
        "event": "controls_changed",
        "at": 2.0,
        "route": "fast",
        "changes": {"kill_switch": True, "rollout": 0.25, "delay": "p95", "budget": None},
        "by": "token 1a2b3c4d",
    },
}
EVENTS: list[Event] = [
    STARTED,
    AttemptLaunched("r1", 1, "b", Role.HEDGE, 1.3, "fast-2"),
    HedgeSkipped("r1", "fast", Reason.BUDGET, 1.3, "10 %"),
    FirstToken("r1", 1, "b", Role.HEDGE, 1.3, 1.6, True, 7),
    AnswerRejected("r1", "fast", 1, "b", "min_chars", "3 of 5 characters", 1.6, delivered=False),
    AnswerNotJudged("r1", "fast", 1, "b", "gate mine did not judge: KeyError", 1.6),
    TOLD,
    RequestFinished(
        "r1",
        "fast",
        "openai.chat",
        True,
        1.0,
        1.6,
        2.0,
        200,
        1,
        2,
        Outcome.WON,
        Usage(3, 4, 1),
        "min_chars",
        Arm.HEDGED,
        2.5,
        (1,),
    ),
    RequestBilled("r1", "fast", 2.1, (BILL,)),
    RequestRepeated("r1", "fast", 2.0, False),
    AnswerRescued("r1", "fast", 2, "b", 12, 2.0),
    TargetTakenOut("a", FailureClass.RATE_LIMITED, "HTTP 429", 2.0, 9.0, 2),
    BreakerChanged("a", "", BreakerState.OPEN, "5 failures in a row", 2.0, 32.0),
    DelayRuleChanged("fast", "a", True, True, "p95 is 30 s", 2.0),
    HedgingThrottled("fast", True, "too many requests are late or fail: 9 of 20 tokens left", 2.0),
    CancelFailed("a", True, "whole: it went on for 400 tokens", "warn", 2.0),
    ControlsChanged(
        2.0, "fast", {"kill_switch": True, "rollout": 0.25, "delay": "p95", "budget": None}, "token 1a2b3c4d"
    ),
]


class Clock:
    """Stands for the loop: what was to be called later, and when."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((seconds, call))

    def ring(self) -> None:
        """The time has come."""
        due, self.due = self.due, []
        for _, call in due:
            call()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in path.read_text().splitlines()]


def decoded(*events: Event) -> list[dict[str, Any]]:
    return [json.loads(line(event)) for event in events]


def test_the_examples_are_of_every_kind() -> None:
    assert [type(event) for event in EVENTS] == list(EVERY_KIND) == list(get_args(Event))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_line_holds_the_fields_of_its_event_and_says_its_kind_first(event: Event) -> None:
    written = json.loads(line(event, 1_700_000_000.0))
    assert list(written)[:2] == ["event", "time"]
    told = EVERY_KIND[type(event)]
    assert written.pop("time") == 1_700_000_000.0 + (told["ended_at"] if "ended_at" in told else told["at"])
    assert written == told
    assert line(event).count(b"\n") == 1


def test_of_a_failure_neither_header_nor_body_is_written() -> None:
    assert SECRET.encode() in msgspec.msgpack.encode(ENDED)
    assert SECRET.encode() not in line(ENDED)
    assert set(json.loads(line(ENDED))["failure"]) == {"kind", "message", "status", "retry_after"}


def test_lines_wait_for_their_batch(path: Path, clock: Clock) -> None:
    events = EventLog(str(path), later=clock.later)
    for event in EVENTS:
        events(event)
    assert path.read_bytes() == b""
    assert [seconds for seconds, _ in clock.due] == [0.1]
    clock.ring()
    assert path.read_bytes() == b"".join(line(event) for event in EVENTS)
    assert clock.due == []
    events(STARTED)
    assert len(clock.due) == 1
    events.close()


def test_closing_writes_what_is_left(path: Path, clock: Clock) -> None:
    events = EventLog(str(path), later=clock.later)
    events(STARTED)
    events.close()
    assert path.read_bytes() == line(STARTED)
    clock.ring()
    events(STARTED)
    events.close()
    assert clock.due == []
    assert path.read_bytes() == line(STARTED)


def test_the_file_is_its_owners_and_is_added_to(path: Path, clock: Clock) -> None:
    mask = os.umask(0)
    try:
        EventLog(str(path), later=clock.later).close()
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("before\n")
    events = EventLog(str(path), later=clock.later)
    events(STARTED)
    events.close()
    assert path.read_bytes() == b"before\n" + line(STARTED)


def test_a_file_that_cannot_be_opened_is_an_error_at_start(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(FileNotFoundError):
        EventLog(str(tmp_path / "missing" / "events.jsonl"), later=clock.later)


def test_two_logs_share_a_file_line_by_line(path: Path, clock: Clock) -> None:
    one, other = EventLog(str(path), later=clock.later), EventLog(str(path), later=clock.later)
    for _ in range(50):
        one(STARTED)
        other(WON)
        clock.ring()
    one.close()
    other.close()
    assert lines(path) == decoded(*[STARTED, WON] * 50)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel takes no more bytes than this into any file of ours, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_said_once_and_tears_no_line(path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    events = EventLog(str(path), later=clock.later)
    room = len(line(STARTED)) + 10
    with files_of_at_most(room):
        for _ in range(5):
            events(STARTED)
            clock.ring()
        assert path.stat().st_size == room
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert str(path) in caplog.text
    caplog.clear()
    events(WON)
    clock.ring()
    assert lines(path) == decoded(*[STARTED] * 5, WON)
    assert caplog.messages == [f"event log {path}: written to again; 0 lines were lost"]
    events.close()


def test_what_a_full_disk_may_keep_in_memory_is_bounded(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(line(STARTED))
    monkeypatch.setattr(event_log, "KEPT_BYTES", 3 * size)
    events = EventLog(str(path), later=clock.later)
    with files_of_at_most(size + 10):  # one line and a part of the second
        for _ in range(9):
            events(STARTED)
            clock.ring()
    events(WON)
    clock.ring()
    events.close()
    # The torn second line was mended; the third to the fifth and the sixth to the eighth had to go, the ninth did not.
    assert lines(path) == decoded(*[STARTED] * 3, WON)
    assert caplog.messages[-1] == f"event log {path}: written to again; 6 lines were lost"
