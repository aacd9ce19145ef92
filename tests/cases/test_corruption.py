"""The runner notices: every key of every case is made wrong, and the difference names it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases.__main__ import main
from tests.cases.case import (
    NAMES,
    AttemptExpected,
    Case,
    ClientExpected,
    ErrorExpected,
    Expected,
    RecordExpected,
    UpstreamRequestExpected,
    UsageExpected,
)
from tests.cases.check import CHECKS, check
from tests.cases.check_client import CLIENT_CHECKS
from tests.cases.conftest import CASES
from tests.cases.corrupt import corruptions
from tests.cases.files import FaultyCase, decode
from tests.cases.record import ATTEMPT_CHECKS, RECORD_CHECKS
from tests.cases.run import Result

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # the first test runs all cases

OPEN = Path(__file__).parent / "open"
ADDED: Mapping[str, dict[str, Any]] = {
    "ft-role-only-chunk": {
        "contacted_counts": {"primary": 1, "backup_max": 1, "backup_min": 1},
        "log_must_not_contain": ["Name two colours"],
        "client": {"order": ["B-one", "B-two", "[DONE]"], "header_contains": {"content-type": "event-stream"}},
        "record": {"hedge_won": True, "latency_sample": {"primary": True, "backup": True}},
    },
    "ft-usage-in-every-chunk": {"record": {"attempts": {"primary": {"usage": {"input_min": 1, "output_min": 1}}}}},
    "st-429-retry-after-seconds": {"record": {"cooldown_capped": False}},
}
"""Keys that no case has which is run: expectations that are right, added to a case's own."""


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = copy.deepcopy(one)
    for key, value in other.items():
        both[key] = merged(both[key], value) if isinstance(value, dict) and key in both else value
    return both


def expectations(result: Result) -> list[tuple[Expected, Any]]:
    """What is expected of each step (of the last one with what is added), and what was seen."""
    steps = list(result.steps)
    if added := ADDED.get(result.case.id):
        expected, seen = steps[-1]
        steps[-1] = msgspec.convert(merged(msgspec.to_builtins(expected), added), Expected), seen
    return steps


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_corrupted_key_is_noticed(case: Case, results: Mapping[str, Result]) -> None:
    result = results[case.id]
    if result.differences:
        pytest.skip("the case itself is not right")
    for expected, seen in expectations(result):
        assert list(map(str, check(expected, seen))) == []
        for path, wrong in corruptions(expected, seen):
            found = list(check(wrong, seen))
            assert any(f"{difference.where}.".startswith(f"{path}.") for difference in found), path
            assert all(path in str(difference) for difference in found if difference.where.startswith(path))


KINDS: dict[str, type[msgspec.Struct]] = {
    "": Expected,
    "client.": ClientExpected,
    "client.error.": ErrorExpected,
    "upstream_request.": UpstreamRequestExpected,
    "record.": RecordExpected,
    "record.attempts.": AttemptExpected,
    "record.attempts.usage.": UsageExpected,
}
NOT_ALONE = {"client", "upstream_request", "record", "record.attempts", "record.attempts.usage"}
"""Keys that hold keys."""
BY_HAND = {"upstream_request.body_sha256_equals"}


def test_every_key_of_the_schema_is_corrupted_somewhere(results: Mapping[str, Result]) -> None:
    corrupted = set()
    for result in results.values():
        for expected, seen in expectations(result) if not result.differences else ():
            corrupted |= {re.sub(r"\.(primary|backup)\b", "", path) for path, _ in corruptions(expected, seen)}
    keys = {prefix + key for prefix, part in KINDS.items() for key in part.__struct_fields__} - NOT_ALONE - BY_HAND
    missing = {key for key in keys if not any(path == key or path.startswith(f"{key}.") for path in corrupted)}
    assert missing == set()


def test_every_key_has_a_check() -> None:
    assert set(CHECKS) == set(Expected.__struct_fields__)
    assert set(CLIENT_CHECKS) == set(ClientExpected.__struct_fields__)
    assert set(RECORD_CHECKS) == set(RecordExpected.__struct_fields__)
    assert set(ATTEMPT_CHECKS) == set(AttemptExpected.__struct_fields__)


def test_a_body_that_differs_between_upstreams_is_noticed(results: Mapping[str, Result]) -> None:
    ((expected, seen),) = results["fi-twelve-megabyte-body"].steps
    changed = copy.deepcopy(seen)
    changed.runs[0].seen["primary"][0].body += b" "
    (difference,) = check(expected, changed)
    assert difference.where == "upstream_request.backup.body_sha256_equals"


def test_a_request_that_no_event_tells_of_is_noticed(results: Mapping[str, Result]) -> None:
    ((expected, seen),) = results["st-529-overloaded"].steps
    changed = copy.deepcopy(seen)
    changed.runs[0].events = [event for event in changed.runs[0].events if event.get("target") != "backup"]
    assert {difference.where for difference in check(expected, changed)} >= {"contacted", "outcomes.backup"}


