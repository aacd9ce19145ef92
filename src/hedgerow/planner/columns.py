"""Which column of a log says what: guessed from names, or said by its owner with `--map`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from hedgerow.errors import ConfigError

FIELDS = {
    "at": "when the request was sent",
    "end": "when the answer was whole",
    "first": "when the first token came",
    "ttft": "time to the first token",
    "total": "time to the whole answer",
    "target": "who answered: an endpoint, provider or model",
    "model": "the model, where `target` is a provider",
    "input_tokens": "tokens of the prompt",
    "output_tokens": "tokens of the answer",
    "status": "how it ended: an HTTP status or a word",
    "request": "what attempts at several targets have in common",
    "cost": "dollars",
}
"""What the planner can use."""

_NAMES: Mapping[str, Sequence[str]] = {
    "at": (
        "at", "started_at", "start_time", "starttime", "timestamp", "ts", "time", "created_at", "created", "date",
        "datetime", "request_time", "sent_at", "t_ms", "start",
    ),
    "end": ("ended_at", "end_time", "endtime", "finished_at", "completed_at", "end"),
    "first": ("completionstarttime", "completion_start_time", "first_token_at", "first_token_time_at"),
    "ttft": (
        "ttft", "time_to_first_token", "time_to_first_chunk", "first_token", "first_token_latency", "ttfb",
        "time_to_first_byte", "first_chunk", "ttft_time",
    ),
    "total": (
        "total", "latency", "duration", "total_time", "total_latency", "elapsed", "response_time", "request_duration",
        "e2e_latency", "took",
    ),
    "target": ("target", "endpoint", "api_base", "provider", "custom_llm_provider", "deployment", "backend"),
    "model": ("model", "model_name", "model_id"),
    "input_tokens": ("input_tokens", "prompt_tokens", "tokens_in", "input", "prompt_length", "input_length"),
    "output_tokens": ("output_tokens", "completion_tokens", "tokens_out", "generated_tokens", "output_length"),
    "status": ("status", "status_code", "http_status", "outcome", "code"),
    "request": ("request_id", "trace_id", "request", "round", "group", "pair", "call_id"),
    "cost": ("cost", "spend", "cost_usd", "usd", "price"),
}  # fmt: skip
_UNITS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "millis": 1e-3, "milliseconds": 1e-3,
          "us": 1e-6, "micros": 1e-6, "microseconds": 1e-6, "ns": 1e-9, "nanos": 1e-9, "nanoseconds": 1e-9}  # fmt: skip
_WORDS = {1.0: "seconds", 1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
TIMES = ("at", "end", "first")
DURATIONS = ("ttft", "total")
_SUFFIX = re.compile(r"(.*?)_?(" + "|".join(sorted(_UNITS, key=len, reverse=True)) + r")")


class Column(msgspec.Struct, frozen=True):
    """One column of the log, and how many seconds its unit is where it is a time; None: it says so itself."""

    name: str
    unit: float | None = None

    @property
    def words(self) -> str:
        """Its unit."""
        return "" if self.unit is None else _WORDS[self.unit]


Mapped = Mapping[str, Column]


def guessed(columns: Sequence[str], said: Sequence[str] = ()) -> dict[str, Column]:
    """The columns by what they say; `said` are options such as `ttft=first_byte_ms` or `total=latency:ms`.

    Raises `ConfigError` for an option that cannot be, naming the columns there are.
    """
    mapped = {field: column for field in FIELDS if (column := _find(field, columns)) is not None}
    for option in said:
        field, column = _said(option, columns)
        mapped[field] = column
    if mapped.get("target") == mapped.get("model"):
        mapped.pop("model", None)
    if "target" not in mapped and "model" in mapped:
        mapped["target"] = mapped.pop("model")
    return mapped


def _said(option: str, columns: Sequence[str]) -> tuple[str, Column]:
    field, equals, name = option.partition("=")
    if not equals or field not in FIELDS:
        raise ConfigError([f"--map {option}: write FIELD=COLUMN, and FIELD is one of {', '.join(FIELDS)}"])
    if name in columns:
        return field, Column(name, _unit(field, name))
    name, colon, unit = name.rpartition(":")
    if name not in columns or not colon:
        raise ConfigError([f"--map {option}: the log has no such column; it has {', '.join(columns)}"])
    if unit not in _UNITS:
        raise ConfigError([f"--map {option}: {unit} is no unit; one of {', '.join(_UNITS)} is"])
    return field, Column(name, _UNITS[unit])


def _find(field: str, columns: Sequence[str]) -> Column | None:
    """The column whose name is the first of the known ones, with or without a unit behind it."""
    plain = {_plain(name): name for name in reversed(columns)}
    for known in _NAMES[field]:
        if known in plain:
            return Column(plain[known], _unit(field, plain[known]))
        if field in DURATIONS or field in TIMES:
            for name in columns:
                found = _SUFFIX.fullmatch(_plain(name))
                if found and found[1] == known:
                    return Column(name, _UNITS[found[2]])
    return None


def _unit(field: str, name: str) -> float | None:
    """Seconds in the unit that the name ends with; of a duration without any, None: it is to be told by its size."""
    if field in DURATIONS or field in TIMES:
        found = _SUFFIX.fullmatch(_plain(name))
        if found and found[1]:
            return _UNITS[found[2]]
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
