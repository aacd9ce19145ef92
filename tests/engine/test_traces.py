"""Spans against OpenTelemetry's own in-memory exporter, with the gateway's core in virtual time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from hedgerow.config import Settings
from hedgerow.events import Event, RequestBilled
from hedgerow.gateway.build import Builder
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.telemetry.traces import Traces
from hedgerow.testing import VirtualLoop, run_virtual
from tests.effects.support import LATE, QUICK, SILENT, STALLS, STREAM, WHOLE, Document, document, settings, token
from tests.engine.scripted import JSON, Answer, RecordingExchange, Script, ScriptedPool

EPOCH = 1_800_000_000.0
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SPAN = PARENT.split("-")[1:3]
HEDGED: Document = {
    "targets": {"a": {"base_url": "https://api.openai.com/v1"}, "b": {"base_url": "http://b.example:8000/v1"}},
    "routes": {"fast": {"targets": ["a", "b"], "hedge": {"delay": "1s", "budget": "off"}}},
}
USAGE = b'{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}'
USED = Answer(
    [
        (0.1, token("hello")),
        (0.1, b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'),
        (0.0, b'data: {"choices":[],"usage":%b}\n\n' % USAGE),
        (0.0, b"data: [DONE]\n\n"),
    ]
)
FAILS = Answer([(0.0, b'{"error":{"message":"SECRET-ANSWER","type":"server_error"}}')], status=500, headers=JSON)


class Played:
    """What came of one request: its spans, and the heads of the attempts in the order of their launch."""

    def __init__(
        self,
        configured: Settings,
        scripts: Mapping[str, Script],
        body: bytes = STREAM,
        *,
        headers: Sequence[tuple[bytes, bytes]] = ((b"traceparent", PARENT.encode()),),
        sampler: Sampler | None = None,
        leaves_after: float | None = None,
        path: bytes = b"/v1/chat/completions",
        traced: bool = True,
    ) -> None:
        self.events: list[Event] = []
        exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))

        async def main(loop: VirtualLoop) -> list[tuple[float, bytes]]:
            pools: dict[str, ScriptedPool] = {}

            def make_pool(name: str, _origin: Origin, _settings: PoolSettings) -> ScriptedPool:
                pools[name] = ScriptedPool(loop, scripts.get(name, QUICK))
                return pools[name]

            self.began = loop.time()
            traces = Traces(provider, epoch=EPOCH - self.began)
            builder = Builder([traces, self.events.append] if traced else [], make_pool)  # type: ignore[arg-type]
            gateway, parts = builder.gateway(blueprint_of(configured), loop)
            gateway.request_ids = map("r-%d".__mod__, count(1))
            parts.shared.draw = lambda: 0.0
            exchange = RecordingExchange(loop, body, path, list(headers), b"POST")
            gateway(exchange)
            if leaves_after is not None:
                loop.call_later(leaves_after, exchange.leave)
            await asyncio.sleep(2000)
            traces.close()
            return sorted((at, head) for pool in pools.values() for at, head, _ in pool.requests)

        self.heads = [head for _, head in run_virtual(main)]
        spans = exporter.get_finished_spans()
        self.attempts = sorted((s for s in spans if s.kind is SpanKind.CLIENT), key=lambda s: at(s, "hedgerow.attempt"))
        requests = [span for span in spans if span.kind is SpanKind.SERVER]
        self.request = requests[0] if requests else None
        assert len(requests) <= 1
        assert len(spans) == len(requests) + len(self.attempts)


def at(span: ReadableSpan | None, name: str) -> Any:
    """What the span says under this name; None for nothing."""
    assert span is not None
    assert span.attributes is not None
    return span.attributes.get(name)


def ids(span: ReadableSpan | None) -> SpanContext:
    assert span is not None
    context = span.context
    assert isinstance(context, SpanContext)
    return context


def seconds(span: ReadableSpan | None) -> tuple[float, float]:
    """When it began and ended, since the request came."""
    assert span is not None
    assert span.start_time is not None
    assert span.end_time is not None
    return round(span.start_time / 1e9 - EPOCH, 3), round(span.end_time / 1e9 - EPOCH, 3)


def events(span: ReadableSpan | None) -> list[tuple[str, float, dict[str, Any]]]:
    assert span is not None
    return [(each.name, round(each.timestamp / 1e9 - EPOCH, 3), dict(each.attributes or {})) for each in span.events]


def traceparent(head: bytes) -> bytes:
    (value,) = re.findall(rb"\r\ntraceparent: ([^\r]*)\r\n", head)
    assert isinstance(value, bytes)
    return value


def test_a_hedged_request_is_one_operation_with_a_span_for_each_attempt_and_a_link_between_them() -> None:
    played = Played(settings(base=HEDGED), {"a": SILENT, "b": USED})
    request, (first, hedge) = played.request, played.attempts
    assert request is not None
    assert request.parent is not None
    assert (f"{request.parent.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, SPAN)
    assert {f"{ids(span).trace_id:032x}" for span in (request, first, hedge)} == {TRACE}
    assert first.parent == hedge.parent == ids(request)
    assert first.links == ()
    (link,) = hedge.links
    assert link.context == ids(first)
    assert dict(link.attributes or {}) == {"hedgerow.role": "hedge"}
    assert (seconds(request), seconds(first), seconds(hedge)) == ((0.0, 1.2), (0.0, 1.1), (1.0, 1.2))
    assert [(span.status.status_code, span.name) for span in (request, first, hedge)] == [
        (StatusCode.UNSET, "chat fast")
    ] * 3


def test_spans_speak_the_words_of_the_genai_conventions() -> None:
    played = Played(settings(base=HEDGED), {"a": SILENT, "b": USED})
    said = dict(played.request.attributes or {}) if played.request else {}
    told = said.pop("gen_ai.response.time_to_first_chunk")
    assert isinstance(told, float)
    assert round(told, 6) == 1.1
    assert {name: value for name, value in said.items() if "cost" not in name and name != "hedgerow.tenant"} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fast",
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "hedgerow.request.id": "r-1",
        "hedgerow.route": "fast",
        "hedgerow.protocol": "openai.chat",
        "hedgerow.outcome": "won",
        "hedgerow.attempts": 2,
        "hedgerow.hedged": True,
        "hedgerow.winner.attempt": 1,
        "hedgerow.winner.target": "b",
        "http.response.status_code": 200,
        **({"gen_ai.response.finish_reasons": ("stop",)} if "gen_ai.response.finish_reasons" in said else {}),
    }
    first, hedge = played.attempts
    assert (at(first, "server.address"), at(first, "server.port"), at(first, "gen_ai.provider.name")) == (
        "api.openai.com",
        443,
        "openai",
    )
    assert (at(hedge, "server.address"), at(hedge, "server.port")) == ("b.example", 8000)
    assert [at(span, "hedgerow.outcome") for span in played.attempts] == ["superseded", "won"]
    assert [at(span, "hedgerow.role") for span in played.attempts] == ["primary", "hedge"]
    assert [at(span, "gen_ai.usage.input_tokens") for span in played.attempts] == [None, None]
    assert at(hedge, "hedgerow.usage.output_tokens") == 3
    assert at(hedge, "hedgerow.usage.source") == "reported"
    assert round(at(hedge, "gen_ai.response.time_to_first_chunk"), 6) == 0.1
    assert events(hedge) == [("hedgerow.first_token", 1.1, {})]


def test_spans_say_what_attempts_come_to_and_how_sure_that_is() -> None:
    price = {"input": 1, "output": 2}
    played = Played(
        settings({"targets.<name>.price": price, "targets.b.price": price}, base=HEDGED), {"a": SILENT, "b": USED}
    )
    (billed,) = [event for event in played.events if isinstance(event, RequestBilled)]
    for bill, span in zip(billed.bills, played.attempts, strict=True):
        assert at(span, "hedgerow.cost.nanousd") == bill.nanousd
        assert at(span, "hedgerow.cost.certainty") == bill.certainty.value
        assert at(span, "hedgerow.cost.least_nanousd") == bill.least
        assert at(span, "hedgerow.cost.most_nanousd") == bill.most
    assert at(played.attempts[1], "hedgerow.cost.certainty") == "exact"
    assert at(played.request, "hedgerow.cost.nanousd") == sum(bill.nanousd or 0 for bill in billed.bills) > 0


def test_every_attempt_is_sent_with_its_own_span_as_the_parent_of_what_comes_below() -> None:
    """dotnet's issue 4686: a hedge was sent with what belonged to the attempt before it (B15)."""
    state = [(b"traceparent", PARENT.encode()), (b"tracestate", b"a=1"), (b"tracestate", b"b=2"), (b"x-own", b"stays")]
    played = Played(settings(base=HEDGED), {"a": SILENT, "b": USED}, headers=state)
    assert len(played.heads) == 2
    for head, span in zip(played.heads, played.attempts, strict=True):
        assert traceparent(head).decode() == f"00-{TRACE}-{ids(span).span_id:016x}-01"
        assert b"\r\ntracestate: a=1,b=2\r\n" in head
        assert head.count(b"tracestate") == 1
        assert b"\r\nx-own: stays\r\n" in head


