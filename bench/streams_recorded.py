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


@dataclass(frozen=True, slots=True)
class Series:
    """Times as they were recorded, one after the other."""

    name: str
    group: str
    record: Sequence[Recorded]


def plans(folder: Path, endpoints: int, seed: int) -> list[Plan]:
    """All streams of the files in the folder, `endpoints` of those that are percentiles only.

    Raises `OSError` and `ValueError` for a file that cannot be read.
    """
    found = [plan for each in series(folder) for plan in _each_way(each)]
    found += [Plan(name, "pairs", partial(_pair, name, rounds)) for name, rounds in pairs(folder).items()]
    path = folder / _OPENROUTER
    return found + (_openrouter(path, endpoints, Random(seed)) if path.exists() else [])


def series(folder: Path) -> list[Series]:
    """All that was recorded one by one. Raises as `plans` does."""
    there = [(folder / name, source) for name, source in _RECORDS.items() if (folder / name).exists()]
    return [each for path, source in there for each in source(path)]


def queues(folder: Path) -> list[Series]:
    """Runs of a server of one's own, in the order in which requests came; in most of them they wait in line. Raises as
    `plans` does.
    """
    path = folder / _SELF_HOSTED
    runs: dict[str, list[tuple[float, Recorded]]] = {}
    for row in _rows(path) if path.exists() else ():
        seconds = _seconds(row)
        if row["status"] == "ok" and seconds is not None and row["started_at"].startswith("+"):
            one = Recorded(seconds, int(row["input_tokens"]))
            runs.setdefault(row["run"], []).append((float(row["started_at"].strip("+s")), one))
    return [
        Series(f"vLLM {run}", "self-hosted", [one for _, one in sorted(record, key=lambda each: each[0])])
        for run, record in runs.items()
    ]


def files() -> Sequence[str]:
    """What a folder may hold."""
    return [*_RECORDS, _SCALEVOICE, _OPENROUTER]


def _rows(path: Path) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file)


def _seconds(row: Row, column: str = "ttft_ms") -> float | None:
    cell = row[column]
    return float(cell) / 1e3 if cell else None


def _each_way(of: Series) -> list[Plan]:
    lengths = {one.tokens for one in of.record}
    ways: tuple[Draw, ...] = ("independent", *(("same length",) if len(lengths) > 1 else ()), "neighbours")
    return [Plan(of.name, of.group, partial(_draw, of.name, way, of.record)) for way in ways]


def _draw(name: str, way: Draw, record: Sequence[Recorded], requests: int, random: Random) -> Stream:
    return drawn(name, way, record, requests, random)


def _llmperf(path: Path) -> list[Series]:
    """Every run on its own; rows that failed are left out."""
    runs: dict[str, list[Recorded]] = {}
    for row in _rows(path):
        if row["status"] == "ok" and (seconds := _seconds(row)) is not None:
            runs.setdefault(row["run"], []).append(Recorded(seconds))
    return [Series(run, "llmperf", record) for run, record in sorted(runs.items())]


def _openai(path: Path) -> list[Series]:
    models: dict[str, list[Recorded]] = {}
    for row in _rows(path):
        if row["status"] == "ok" and "input_token_times" in row["run"] and (seconds := _seconds(row)) is not None:
            tokens = int(row["input_tokens"])
            models.setdefault(row["model"], []).append(Recorded(seconds, tokens, f"{tokens}"))
    return [Series(model, "openai", record) for model, record in sorted(models.items())]


def _api(path: Path) -> list[Series]:
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
        found.append(Series(name, "recorded API", [one for _, one in record]))
    return found


def pairs(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """The same model at OpenAI and Azure, asked in the same moment; few rounds, but real pairs. Raises as `plans`."""
    path = folder / _SCALEVOICE
    rounds: dict[str, dict[tuple[str, str], float]] = {}
    for row in _rows(path) if path.exists() else ():
        place = (row["provider"], row["model"])
        seconds = _seconds(row)
        rounds.setdefault(row["run"], {})[place] = TIMED_OUT if seconds is None else seconds
    found = {}
    for model in ("gpt-3.5-turbo-0613", "gpt-4-1106-preview"):
        for first, second in (("azure-openai", "openai"), ("openai", "azure-openai")):
            both = [(one[first, model], one[second, model]) for one in rounds.values() if (first, model) in one]
            if both:
                found[f"{model}, {first} to {second}"] = both
    return found


def _pair(name: str, rounds: Sequence[tuple[float, float]], requests: int, random: Random) -> Stream:
    return paired(name, rounds, requests, random)


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


_RECORDS: dict[str, Callable[[Path], list[Series]]] = {
    "llmperf_leaderboard_2023.csv": _llmperf,
    "openai_regression_2024.csv": _openai,
    "recorded_api_responses_2023_2026.csv": _api,
}
_SCALEVOICE = "scalevoice_openai_azure_2024.csv"
_SELF_HOSTED = "selfhosted_vllm_2024_2026.csv"
_OPENROUTER = "openrouter_endpoint_percentiles_2026.parquet"
