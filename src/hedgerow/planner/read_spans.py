"""OpenTelemetry spans as a table: OTLP in JSON, as the Collector's file exporter writes it."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.planner.read_tables import Table, quoted, text

ATTRIBUTES = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.system",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "server.address",
    "error.type",
    "http.response.status_code",
    "hedgerow.request.id",
    "hedgerow.attempt",
    "hedgerow.target",
    "hedgerow.outcome",
    "hedgerow.usage.input_tokens",
    "hedgerow.usage.output_tokens",
    "hedgerow.cost.nanousd",
)
"""Those that can be asked for, `gen_ai.system` as it was before `gen_ai.provider.name`."""
INFERENCES = ("chat", "text_completion", "generate_content", "embeddings")
"""`gen_ai.operation.name` of what goes to a model and not to an agent or a tool."""
_OF_SPAN = {
    "start": "json_extract_string(span, '$.startTimeUnixNano')",
    "end": "json_extract_string(span, '$.endTimeUnixNano')",
    "status": "json_extract_string(span, '$.status.code')",
    "kind": "json_extract_string(span, '$.kind')",
}
_VALUE = "coalesce(each->>'$.value.stringValue', each->>'$.value.doubleValue', each->>'$.value.intValue')"


def spans(source: str) -> Table:
    """The inferences among the spans: of clients and within, not of servers, which are requests to one's own service.

    A request that hedgerow answers is the span of a server, each of its attempts that of a client.
    """
    inside = "json_extract(json, '$.resourceSpans[*].scopeSpans[*].spans[*]')"
    every = f"select unnest(case when json is null then [null::json] else {inside} end) as span from ({source})"
    operation = _attribute("gen_ai.operation.name")
    those = ", ".join(map(text, INFERENCES))

    def rows(names: Sequence[str]) -> str:
        shown = ", ".join(f"{_OF_SPAN.get(name) or _attribute(name)} as {quoted(name)}" for name in names)
        entries = (
            f"list_transform(json_extract(span, '$.attributes[*]'), lambda each: "
            f"{{'key': each->>'$.key', 'value': {_VALUE}}})"
        )
        return (
            f"select {shown}, span is null as torn from (select span, {entries} as attributes from ({every}) "
            f"where span is null or contains(span::varchar, 'gen_ai.operation.name')) "
            f"where span is null or {operation} in ({those}) and {_OF_SPAN['kind']} is distinct from '2' "
            f"and {_OF_SPAN['kind']} is distinct from 'SPAN_KIND_SERVER'"
        )

    return Table(dict.fromkeys((*_OF_SPAN, *ATTRIBUTES), "VARCHAR"), rows)


def _attribute(name: str) -> str:
    return f"list_filter(attributes, lambda each: each.key = {text(name)})[1].value"
