"""Results of probes on disk: what is kept, refused, or does not count any more; what they come to in words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from hedgerow.config import Settings, loads
from hedgerow.errors import ConfigError
from hedgerow.policy.cancelling import Probed
from hedgerow.probe import report, store
from hedgerow.probe.result import Finding, Level, Phase, Result

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
URL = "http://a.example/v1"


def finding(phase: Phase, stopped: bool | None, after: int | None = None) -> Finding:
    level = Level.CLOSED if stopped is None else Level.CONFIRMED
    return Finding(phase=phase, level=level, stopped=stopped, tokens_after=after)


def result(*findings: Finding, at: datetime = NOW) -> Result:
    return Result(
        at=at,
        base_url=URL,
        model="m",
        protocol="openai",
        witness="vLLM's /metrics",
        first_token=0.2,
        token_gap=0.01,
        findings=findings,
    )


STOPS = result(*(finding(phase, stopped=True) for phase in Phase))
RUNS_ON = result(finding(Phase.STREAM, stopped=True), finding(Phase.WHOLE, stopped=False, after=90))


def settings(**target: str) -> Settings:
    return loads(json.dumps({"targets": {"a": {"base_url": URL, **target}}, "routes": {"r": {"targets": ["a"]}}}), {})


def test_what_is_written_is_read_and_stands_beside_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "x.probes.json"
    assert store.read(file) == {}
    store.write(file, {"a": RUNS_ON})
    store.write(file, {"b": STOPS})
    store.write(file, {"b": RUNS_ON})
    found = store.read(file)
    assert [*found] == ["a", "b"]
    assert found["b"] == replace(RUNS_ON, findings=list(RUNS_ON.findings))
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not what hedgerow probe writes"),
        ('{"version": 2, "targets": {}}', "is of another version of hedgerow"),
        ('{"version": 1, "targets": {"a": {}}}', "is not what hedgerow probe writes"),
    ],
)
def test_another_file_is_not_overwritten(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        store.write(file, {"a": STOPS})
    assert file.read_text() == text
    known, remarks = store.probed(settings(), file, NOW)
    assert known == {}
    assert len(remarks) == 1
    assert said in remarks[0]


def test_a_place_that_cannot_be_written_to_is_named_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/x\.json: cannot be written.*server\.probes"):
        store.write(tmp_path / "nowhere" / "x.json", {"a": STOPS})


def test_what_counts_becomes_what_the_gateway_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    store.write(file, {"a": RUNS_ON, "gone": STOPS})
    known, remarks = store.probed(settings(model="m"), file, NOW + store.MAX_AGE)
    assert known == {"a": Probed(True, False, "whole answers: 90 tokens more; probed 2026-12-01", "2026-12-01")}
    assert remarks == []


@pytest.mark.parametrize(
    ("target", "later", "why"),
    [
        ({"base_url": "http://b.example/v1"}, timedelta(), "it was probed at another base_url"),
        ({"model": "n"}, timedelta(), "it was probed with model m"),
        ({}, store.MAX_AGE + timedelta(seconds=1), "it was probed more than 30 days ago"),
    ],
)
def test_what_does_not_count_any_more_is_said(
    tmp_path: Path, target: dict[str, str], later: timedelta, why: str
) -> None:
    file = tmp_path / "x.json"
    store.write(file, {"a": RUNS_ON})
    known, remarks = store.probed(settings(**target), file, NOW + later)
    assert known == {}
    assert remarks == [f"{file}: what is said of target a does not count: {why}; hedgerow probe a"]


@pytest.mark.parametrize(
    ("findings", "streams", "whole", "advice", "said"),
    [
        (STOPS.findings, True, True, "generated", "Streams and whole answers stop"),
        (RUNS_ON.findings, True, False, "{stream: generated, whole: full}", "nonstream_as_stream"),
        ([finding(Phase.STREAM, None)], None, None, None, "Of streams and whole answers nobody upstream says"),
        ([finding(Phase.STREAM, False)], False, None, "{stream: full}", "on_cancel_failure: raise_delay"),
        ([finding(Phase.TOKEN, False), finding(Phase.STREAM, True)], False, None, "{stream: full}", "Streams go on"),
        (
            [finding(Phase.STREAM, False), finding(Phase.WHOLE, False)],
            False,
            False,
            "full",
            "Streams and whole answers go",
        ),
    ],
)
def test_one_that_goes_on_decides_and_the_words_say_what_to_set(
    findings: list[Finding], streams: bool | None, whole: bool | None, advice: str | None, said: str
) -> None:
    found = result(*findings)
    assert (found.streams, found.whole) == (streams, whole)
    words = "\n".join(report.meaning(found))
    assert said in words
    assert (f"billed_on_cancel: {advice}" in words) is (advice is not None)
    assert ("billed_on_cancel" in words) is (advice is not None)
