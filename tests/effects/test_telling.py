"""server.traces, log_format, access_log: what the serving process tells of its requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.collector import Collector
from tests.e2e.support import GatewayProcess, until
from tests.e2e.upstream import Upstream, always, completion, whole
from tests.effects.support import WHOLE, Document, document, effect_of
from tests.effects.test_server import post

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream(always(whole(completion("hi")))) as upstream:
        yield upstream


def served(upstream: Upstream, changes: dict[str, object]) -> GatewayProcess:
    base: Document = {
        "targets": {"a": {"base_url": upstream.base_url}},
        "routes": {"fast": {"targets": ["a"]}},
        "server": {"listen": "127.0.0.1:0"},
    }
    return GatewayProcess(document(changes, base), environ={"OTEL_BSP_SCHEDULE_DELAY": "20"})


def asked(gateway: GatewayProcess, times: int = 1) -> None:
    for _ in range(times):
        assert post(gateway, WHOLE)[0] == 200


@effect_of("server.traces.endpoint")
def test_spans_go_to_the_endpoint_and_to_nobody_without_one(key: str, upstream: Upstream) -> None:
    with Collector() as one, Collector() as other:
        with served(upstream, {key: one.url}) as gateway:
            asked(gateway)
            until(lambda: len(one.spans) == 2)
        with served(upstream, {key: f"{other.url}/own/path"}) as gateway:
            asked(gateway)
            until(lambda: len(other.spans) == 2)
        assert [one.requests[0].target, other.requests[0].target] == ["/v1/traces", "/own/path"]
        assert len(one.spans) == 2
        with served(upstream, {}) as gateway:
            asked(gateway)
            assert gateway.stop() == 0
        assert len(one.spans) == len(other.spans) == 2


@effect_of("server.traces.headers")
def test_the_collector_gets_the_headers(key: str, upstream: Upstream) -> None:
    with Collector() as collector:
        with served(upstream, {"server.traces.endpoint": collector.url, key: {"X-Team": "blue"}}) as gateway:
            asked(gateway)
            until(lambda: collector.requests != [])
        assert collector.requests[0].headers["x-team"] == "blue"


@effect_of("server.traces.service_name")
def test_spans_name_their_service(key: str, upstream: Upstream) -> None:
    for changes, name in (({}, "hedgerow"), ({key: "edge"}, "edge")):
        with Collector() as collector:
            with served(upstream, {"server.traces.endpoint": collector.url, **changes}) as gateway:
                asked(gateway)
                until(lambda seen=collector: seen.requests != [])  # type: ignore[misc]
            assert collector.resource["service.name"] == name


@effect_of("server.traces.sample")
@pytest.mark.parametrize(
    ("share", "least", "most"), [("0%", 0, 0), ("50%", 20, 80), ("100%", 100, 100), (None, 100, 100)]
)
def test_a_share_of_traces_is_recorded(key: str, share: str | None, least: int, most: int, upstream: Upstream) -> None:
    with Collector() as collector:
        with served(upstream, {"server.traces.endpoint": collector.url, key: share}) as gateway:
            asked(gateway, 100)
            assert gateway.stop() == 0
        assert least <= len({span.trace_id for span in collector.spans}) <= most


def said(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """The lines that are JSON."""
    return [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]


@effect_of("server.log_format")
@pytest.mark.parametrize("form", ["json", "console"])
def test_the_log_is_for_machines_or_for_people(key: str, form: str, upstream: Upstream) -> None:
    with served(upstream, {key: form, "server.log_level": "debug"}) as gateway:
        asked(gateway)
        assert gateway.stop() == 0
        lines = [line for line in said(gateway) if line.get("outcome") == "won"]
        if form == "json":
            assert [line["message"] for line in said(gateway)][-1].startswith("draining: ")
            (line,) = lines
            assert (line["level"], line["logger"], line["route"], line["status"]) == (
                "debug",
                "hedgerow.gateway",
                "fast",
                200,
            )
            assert line["request_id"] in line["message"]
        else:
            assert lines == []
            assert "DEBUG hedgerow.gateway request hr-" in gateway.log


@effect_of("server.access_log")
@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("on", [True, False])
def test_every_request_has_a_line(key: str, on: bool, form: str, upstream: Upstream) -> None:
    with served(upstream, {key: on, "server.log_format": form, "server.log_level": "error"}) as gateway:
        asked(gateway)
        assert post(gateway, b'{"model":"nobody"}')[0] == 404
        assert gateway.stop() == 0
        lines = [line for line in gateway.log.splitlines() if "hedgerow.access" in line]
    assert len(lines) == (2 if on else 0)
    if on and form == "json":
        told, refused = map(json.loads, lines)
        whole_line = {"method": "POST", "path": "/v1/chat/completions", "status": 200, "route": "fast", "target": "a"}
        whole_line |= {"attempts": 1, "hedged": False, "stream": False, "outcome": "won", "model": "fast"}
        assert whole_line.items() <= told.items()
        assert told["total_ms"] >= told["first_token_ms"] >= 0  # the loop's clock counts milliseconds
        assert told["bytes"] == len(completion("hi"))
        assert told["peer"].startswith("127.0.0.1:")
        assert told["request_id"].startswith("hr-")
        assert (refused["status"], refused["path"]) == (404, "/v1/chat/completions")
    elif on:
        assert " INFO hedgerow.access POST /v1/chat/completions 200 peer=127.0.0.1:" in lines[0]
        assert " route=fast model=fast target=a attempts=1 hedged=false stream=false " in lines[0]
        assert " INFO hedgerow.access POST /v1/chat/completions 404 peer=127.0.0.1:" in lines[1]
