"""Spans from end to end: an SDK with a trace of its own, the gateway, its targets, and a collector that they reach."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from itertools import count

import httpx2
import openai
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.e2e.collector import TAKEN, Collector, attributes
from tests.e2e.support import MESSAGES, GatewayProcess, chat, config, until
from tests.e2e.upstream import Answer, Received, Upstream, always, completion, event, stream, whole

pytestmark = pytest.mark.e2e

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
QUICKLY = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
STREAMED = stream(event({"role": "assistant", "content": ""}), event({"content": "hi"}), event({}, "stop"))


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def late(received: Received) -> Iterator[bytes]:
    """Says nothing until its client has gone."""
    received.over.wait(2)
    yield STREAMED


def ask(gateway: GatewayProcess, headers: dict[str, str] | None = None) -> httpx2.Response:
    return httpx2.post(gateway.url + "/v1/chat/completions", content=chat(), headers=headers or {}, timeout=20)


def by_kind(spans: list[Span], kind: Span.SpanKind.ValueType) -> list[Span]:
    return sorted((span for span in spans if span.kind == kind), key=lambda span: span.start_time_unix_nano)


def test_a_hedged_request_of_the_openai_sdk_is_one_trace_from_its_caller_to_both_targets(collector: Collector) -> None:
    traces = {"endpoint": collector.url, "headers": {"x-collector-key": "k-1"}, "service_name": "edge"}
    with (
        Upstream(late) as slow,
        Upstream(always(STREAMED)) as quick,
        GatewayProcess(
            config(slow.base_url, quick.base_url, delay="50ms", server={"traces": traces}), environ=QUICKLY
        ) as gateway,
        openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client,
    ):
        asked = time.time_ns()
        answer = client.chat.completions.create(model="fast", messages=MESSAGES, stream=True, extra_headers=PARENT)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices) == "hi"
        until(lambda: len(collector.spans) == 3)
        answered = time.time_ns()
        sent = [quick.requests[0], slow.requests[0]]
    (request,) = by_kind(collector.spans, Span.SPAN_KIND_SERVER)
    first, hedge = by_kind(collector.spans, Span.SPAN_KIND_CLIENT)
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert request.parent_span_id.hex() == SPAN
    assert first.parent_span_id == hedge.parent_span_id == request.span_id
    assert [link.span_id for link in hedge.links] == [first.span_id]
    assert not first.links
    for received, span in zip(sent, (hedge, first), strict=True):
        assert received.headers["traceparent"].split("-")[1:3] == [TRACE, span.span_id.hex()]
        assert received.headers["tracestate"] == "vendor=1"
    said = attributes(request.attributes)
    assert said["gen_ai.operation.name"] == "chat"
    assert said["hedgerow.winner.target"] == "backup"
    assert [attributes(span.attributes)["hedgerow.outcome"] for span in (first, hedge)] == ["superseded", "won"]
    assert [span.status.code for span in (request, first, hedge)] == [Status.STATUS_CODE_UNSET] * 3
    for span in collector.spans:
        assert asked <= span.start_time_unix_nano < span.end_time_unix_nano <= answered
    assert collector.requests[0].target == "/v1/traces"
    assert collector.requests[0].headers["x-collector-key"] == "k-1"
    assert collector.resource["service.name"] == "edge"


def test_the_environment_names_collector_and_service_as_for_any_program(collector: Collector) -> None:
    environ = QUICKLY | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-collector-key=k-2",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_SERVICE_NAME": "named",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    with (
        Upstream(always(whole(completion("hi")))) as upstream,
        GatewayProcess(config(upstream.base_url, server={"traces": {}}), environ=environ) as gateway,
    ):
        assert ask(gateway).status_code == 200
        until(lambda: len(collector.spans) == 2)
    assert collector.requests[0].headers["x-collector-key"] == "k-2"
    assert collector.resource["service.name"] == "named"
    assert collector.resource["deployment.environment.name"] == "test"


def test_what_waits_is_sent_when_the_gateway_stops(collector: Collector) -> None:
    traces = {"endpoint": collector.url}
    with (
        Upstream(always(whole(completion("hi")))) as upstream,
        GatewayProcess(
            config(upstream.base_url, server={"traces": traces}), environ={"OTEL_BSP_SCHEDULE_DELAY": "600000"}
        ) as gateway,
    ):
        for _ in range(10):
            assert ask(gateway).status_code == 200
        assert collector.spans == []
        assert gateway.stop() == 0
        assert len(collector.spans) == 20


def refusing(times: int) -> Answer:
    """Refuses so many times, in a way that is not tried again, then takes what comes."""
    asked = count()
    return lambda _: (whole(b"", status="400 Bad Request") if next(asked) < times else TAKEN,)


def test_a_collector_that_refuses_is_told_of_once_and_what_it_cost_when_it_is_back(collector: Collector) -> None:
    collector.answer = refusing(3)
    with (
        Upstream(always(whole(completion("hi")))) as upstream,
        GatewayProcess(
            config(upstream.base_url, server={"traces": {"endpoint": collector.url}}), environ=QUICKLY
        ) as gateway,
    ):
        for number in range(1, 5):
            assert ask(gateway).status_code == 200
            until(lambda number=number: len(collector.requests) >= number)  # type: ignore[misc]
        until(lambda: "spans are sent again" in gateway.log)
        said = [line for line in gateway.log.splitlines() if "traces" in line or "opentelemetry" in line]
        assert len(said) == 2, said
        assert "ERROR hedgerow.telemetry traces: spans cannot be sent and are being lost: " in said[0]
        assert "400" in said[0]
        assert "Bad Request" in said[0]
        assert said[1].endswith("traces: spans are sent again; 6 were lost")


@pytest.mark.parametrize("there", [False, True], ids=["nobody listens", "nobody answers"])
def test_a_collector_that_does_not_answer_holds_neither_requests_nor_the_end(there: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, Upstream(always(whole(completion("hi")))) as upstream:
        port = silent.getsockname()[1]
        if not there:
            silent.close()
        traces = {"endpoint": f"http://127.0.0.1:{port}"}
        environ = QUICKLY | {"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}
        with GatewayProcess(config(upstream.base_url, server={"traces": traces}), environ=environ) as gateway:
            for _ in range(20):
                assert ask(gateway).status_code == 200
            until(lambda: "spans cannot be sent and are being lost" in gateway.log)
            began = time.monotonic()
            assert gateway.stop() == 0
            assert time.monotonic() - began < 10
            said = [line for line in gateway.log.splitlines() if "traces" in line or "opentelemetry" in line]
            assert len(said) == 2, said
            assert said[1].endswith("traces: 40 spans were lost")


def test_a_disabled_sdk_makes_no_spans_and_leaves_what_clients_say(collector: Collector) -> None:
    with (
        Upstream(always(whole(completion("hi")))) as upstream,
        GatewayProcess(
            config(upstream.base_url, server={"traces": {"endpoint": collector.url}}),
            environ={"OTEL_SDK_DISABLED": "true"},
        ) as gateway,
    ):
        assert ask(gateway, PARENT).status_code == 200
        assert upstream.requests[0].headers["traceparent"] == PARENT["traceparent"]
        assert gateway.stop() == 0
        assert "traces: off, since OTEL_SDK_DISABLED is true" in gateway.log
    assert collector.requests == []
