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
    "endpoint": "where it was sent, if the same model of a provider is at several places",
    "input_tokens": "tokens of the prompt",
    "output_tokens": "tokens of the answer",
    "status": "how it ended: an HTTP status or a word",
    "error": "what went wrong; empty where nothing did",
    "request": "what attempts at several targets have in common",
    "cost": "dollars",
}
"""What the planner can use."""

_NAMES: Mapping[str, Sequence[str]] = {
    "at": (
        "at", "started_at", "start_time", "timestamp", "ts", "time", "created_at", "created", "date",
        "datetime", "request_created_at", "requested_at", "sent_at", "launched_at", "start", "t", "asctime",
        "time_local", "time_iso8601",
    ),
    "end": ("ended_at", "end_time", "finished_at", "completed_at", "end"),
    "first": ("completion_start_time", "first_token_at", "first_token_time_at"),
    "ttft": (
        "ttft", "time_to_first_token", "time_to_first_chunk", "first_token", "first_token_latency", "ttfb",
        "time_to_first_byte", "first_chunk", "ttft_time", "upstream_header_time",
    ),
    "total": (
        "total", "latency", "duration", "total_time", "total_latency", "elapsed", "response_time", "request_duration",
        "e2e_latency", "end_to_end_latency", "e2e", "e2el", "took", "delay", "upstream_response_time", "request_time",
    ),
    "target": (
        "target", "deployment", "provider", "provider_name", "custom_llm_provider", "backend", "endpoint",
        "api_base", "base_url", "upstream", "upstream_addr",
    ),
    "endpoint": ("endpoint", "api_base", "base_url"),
    "model": ("model", "model_name", "request_model", "model_id"),
    "input_tokens": (
        "input_tokens", "prompt_tokens", "tokens_in", "tokens_prompt", "prompt_length", "input_length", "input_len",
    ),
    "output_tokens": (
        "output_tokens", "completion_tokens", "tokens_out", "tokens_completion", "generated_tokens", "output_length",
        "output_len",
    ),
    "status": ("status", "status_code", "http_status", "outcome", "response_status", "success", "ok", "finish_reason"),
    "request": ("request_id", "request", "round", "pair"),
    "error": ("error", "error_code", "error_type", "exception"),
    "cost": ("cost", "total_cost", "spend", "cost_usd", "usd"),
}  # fmt: skip
_UNITS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "millis": 1e-3, "milliseconds": 1e-3,
          "us": 1e-6, "micros": 1e-6, "microseconds": 1e-6, "ns": 1e-9, "nanos": 1e-9, "nanoseconds": 1e-9}  # fmt: skip
TIMES = ("at", "end", "first")
DURATIONS = ("ttft", "total")
_LETTERS = "|".join(sorted((unit for unit in _UNITS if unit != "s"), key=len, reverse=True))
_SUFFIX = re.compile(rf"(.*?)(?:_?({_LETTERS})|_(s))")
_WORDS = {1.0: "seconds", 1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
_MONEY = {None: "dollars", 1e-9: "nano-dollars"}


class Column(msgspec.Struct, frozen=True):
    """One column of the log, and how many seconds (or dollars) its unit is; None: its values say so themselves."""

    name: str
    unit: float | None = None

    def words(self, field: str) -> str:
        """Its unit, as what it was taken for."""
        if field in TIMES or field in DURATIONS:
            own = "date and time" if field in TIMES else "each with its unit"
            return own if self.unit is None else _WORDS[self.unit]
        return _MONEY[self.unit] if field == "cost" else "tokens" if field.endswith("_tokens") else ""


Mapped = Mapping[str, Column]


def guessed(columns: Sequence[str], said: Sequence[str] = ()) -> dict[str, Column]:
    """The columns by what they say; `said` as in `told`, which wins."""
    mapped = {field: column for field in FIELDS if (column := _find(field, columns)) is not None}
    if "status" in mapped:
        mapped.pop("error", None)
    mapped |= told(columns, said)
    for field in ("model", "endpoint"):
        if mapped.get("target") == mapped.get(field):
            mapped.pop(field, None)
    if "target" not in mapped and "model" in mapped:
        mapped["target"] = mapped.pop("model")
    return mapped


def told(columns: Sequence[str], said: Sequence[str]) -> dict[str, Column]:
    """What options such as `ttft=first_byte_ms` or `total=latency:ms` say.

    Raises `ConfigError` for an option that cannot be, naming the columns there are.
    """
    return dict(_said(option, columns) for option in said)


def _said(option: str, columns: Sequence[str]) -> tuple[str, Column]:
    field, equals, name = option.partition("=")
    if not equals or field not in FIELDS:
        raise ConfigError([f"--map {option}: write FIELD=COLUMN, and FIELD is one of {', '.join(FIELDS)}"])
    if name in columns:
        return field, Column(name, _unit(field, name))
    name, colon, unit = name.rpartition(":")
    if name not in columns or not colon:
        raise ConfigError([f"--map {option}: the log has no such column; it has {', '.join(columns)}"])
    if field not in (*TIMES, *DURATIONS):
        raise ConfigError([f"--map {option}: only times have a unit"])
    if unit not in _UNITS:
        raise ConfigError([f"--map {option}: {unit} is no unit; one of {', '.join(_UNITS)} is"])
    return field, Column(name, _UNITS[unit])


def _find(field: str, columns: Sequence[str]) -> Column | None:
    """The column whose name is the first of the known ones, with or without a unit behind it; of names that lead into
    a row of JSON, the end of the way will do."""
    for shorten in (str, _last):
        plain = {_plain(shorten(name)): name for name in reversed(columns)}
        for known in _NAMES[field]:
            if known in plain:
                return Column(plain[known], _unit(field, plain[known]))
            if field in DURATIONS or field in TIMES:
                for short, name in reversed(plain.items()):
                    if (found := _SUFFIX.fullmatch(short)) and found[1] == known:
                        return Column(name, _unit(field, name))
    return None


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _unit(field: str, name: str) -> float | None:
    """Seconds in the unit that the name ends with; of a duration without any, None: it is to be told by its size."""
    if field in DURATIONS or field in TIMES:
        found = _SUFFIX.fullmatch(_plain(name))
        if found and found[1]:
            return _UNITS[found[2] or found[3]]
    return None


def _plain(name: str) -> str:
    """`timeToFirstToken`, `Time to first token` and `time_to_first_token` are one."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", apart.lower()).strip("_")