def test_without_traces_what_clients_send_passes_as_it_is() -> None:
    fields = [(b"traceparent", b"whatever it is"), (b"tracestate", b"a=1")]
    played = Played(settings(base=HEDGED), {"a": QUICK}, headers=fields, traced=False)
    assert traceparent(played.heads[0]) == b"whatever it is"
    assert b"\r\ntracestate: a=1\r\n" in played.heads[0]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [(b"traceparent", b"nonsense"), (b"tracestate", b"a=1")],
        [(b"traceparent", PARENT.encode())] * 2,
        [(b"traceparent", f"00-{'0' * 32}-{SPAN}-01".encode())],
        [(b"traceparent", f"ff-{TRACE}-{SPAN}-01".encode())],
        [(b"traceparent", f"{PARENT}-more".encode())],
    ],
    ids=["none", "nonsense", "two", "no trace", "version ff", "too long for its version"],
)
def test_without_a_parent_that_can_be_made_out_a_trace_begins_here(fields: list[tuple[bytes, bytes]]) -> None:
    played = Played(settings(base=HEDGED), {"a": QUICK}, headers=fields)
    assert played.request is not None
    assert played.request.parent is None
    (span,) = played.attempts
    flags = ids(span).trace_flags
    assert flags.sampled
    sent = traceparent(played.heads[0]).decode()
    assert sent == f"00-{ids(span).trace_id:032x}-{ids(span).span_id:016x}-{flags:02x}"
    assert TRACE not in sent
    assert b"tracestate" not in played.heads[0]


