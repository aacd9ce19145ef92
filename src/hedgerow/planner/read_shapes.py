"""Logs of systems that are known: which of their columns says what, and which rows say nothing of a target.

docs/planner-logs.md names the source of each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hedgerow.errors import ConfigError
from hedgerow.planner.columns import Column
from hedgerow.planner.log import CACHED, REFUSED

_NAMED = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class Shape:
    """`needs`: the columns it is known by. `instead`: SQL of a field that is no plain column; it and `unusable`, SQL
    of what makes a row say nothing and why, hold where all columns in them are there. `where`: which rows count.
    """

    name: str
    needs: frozenset[str]
    fields: Mapping[str, Column]
    instead: Mapping[str, str] = field(default_factory=dict)
    unusable: Sequence[tuple[str, str]] = ()
    where: str = "true"
    notes: tuple[str, ...] = ()

    def fitted(self, columns: Collection[str]) -> Shape:
        """What of it there is in a table with these columns."""
        instead = {name: sql for name, sql in self.instead.items() if named(sql) <= set(columns)}
        others = {name: Column(min(named(sql)), self.fields[name].unit) for name, sql in instead.items()}
        return Shape(
            self.name,
            self.needs,
            others | {name: column for name, column in self.fields.items() if column.name in columns},
            instead,
            [(sql, why) for sql, why in self.unusable if named(sql) <= set(columns)],
            self.where,
            self.notes,
        )


def named(sql: str) -> set[str]:
    """The columns that are in it."""
    return set(_NAMED.findall(sql))


GENERIC = Shape("", frozenset(), {})
"""A log of whose columns nothing is known but their names."""
_NANO, _MICRO = 1e-9, 1e-6

LEDGER = Shape(
    "hedgerow's ledger",
    frozenset({"process", "number", "attempt", "target", "role", "outcome", "launched_at", "first_token_at"}),
    {
        "at": Column("launched_at", _MICRO),
        "first": Column("first_token_at", _MICRO),
        "end": Column("ended_at", _MICRO),
        "target": Column("target"),
        "input_tokens": Column("input_tokens"),
        "output_tokens": Column("output_tokens"),
        "status": Column("outcome"),
        "request": Column("number"),
        "cost": Column("cost_nanousd", _NANO),
    },
    {
        "first": 'case when lower("stream"::varchar) = \'false\' then null else "first_token_at" end',
        "request": '"process" || \':\' || "number"',
        "status": "case when \"error_class\" = 'rate_limited' then '429' else \"outcome\" end",
    },
    [("\"error_class\" in ('fatal_request', 'content_policy')", REFUSED)],
)
LITELLM = Shape(
    "LiteLLM spend logs",
    frozenset({"request_id", "call_type", "startTime", "endTime", "spend"}),
    {
        "at": Column("startTime"),
        "first": Column("completionStartTime"),
        "end": Column("endTime"),
        "target": Column("custom_llm_provider"),
        "model": Column("model"),
        "endpoint": Column("api_base"),
        "input_tokens": Column("prompt_tokens"),
        "output_tokens": Column("completion_tokens"),
        "status": Column("status"),
        "cost": Column("spend"),
    },
    {"first": 'nullif("completionStartTime", "endTime")'},
    [("lower(\"cache_hit\") = 'true'", CACHED)],
    notes=(
        "LiteLLM's times of a request include its own retries",
        "where completionStartTime equals endTime the answer was not streamed",
    ),
)
LANGFUSE = Shape(
    "Langfuse observations",
    frozenset({"type", "start_time", "end_time", "provided_model_name", "completion_start_time"}),
    {
        "at": Column("start_time"),
        "first": Column("completion_start_time"),
        "end": Column("end_time"),
        "target": Column("provided_model_name"),
        "input_tokens": Column("usage_details.input"),
        "output_tokens": Column("usage_details.output"),
        "status": Column("level"),
        "cost": Column("total_cost"),
    },
    {
        "input_tokens": "json_extract_string(\"usage_details\", '$.input')",
        "output_tokens": "json_extract_string(\"usage_details\", '$.output')",
    },
    where="\"type\" = 'GENERATION'",
    notes=("only observations of type GENERATION count",),
)
SPANS = Shape(
    "OpenTelemetry spans",
    frozenset({"start", "end", "gen_ai.operation.name"}),
    {
        "at": Column("start", _NANO),
        "end": Column("end", _NANO),
        "ttft": Column("gen_ai.response.time_to_first_chunk", 1.0),
        "target": Column("gen_ai.provider.name"),
        "model": Column("gen_ai.request.model"),
        "endpoint": Column("server.address"),
        "input_tokens": Column("gen_ai.usage.input_tokens"),
        "output_tokens": Column("gen_ai.usage.output_tokens"),
        "status": Column("error.type"),
        "request": Column("hedgerow.request.id"),
        "cost": Column("hedgerow.cost.nanousd", _NANO),
    },
    {
        "target": 'coalesce("hedgerow.target", "gen_ai.provider.name", "gen_ai.system")',
        "model": 'case when "hedgerow.target" is null '
        'then coalesce("gen_ai.request.model", "gen_ai.response.model") end',
        "endpoint": 'case when "hedgerow.target" is null then "server.address" end',
        "input_tokens": 'coalesce("hedgerow.usage.input_tokens", "gen_ai.usage.input_tokens")',
        "output_tokens": 'coalesce("hedgerow.usage.output_tokens", "gen_ai.usage.output_tokens")',
        "status": 'coalesce("hedgerow.outcome", case when "error.type" is not null '
        "or \"status\" in ('2', 'STATUS_CODE_ERROR') then coalesce(\"http.response.status_code\", 'error') end)",
    },
    [("\"error.type\" in ('fatal_request', 'content_policy')", REFUSED)],
    notes=("spans of servers, agents and tools do not count",),
)
BENCHMARK = Shape(
    "vLLM benchmark",
    frozenset({"ttfts", "start_times", "input_lens", "errors"}),
    {
        "at": Column("start_times", 1.0),
        "ttft": Column("ttfts", 1.0),
        "target": Column("model_id"),
        "input_tokens": Column("input_lens"),
        "output_tokens": Column("output_lens"),
        "error": Column("errors"),
    },
)
LLMPERF = Shape(
    "LLMPerf responses",
    frozenset({"ttft_s", "end_to_end_latency_s", "number_input_tokens", "error_code"}),
    {
        "ttft": Column("ttft_s", 1.0),
        "total": Column("end_to_end_latency_s", 1.0),
        "input_tokens": Column("number_input_tokens"),
        "output_tokens": Column("number_output_tokens"),
        "error": Column("error_code"),
    },
)
SHAPES = (LEDGER, LITELLM, LANGFUSE, SPANS, BENCHMARK, LLMPERF)
_NOT_THESE = (
    ({"winner_target", "unhedged_at", "route"}, "hedgerow ledger export --what attempts"),
    ({"hour", "first_token_us"}, "hedgerow ledger export --what attempts"),
    ({"ttft_p50_ms", "ttft_p99_ms"}, "one row for each request"),
)


def shape_of(name: str, columns: Collection[str]) -> Shape:
    """The one of a table with these columns. Raises `ConfigError` for what is known not to help."""
    for those, needed in _NOT_THESE:
        if those <= set(columns):
            raise ConfigError([f"{name}: these rows are no attempts, but requests or sums; the planner needs {needed}"])
    return next((each.fitted(columns) for each in SHAPES if each.needs <= set(columns)), GENERIC)