def test_a_breaker_that_is_in_another_state_than_the_events_tell_is_noticed(results: Mapping[str, Result]) -> None:
    expected, seen = results["he-breaker-per-model"].steps[0]
    open_now = msgspec.convert({"record": {"breaker_state": {"primary": "open"}}}, Expected)
    assert list(check(open_now, seen)) == []
    changed = copy.deepcopy(seen)
    changed.breakers["primary", "a"]["state"] = "closed"
    assert [difference.came for difference in check(open_now, changed)] == ["closed"]
    changed = copy.deepcopy(seen)
    changed.changed = []
    assert [difference.came for difference in check(open_now, changed)] == ["closed"]
    left_out = [(difference.run, difference.where) for difference in check(expected, changed)]
    assert left_out == [(4, "outcomes.primary"), (5, "outcomes.primary")]


@pytest.mark.parametrize(
    ("case", "target", "key"),
    [
        ("er-error-frame-must-not-win-race", "backup", "backup"),
        ("st-400-context-length", "primary", "primary"),
        ("cx-same-tick-winners", "", "loser"),
    ],
)
def test_a_breaker_that_counts_otherwise_is_noticed(
    results: Mapping[str, Result], case: str, target: str, key: str
) -> None:
    ((expected, seen),) = results[case].steps
    changed = copy.deepcopy(seen)
    target = target or next(name for name in NAMES if name != seen.runs[0].winner)
    breaker = changed.breakers.setdefault((target, "fast"), {"failures": 0})
    breaker["failures"] += 1
    assert [difference.where for difference in check(expected, changed)] == [f"record.breaker.{key}"]


def test_a_failover_that_was_refused_is_no_hedge(results: Mapping[str, Result]) -> None:
    ((expected, seen),) = results["co-budget-race"].steps
    changed = copy.deepcopy(seen)
    skipped = next(event for run in changed.runs for event in run.of_kind("hedge_skipped"))
    skipped["role"] = "failover"
    (difference,) = check(expected, changed)
    assert difference.where == "record.hedges_denied_by_budget"


@pytest.mark.parametrize("end", ["cut", "frame"])
def test_an_answer_that_breaks_off_is_noticed(results: Mapping[str, Result], end: str) -> None:
    ((expected, seen),) = results["ft-role-only-chunk"].steps
    changed = copy.deepcopy(seen)
    run = changed.runs[0]
    if end == "cut":
        run.got.whole = False
    else:
        ((_, broken),) = results["en-stall-after-first-token"].steps
        run.answer.error = broken.runs[0].answer.error
    assert [difference.where for difference in check(expected, changed)] == ["client.error"]


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("policy",),
        ("sources", 0),
        ("steps", 0),
        ("steps", 0, "request"),
        ("steps", 0, "upstreams", "primary"),
        ("steps", 0, "expect"),
        ("steps", 0, "expect", "client"),
        ("steps", 0, "expect", "client", "error"),
        ("steps", 0, "expect", "record"),
        ("steps", 0, "expect", "record", "attempts", "primary"),
    ],
    ids=lambda path: ".".join(map(str, path)) or "case",
)
def test_an_unknown_key_is_an_error_wherever_it_is(path: tuple[Any, ...]) -> None:
    case = json.loads((OPEN / "st-400-content-filter.json").read_bytes())
    assert decode(json.dumps(case).encode()).id == "st-400-content-filter"
    place = case
    for key in path:
        place = place[key]
    place["surprise"] = 1
    with pytest.raises(FaultyCase, match="surprise"):
        decode(json.dumps(case).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [("outcomes", {"third": "won"}), ("outcomes", {"primary": "lost"}), ("contacted", ["third"]), ("winner", "third")],
    ids=str,
)
def test_an_unknown_word_is_an_error(key: str, value: Any) -> None:
    case = json.loads((OPEN / "st-400-content-filter.json").read_bytes())
    case["steps"][0]["expect"][key] = value
    with pytest.raises(FaultyCase):
        decode(json.dumps(case).encode())


def test_the_command_says_what_differs_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("st-529-overloaded", "st-413-from-nginx", "he-breaker-per-model"):
        case = json.loads((OPEN / f"{name}.json").read_bytes())
        if name == "st-529-overloaded":
            case["steps"][0]["expect"]["winner"] = "primary"
        elif name == "he-breaker-per-model":
            case["policy"]["pin_probe_ms"] = 5
        (tmp_path / f"{name}.json").write_text(json.dumps(case))
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "waiting  he-breaker-per-model: probes of targets that are out (policy.pin_probe_ms)",
        "ok       st-413-from-nginx",
        "differs  st-529-overloaded: winner: expected 'primary', came 'backup'",
        "3 cases: 1 ok, 1 differs, 1 waiting",
    ]
    assert main([str(tmp_path), "--filter", "he-"]) == 0


def test_the_command_refuses_what_is_no_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text('{"schema": "hedge-case/2"}')
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().out.startswith("faulty   a.json: ")
    assert main([str(OPEN), "--filter", "no such case"]) == 2
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes((OPEN / "st-529-overloaded.json").read_bytes())
    assert main([str(tmp_path)]) == 2
    assert "more than one case is called st-529-overloaded" in capsys.readouterr().out


def test_a_run_that_breaks_off_is_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = json.loads((OPEN / "st-529-overloaded.json").read_bytes())
    case["steps"][0]["request"]["path"] = "/v1/\u2028"  # cannot be sent
    (tmp_path / "a.json").write_text(json.dumps(case))
    assert main([str(tmp_path)]) == 1
    assert "differs  st-529-overloaded: the run broke off: UnicodeEncodeError" in capsys.readouterr().out