def test_what_a_later_version_of_the_header_adds_is_not_minded() -> None:
    later = f"01-{TRACE}-{SPAN}-01-more".encode()
    played = Played(settings(base=HEDGED), {"a": QUICK}, headers=[(b"traceparent", later)])
    assert played.request is not None
    assert played.request.parent is not None
    assert f"{played.request.parent.trace_id:032x}" == TRACE


@pytest.mark.parametrize("fields", [[(b"traceparent", f"{PARENT[:-2]}00".encode())], []], ids=["by client", "by us"])
def test_what_is_not_sampled_is_not_recorded_and_says_so_to_those_below(fields: list[tuple[bytes, bytes]]) -> None:
    sampler = None if fields else ParentBased(ALWAYS_OFF)
    played = Played(settings(base=HEDGED), {"a": SILENT, "b": QUICK}, headers=fields, sampler=sampler)
    assert played.request is None
    assert played.attempts == []
    sent = [traceparent(head).decode().split("-") for head in played.heads]
    assert len(sent) == 2
    assert len({trace for _, trace, _, _ in sent}) == 1
    assert len({span for _, _, span, _ in sent} | {SPAN}) == 3
    assert {int(flags, 16) & 1 for _, _, _, flags in sent} == {0}


def test_a_failed_attempt_is_an_error_of_its_class_and_what_follows_links_to_it() -> None:
    played = Played(settings(base=HEDGED), {"a": FAILS, "b": QUICK})
    failed, failover = played.attempts
    assert failed.status.status_code is StatusCode.ERROR
    assert at(failed, "error.type") == "server_error"
    assert at(failed, "http.response.status_code") == 500
    assert failover.links[0].context == ids(failed)
    assert at(failover, "hedgerow.role") == "failover"
    for span in (failover, played.request):
        assert span is not None
        assert span.status.status_code is StatusCode.UNSET
        assert at(span, "error.type") is None
    assert at(played.request, "hedgerow.hedged") is False


