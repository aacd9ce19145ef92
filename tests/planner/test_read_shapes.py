"""Logs of systems that are known, as these write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pytest
from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from hedgerow.cli import main
from hedgerow.cost import Bill
from hedgerow.errors import ConfigError, LedgerError
from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Event,
    Failure,
    FailureClass,
    Outcome,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
)
from hedgerow.ledger.store import migrate, open_store
from hedgerow.ledger.tables import Tables
from hedgerow.planner.log import CACHED, CANCELLED, REFUSED, SUPERSEDED, TORN, Log
from hedgerow.planner.read import read
from tests.effects.support import QUICK, SILENT, settings
from tests.engine.test_traces import HEDGED, Played
from tests.ledger.conftest import postgres, url  # noqa: F401  # fixtures
from tests.ledger.support import EPOCH, MICRO, batches, bill, hello, records


def seen(log: Log) -> list[tuple[float, str, float | None, int]]:
    """When, where, how long and how large, None for what failed."""
    rows = zip(log.at, log.target, log.ttft, log.input_tokens, strict=True)
    return [
        (round(float(at), 6), log.targets[target], None if np.isnan(ttft) else round(float(ttft), 6), int(tokens))
        for at, target, ttft, tokens in rows
    ]


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- hedgerow's ledger


def asked(name: str, at: float, ends: Sequence[AttemptEnded], bills: Sequence[Bill]) -> list[Event]:
    launched = [AttemptLaunched(name, each.attempt, each.target, each.role, each.launched_at) for each in ends]
    over = RequestFinished(name, "fast", "openai_chat", True, at, at + 0.5, at + 9, 200, 0, len(ends), Outcome.WON)
    started = RequestStarted(name, "fast", "openai_chat", True, at)
    return [started, *launched, *ends, over, RequestBilled(name, "fast", at + 9, tuple(bills))]


def ended(
    name: str,
    attempt: int,
    target: str,
    outcome: Outcome,
    at: float,
    first: float | None,
    failure: Failure | None = None,
) -> AttemptEnded:
    role = Role.HEDGE if attempt else Role.PRIMARY
    last = at + 9.0
    used = Usage(10, 20)
    return AttemptEnded(name, attempt, target, role, outcome, at, at, first, last, 200, 9, failure, used)


HISTORY = [
    *asked("r0", 0.0, [ended("r0", 0, "a", Outcome.WON, 0.0, 0.25)], [bill(0, 2_000_000)]),
    # a loser of which nothing was heard, and one that was heard of
    *asked(
        "r1",
        10.0,
        [ended("r1", 0, "a", Outcome.SUPERSEDED, 10.0, None), ended("r1", 1, "b", Outcome.WON, 12.0, 12.5)],
        [bill(0), bill(1)],
    ),
    *asked(
        "r2",
        20.0,
        [ended("r2", 0, "a", Outcome.KEPT, 20.0, 23.0), ended("r2", 1, "b", Outcome.WON, 22.0, 22.25)],
        [bill(0), bill(1)],
    ),
    *asked(
        "r3",
        30.0,
        [ended("r3", 0, "a", Outcome.FAILED, 30.0, None, Failure(FailureClass.SERVER_ERROR, "e", 500))],
        [bill(0)],
    ),
    *asked(
        "r4",
        40.0,
        [ended("r4", 0, "a", Outcome.FAILED, 40.0, None, Failure(FailureClass.FATAL_REQUEST, "e", 400))],
        [bill(0)],
    ),
    *asked("r5", 50.0, [ended("r5", 0, "a", Outcome.CLIENT_GONE, 50.0, None)], [bill(0)]),
]
USED = [
    (0.0, "a", 0.25, 10),
    (12.0, "b", 0.5, 10),
    (20.0, "a", 3.0, 10),
    (22.0, "b", 0.25, 10),
    (30.0, "a", None, 10),
]


def ledger_of(url: str, events: Sequence[Event]) -> str:  # noqa: F811
    engine = open_store(url, writes=True)
    migrate(engine)
    Tables(engine, hello(url), int(EPOCH) * MICRO).write(batches(*records(*events)), int(EPOCH) * MICRO)
    engine.dispose()
    return url


@pytest.fixture
def filled(url: str) -> str:  # noqa: F811
    return ledger_of(url, HISTORY)


def exported(url: str, path: Path, what: str = "attempts") -> Path:  # noqa: F811
    with suppress(SystemExit):
        main(["ledger", "export", "--what", what, "--ledger", url, "--output", str(path), "--format", path.suffix[1:]])
    return path


@pytest.mark.parametrize("way", ["url", "csv", "jsonl", "parquet"])
def test_each_attempt_of_a_ledger_is_a_row_of_its_target(filled: str, tmp_path: Path, way: str) -> None:
    log, source = read([filled if way == "url" else exported(filled, tmp_path / f"attempts.{way}")])
    assert seen(log) == USED
    assert dict(source.bad) == {SUPERSEDED: 1, REFUSED: 1, CANCELLED: 1}
    assert (source.read, source.used, source.started_at) == (8, 5, EPOCH)
    assert log.request[2] == log.request[3] != log.request[0]
    assert log.usd is not None
    assert log.usd[0] == pytest.approx(0.002)
    assert source.format.startswith("hedgerow's ledger")


def test_a_ledger_is_known_as_a_file_and_its_password_is_not_shown(filled: str) -> None:
    if filled.startswith("sqlite"):
        assert seen(read([filled.removeprefix("sqlite:///")])[0]) == USED
    else:
        (name,) = read([filled.replace("tester@", "tester:secret@")])[1].files
        assert name.startswith("postgresql://tester:***@/ledger")


def test_answers_of_a_ledger_that_were_not_streamed_are_taken_whole(url: str) -> None:  # noqa: F811
    whole = [
        msgspec.structs.replace(each, stream=False) if isinstance(each, AttemptEnded) else each for each in HISTORY
    ]
    log, source = read([ledger_of(url, whole)])
    assert seen(log) == [(at, target, ttft and 9.0, tokens) for at, target, ttft, tokens in USED]
    assert not source.of_first_token


@pytest.mark.parametrize("what", ["requests", "request-hours"])
def test_rows_that_are_no_attempts_say_which_are(filled: str, tmp_path: Path, what: str) -> None:
    path = exported(filled, tmp_path / "rows.csv", what)
    with pytest.raises(ConfigError, match="hedgerow ledger export --what attempts"):
        read([path])


def test_a_database_that_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        read([f"sqlite:///{tmp_path}/none.db"])


# --- LiteLLM


def spent(second: int, model: str, first: float | None, total: float, **fields: Any) -> dict[str, Any]:
    def at(seconds: float) -> str:
        return f"2026-11-30T10:{second:02}:{seconds:06.3f}Z"

    row = {
        "request_id": f"chatcmpl-{second}",
        "call_type": "acompletion",
        "spend": 0.002,
        "total_tokens": 130,
        "prompt_tokens": 120,
        "completion_tokens": 10,
        "startTime": at(0),
        "endTime": at(total),
        "completionStartTime": at(total if first is None else first),
        "model": model,
        "custom_llm_provider": "azure",
        "api_base": "https://east.example/openai/deployments/x?key=secret",
        "cache_hit": "False",
        "status": "success",
        "metadata": {"tags": ["a"]},
    }
    return row | fields


SPENT = [
    spent(0, "gpt-5-mini", 0.5, 2.0),
    spent(1, "gpt-5-mini", 0.75, 2.0, api_base="https://west.example/openai"),
    spent(2, "azure/o5", 1.25, 2.0, status=None),
    spent(3, "gpt-5-mini", None, 2.0),
    spent(4, "gpt-5-mini", 0.001, 0.002, cache_hit="True"),
    spent(5, "gpt-5-mini", None, 4.0, status="failure"),
]


def as_csv(path: Path) -> Path:
    lines = written(path.with_suffix(".jsonl"), *SPENT)
    duckdb.sql(f"copy (select * from read_json('{lines}')) to '{path}' (header)")
    return path


@pytest.mark.parametrize(
    "make",
    [
        lambda path: written(path / "a.jsonl", *SPENT),
        lambda path: written(path / "a.json", SPENT),
        lambda path: written(path / "a.json", {"data": SPENT, "total": len(SPENT), "page": 1}),
        lambda path: as_csv(path / "a.csv"),
    ],
    ids=["lines", "array", "page", "csv"],
)
def test_spend_logs_of_litellm(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    log, source = read([make(tmp_path)])
    assert seen(log) == [
        (0.0, "azure gpt-5-mini east.example", 0.5, 120),
        (60.0, "azure gpt-5-mini west.example", 0.75, 120),
        (120.0, "azure/o5", 1.25, 120),
        (300.0, "azure gpt-5-mini east.example", None, 120),
    ]
    assert dict(source.bad) == {CACHED: 1, "no time to the first token, where most rows have one": 1}
    assert source.format.startswith("LiteLLM spend logs")
    assert ("cost", "spend", "dollars") in source.columns
    assert "taken as failures: failure (1)" in source.notes


def test_where_most_answers_are_whole_all_are_taken_whole(tmp_path: Path) -> None:
    rows = [spent(second, "m", None, 2.0) for second in range(3)]
    log, source = read([written(tmp_path / "a.jsonl", *rows, spent(9, "m", 0.5, 1.5))])
    assert [row[2] for row in seen(log)] == [2.0, 2.0, 2.0, 1.5]
    assert not source.of_first_token


# --- OpenTelemetry


def test_spans_that_hedgerow_itself_writes(tmp_path: Path) -> None:
    played = Played(settings(base=HEDGED), {"a": SILENT, "b": QUICK})
    assert played.request is not None
    line = json.dumps(json.loads(MessageToJson(encode_spans([played.request, *played.attempts]))))
    (tmp_path / "traces.jsonl").write_text(line + "\n" + line.replace('"r-', '"s-') + "\n{torn\n")
    log, source = read([tmp_path / "traces.jsonl"])
    (first,) = {row[2] for row in seen(log)}
    assert [row[1] for row in seen(log)] == ["b", "b"]
    assert first is not None
    assert dict(source.bad) == {SUPERSEDED: 2, TORN: 1}
    assert source.format == "OpenTelemetry spans (JSON lines)"


def span(name: str, start: int, **attributes: Any) -> dict[str, Any]:
    def value(of: Any) -> dict[str, Any]:
        if isinstance(of, float):
            return {"doubleValue": of}
        return {"intValue": str(of)} if isinstance(of, int) else {"stringValue": of}

    keys = {key.replace("__", "."): value(of) for key, of in attributes.items()}
    return {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(1_796_000_000_000_000_000 + start * 10**9),
        "endTimeUnixNano": str(1_796_000_000_000_000_000 + (start + 4) * 10**9),
        "attributes": [{"key": key, "value": each} for key, each in keys.items()],
        "status": {"code": 2} if "error__type" in attributes else {},
    }


def chat(start: int, ttft: float | None = None, **attributes: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "gen_ai__operation__name": "chat",
        "gen_ai__provider__name": "openai",
        "gen_ai__request__model": "gpt-5",
        "gen_ai__usage__input_tokens": 44,
        "server__address": "api.openai.com",
    }
    if ttft is not None:
        known["gen_ai__response__time_to_first_chunk"] = ttft
    return span("chat gpt-5", start, **(known | attributes))


@pytest.mark.parametrize("indent", [None, 2])
def test_spans_of_the_genai_conventions(tmp_path: Path, indent: int | None) -> None:
    spans = [
        chat(0, 0.5),
        chat(1, 0.75, gen_ai__request__model="gpt-4"),
        chat(2, error__type="timeout"),
        chat(3, error__type="400", http__response__status_code=400),
        span("invoke_agent", 4, gen_ai__operation__name="invoke_agent"),
        span("GET /", 5, http__response__status_code=200),
        chat(6, 0.25) | {"kind": 2},
    ]
    document = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}
    (tmp_path / "traces.json").write_text(json.dumps(document, indent=indent))
    log, source = read([tmp_path / "traces.json"])
    assert seen(log) == [
        (0.0, "openai gpt-5", 0.5, 44),
        (1.0, "openai gpt-4", 0.75, 44),
        (2.0, "openai gpt-5", None, 44),
    ]
    assert dict(source.bad) == {REFUSED: 1}
    assert (source.read, source.started_at) == (4, 1_796_000_000.0)


# --- others


def test_observations_of_langfuse(tmp_path: Path) -> None:
    def observed(second: int, kind: str = "GENERATION", level: str = "DEFAULT") -> dict[str, Any]:
        at = f"2026-11-30 10:00:{second:02}"
        return {
            "id": str(second),
            "type": kind,
            "start_time": f"{at}.000000",
            "end_time": f"{at}.900000",
            "completion_start_time": f"{at}.300000",
            "provided_model_name": "gpt-5",
            "usage_details": {"input": 31, "output": 2},
            "latency": 900,
            "time_to_first_token": 300,
            "level": level,
            "total_cost": 0.01,
        }

    rows = [observed(0), observed(1, "SPAN"), observed(2, level="ERROR"), observed(3)]
    lines = written(tmp_path / "observations.jsonl", *rows)
    packed = "to_json(usage_details)::varchar as usage_details"  # as Langfuse has it in CSV
    duckdb.sql(f"copy (select * replace ({packed}) from read_json('{lines}')) to '{tmp_path}/observations.csv'")
    for path in (lines, tmp_path / "observations.csv"):
        log, source = read([path])
        assert seen(log) == [(0.0, "gpt-5", 0.3, 31), (2.0, "gpt-5", None, 31), (3.0, "gpt-5", 0.3, 31)]
        assert source.read == 3


def test_a_benchmark_of_vllm(tmp_path: Path) -> None:
    result = {
        "model_id": "qwen",
        "duration": 9.0,
        "ttfts": [0.5, 0.0, 0.25],
        "start_times": [812.5, 813.5, 815.0],
        "input_lens": [10, 20, 30],
        "output_lens": [1, 0, 3],
        "itls": [[0.1], [], [0.1, 0.2]],
        "errors": ["", "Timeout", ""],
    }
    (tmp_path / "result.json").write_text(json.dumps(result, indent=1))
    log, source = read([tmp_path / "result.json"])
    assert seen(log) == [(0.0, "qwen", 0.5, 10), (1.0, "qwen", None, 20), (2.5, "qwen", 0.25, 30)]
    assert (source.started_at, source.seconds) == (None, 2.5)


def test_responses_of_llmperf(tmp_path: Path) -> None:
    def response(ttft: float, code: int | None = None) -> dict[str, Any]:
        return {
            "error_code": code,
            "error_msg": "",
            "ttft_s": ttft,
            "end_to_end_latency_s": 7.5,
            "number_output_tokens": 150,
            "number_input_tokens": 550,
        }

    rows = [response(0.6), response(0.0, 429), response(0.7)]
    (tmp_path / "fireworks_individual_responses.json").write_text(json.dumps(rows, indent=4))
    log, _ = read([tmp_path / "fireworks_individual_responses.json"])
    assert [row[1:] for row in seen(log)] == [
        ("fireworks_individual_responses", 0.6, 550),
        ("fireworks_individual_responses", None, 550),
        ("fireworks_individual_responses", 0.7, 550),
    ]
    assert not log.timed
