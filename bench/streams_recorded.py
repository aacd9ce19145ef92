"""The recorded streams: which files a folder may hold, and what is made of them.

Each source reads its own file; one that is not there is left out. What the files are and where they come from is in
docs/evaluation.md.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from bench.streams import Draw, Recorded, Stream, drawn, paired
from bench.streams_made import Endpoint, alike
from bench.streams_parquet import read_columns

FEW = 100
"""With fewer recorded times nothing can be said of a p99. Recorded answers of different users are then left out."""
TIMED_OUT = 30.0
"""What an attempt took, in seconds, after which its client gave up."""
SHORT_ANSWER = 60
"""Output tokens of recorded whole answers, at most: their time is then mostly that to the first token."""
CORRELATION = 0.3
"""Assumed of two attempts at one provider where a stream is made of percentiles alone."""

Make = Callable[[int, Random], Stream]
"""Makes a stream of so many requests."""
Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """A stream that can be made."""

    name: str
    group: str
    make: Make


def plans(folder: Path, endpoints: int, seed: int) -> list[Plan]:
    """All streams of the files in the folder, `endpoints` of those that are percentiles only.

    Raises `OSError` and `ValueError` for a file that cannot be read.
    """
    found: list[Plan] = []
    for name, source in _SOURCES.items():
        path = folder / name
        if path.exists():
            found += source(path, endpoints, Random(seed))
    return found


def files() -> Sequence[str]:
    """What a folder may hold."""
    return list(_SOURCES)


def _rows(path: Path) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file)


def _seconds(row: Row, column: str = "ttft_ms") -> float | None:
    cell = row[column]
    return float(cell) / 1e3 if cell else None


def _each_way(name: str, group: str, record: Sequence[Recorded]) -> list[Plan]:
    lengths = {one.tokens for one in record}
    ways: tuple[Draw, ...] = ("independent", *(("same length",) if len(lengths) > 1 else ()), "neighbours")
    return [Plan(name, group, partial(_draw, name, way, record)) for way in ways]


def _draw(name: str, way: Draw, record: Sequence[Recorded], requests: int, random: Random) -> Stream:
    return drawn(name, way, record, requests, random)


def _llmperf(path: Path, _endpoints: int, _random: Random) -> list[Plan]:
    """Every run on its own; rows that failed are left out."""
    runs: dict[str, list[Recorded]] = {}
    for row in _rows(path):
        if row["status"] == "ok" and (seconds := _seconds(row)) is not None:
            runs.setdefault(row["run"], []).append(Recorded(seconds))
    return [plan for run, record in sorted(runs.items()) for plan in _each_way(run, "llmperf", record)]


def _openai(path: Path, _endpoints: int, _random: Random) -> list[Plan]:
    models: dict[str, list[Recorded]] = {}
    for row in _rows(path):
        if row["status"] == "ok" and "input_token_times" in row["run"] and (seconds := _seconds(row)) is not None:
            tokens = int(row["input_tokens"])
            models.setdefault(row["model"], []).append(Recorded(seconds, tokens, f"{tokens}"))
    return [plan for model, record in sorted(models.items()) for plan in _each_way(model, "openai", record)]


def _api(path: Path, _endpoints: int, _random: Random) -> list[Plan]:
    """Models with enough short answers; a whole answer's time is its time to the first token."""
    sets: dict[str, list[tuple[str, Recorded]]] = {}
    for row in _rows(path):
        stream = row["streaming"] == "True"
        seconds = _seconds(row, "ttft_ms" if stream else "total_ms")
        if row["status"] != "ok" or seconds is None:
            continue
        if stream or (row["output_tokens"] and float(row["output_tokens"]) <= SHORT_ANSWER):
            name = f"{row['model']} {'stream' if stream else 'whole'}"
            sets.setdefault(name, []).append((row["started_at"], Recorded(seconds)))
    found = []
    for name, record in sorted(sets.items()):
        if len(record) < FEW:
            continue
        record.sort(key=lambda one: one[0])
        found += _each_way(name, "recorded API", [one for _, one in record])
    return found


def _scalevoice(path: Path, _endpoints: int, _random: Random) -> list[Plan]:
    """The same model at OpenAI and Azure, asked in the same moment; few rounds, but real pairs."""
    rounds: dict[str, dict[tuple[str, str], float]] = {}
    for row in _rows(path):
        place = (row["provider"], row["model"])
        seconds = _seconds(row)
        rounds.setdefault(row["run"], {})[place] = TIMED_OUT if seconds is None else seconds
    found = []
    for model in ("gpt-3.5-turbo-0613", "gpt-4-1106-preview"):
        for first, second in (("azure-openai", "openai"), ("openai", "azure-openai")):
            pairs = [(one[first, model], one[second, model]) for one in rounds.values() if (first, model) in one]
            name = f"{model}, {first} to {second}"
            found.append(Plan(name, "pairs", partial(_pair, name, pairs)))
    return found


def _pair(name: str, pairs: Sequence[tuple[float, float]], requests: int, random: Random) -> Stream:
    return paired(name, pairs, requests, random)


_PERCENTILES = tuple(f"ttft_p{percent}_ms" for percent in (50, 75, 90, 95, 99))


def _openrouter(path: Path, endpoints: int, random: Random) -> list[Plan]:
    """Endpoint-days with 1,000 requests and more in half an hour, some drawn by chance."""
    columns = read_columns(path, ["provider", "model", "tier", "snapshot_at", "requests_30min", *_PERCENTILES])
    laws = []
    for provider, model, tier, day, requests, *times in zip(*columns.values(), strict=True):
        seconds = [float(one) / 1e3 for one in times if one]
        if tier == "default" and isinstance(requests, int) and requests >= 1000 and len(seconds) == 5:
            p50, p75, p90, p95, p99 = seconds
            laws.append(Endpoint(f"{model} at {provider}, {str(day)[:10]}", (p50, p75, p90, p95, p99)))
    found = []
    for law in random.sample(laws, min(endpoints, len(laws))):
        for correlation in (0.0, CORRELATION):
            make = partial(_alike, law, correlation)
            found.append(Plan(f"{law.name}, r {correlation:g}", "OpenRouter", make))
    return found


def _alike(law: Endpoint, correlation: float, requests: int, random: Random) -> Stream:
    return alike(law, requests, random, correlation=correlation)


_SOURCES: dict[str, Callable[[Path, int, Random], list[Plan]]] = {
    "llmperf_leaderboard_2023.csv": _llmperf,
    "openai_regression_2024.csv": _openai,
    "recorded_api_responses_2023_2026.csv": _api,
    "scalevoice_openai_azure_2024.csv": _scalevoice,
    "openrouter_endpoint_percentiles_2026.parquet": _openrouter,
}