def test_a_request_that_fails_is_an_error_and_one_that_asks_for_what_cannot_be_is_none() -> None:
    alone = document({"routes.fast.targets": ["a"]}, HEDGED)
    failed = Played(settings(base=alone), {"a": FAILS}).request
    assert failed is not None
    assert failed.status.status_code is StatusCode.ERROR
    assert (at(failed, "error.type"), at(failed, "http.response.status_code")) == ("server_error", 500)
    unfit = Answer([(0.0, b'{"error":{"message":"no","type":"invalid_request_error"}}')], status=400, headers=JSON)
    played = Played(settings(base=alone), {"a": unfit})
    assert played.request is not None
    assert played.request.status.status_code is StatusCode.UNSET
    assert (at(played.request, "error.type"), at(played.request, "http.response.status_code")) == (None, 400)
    assert played.attempts[0].status.status_code is StatusCode.ERROR
    assert at(played.attempts[0], "error.type") == "fatal_request"


def test_an_answer_that_breaks_off_is_an_error_though_its_status_was_200() -> None:
    alone = document({"routes.fast.targets": ["a"]}, HEDGED)
    played = Played(settings(base=alone), {"a": STALLS})
    for span in (played.request, *played.attempts):
        assert span is not None
        assert span.status.status_code is StatusCode.ERROR
        assert at(span, "hedgerow.outcome") == "failed_after_commit"
        assert at(span, "error.type") == "timeout_stall"


def test_a_client_that_leaves_makes_no_error() -> None:
    played = Played(settings(base=HEDGED), {"a": SILENT}, leaves_after=0.5)
    assert [at(span, "hedgerow.outcome") for span in (played.request, *played.attempts)] == ["client_gone"] * 2
    assert [span.status.status_code for span in (played.request, *played.attempts) if span] == [StatusCode.UNSET] * 2
    assert seconds(played.request) == (0.0, 0.5)


def test_why_no_hedge_was_launched_is_an_event() -> None:
    played = Played(settings({"routes.<name>.hedge.kill_switch": True}, base=HEDGED), {"a": LATE})
    skipped = {"hedgerow.reason": "kill_switch", "hedgerow.role": "hedge"}
    ((name, when, about),) = events(played.request)
    assert (name, when) == ("hedgerow.hedge_skipped", 1.0)
    assert skipped.items() <= about.items()


def test_what_a_gate_says_is_an_event_of_the_attempt() -> None:
    base = document({"routes.fast.gates": {"require": ["json"]}}, HEDGED)
    good = Answer([(0.0, b'{"choices":[{"message":{"content":"{}"},"finish_reason":"stop"}]}')], headers=JSON)
    bad = Answer([(0.0, b'{"choices":[{"message":{"content":"SECRET-ANSWER"},"finish_reason":"stop"}]}')], headers=JSON)
    played = Played(settings(base=base), {"a": bad, "b": good}, WHOLE)
    name, _, about = events(played.attempts[0])[0]
    assert (name, about["hedgerow.gate"], about["hedgerow.delivered"]) == ("hedgerow.answer_rejected", "json", False)
    assert at(played.attempts[0], "hedgerow.outcome") == "rejected"


def test_racers_link_to_the_attempt_beside_them() -> None:
    played = Played(settings({"routes.<name>.hedge": {"mode": "race"}}, base=HEDGED), {"a": LATE, "b": QUICK})
    first, racer = played.attempts
    assert racer.links[0].context == ids(first)
    assert at(played.request, "hedgerow.hedged") is True


def test_other_endpoints_have_spans_and_say_nothing_of_inference() -> None:
    played = Played(settings(base=HEDGED), {"a": Answer([(0.0, b"{}")], headers=JSON)}, b"{}", path=b"/v1/files")
    assert played.request is not None
    assert played.request.name == "http.passthrough fast"
    for span in (played.request, *played.attempts):
        assert span is not None
        assert not any(name.startswith("gen_ai.") for name in span.attributes or {})
    assert len(played.attempts) == 1


def test_nothing_of_prompts_answers_and_keys_is_in_a_span() -> None:
    body = STREAM.replace(b"[]", b'[{"role":"user","content":"SECRET-PROMPT"}]')
    fields = [(b"authorization", b"Bearer SECRET-KEY"), (b"x-any", b"SECRET-FIELD")]
    for script in (FAILS, Answer([(0.1, token("SECRET-ANSWER"))], end="hang"), LATE):
        played = Played(settings(base=HEDGED), {"a": script, "b": script}, body, headers=fields)
        told = "".join(span.to_json() for span in (played.request, *played.attempts) if span)
        assert told
        assert "SECRET" not in told
