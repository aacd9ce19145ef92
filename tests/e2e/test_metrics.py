"""`/metrics` of real gateways: formats, whose numbers, and what several processes on one port come to."""

from __future__ import annotations

import gzip
import http.client
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from hedgerow.lab.process import LabProcess
from hedgerow.telemetry.families import FAMILIES
from hedgerow.telemetry.shared_metrics import Snapshot
from tests.e2e.support import Config, GatewayProcess, config, script, until

pytestmark = pytest.mark.e2e

BODY = b'{"model":"fast","stream":true,"messages":[{"role":"user","content":"Say hedge."}]}'
QUICK = script(ttft_ms=0, gap_ms=0, tokens=3)
Numbers = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def lab() -> Iterator[LabProcess]:
    with LabProcess([]) as process:
        yield process


def get(gateway: GatewayProcess, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(*gateway.address, timeout=20)
    try:
        connection.request("GET", "/metrics", headers={name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def numbers(gateway: GatewayProcess) -> Numbers:
    """Every sample that a scrape shows."""
    _, body = get(gateway)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in plain(body.decode())
        for sample in family.samples
    }


def total(found: Numbers, name: str, **labels: str) -> float:
    """The sum of a metric's samples with these labels."""
    return sum(value for (each, its), value in found.items() if each == name and labels.items() <= dict(its).items())


def ask(gateway: GatewayProcess, times: int = 1, lab_script: str = QUICK) -> None:
    for _ in range(times):
        connection = http.client.HTTPConnection(*gateway.address, timeout=20)
        connection.request("POST", "/v1/chat/completions", BODY, {"x-lab-script": lab_script})
        response = connection.getresponse()
        assert response.status == 200
        assert response.read().endswith(b"data: [DONE]\n\n")
        connection.close()


def test_prometheus_gets_the_format_and_the_compression_that_it_asks_for(lab: LabProcess) -> None:
    with GatewayProcess(config(lab.base_url)) as gateway:
        ask(gateway)
        response, body = get(gateway)
        assert response.getheader("content-type") == "text/plain; version=0.0.4; charset=utf-8"
        assert {family.name for family in plain(body.decode())} >= {"hedgerow_requests", "hedgerow_build_info"}
        response, body = get(gateway, accept="application/openmetrics-text; version=1.0.0", accept_encoding="gzip")
        assert response.getheader("content-encoding") == "gzip"
        assert str(response.getheader("content-type")).startswith("application/openmetrics-text; version=1.0.0")
        named = {family.name for family in openmetrics(gzip.decompress(body).decode())}  # type: ignore[no-untyped-call]
        assert named >= {name.removesuffix("_total") for name in FAMILIES}


def test_a_scrape_shows_what_was_served_and_what_holds_now(lab: LabProcess) -> None:
    settings = config(lab.base_url, lab.base_url, server={"event_log": "events.jsonl"})
    with GatewayProcess(settings) as gateway:
        ask(gateway, 3)
        found = numbers(gateway)
        assert total(found, "hedgerow_requests_total", route="fast", outcome="won", status="2xx") == 3
        assert total(found, "hedgerow_first_token_seconds_count", route="fast", hedged="no", stream="yes") == 3
        assert total(found, "hedgerow_attempts_total", target="primary", role="primary") == 3
        assert total(found, "hedgerow_attempt_sent_seconds_count", target="primary") == 3
        assert total(found, "hedgerow_overhead_seconds_count") == 3
        assert 0 < total(found, "hedgerow_overhead_seconds_sum") < total(found, "process_cpu_seconds_total")
        assert total(found, "hedgerow_tokens_total", target="primary", kind="output", source="reported") > 0
        assert total(found, "hedgerow_pool_connections", target="primary", state="idle") == 1
        assert total(found, "hedgerow_breakers", target="backup") in (0, 1)
        assert total(found, "hedgerow_kill_switch", route="fast") == 0
        assert total(found, "hedgerow_config_last_reload_successful") == 1
        assert abs(total(found, "hedgerow_config_last_reload_success_timestamp_seconds") - gateway_start(gateway)) < 60
        assert total(found, "process_cpu_seconds_total") > 0
        log = gateway.file.with_name("events.jsonl")
        until(lambda: log.read_bytes().count(b'"request_finished"') == 3)
        written = log.read_bytes().count(b"\n")
        assert total(numbers(gateway), "hedgerow_events_written_total", sink="event_log") == written


def gateway_start(gateway: GatewayProcess) -> float:
    return os.stat(gateway.file).st_mtime


def test_the_ledgers_records_are_counted(lab: LabProcess) -> None:
    with GatewayProcess(config(lab.base_url, server={"ledger": {"url": "sqlite:///ledger.db"}})) as gateway:
        ask(gateway, 3)
        until(lambda: total(numbers(gateway), "hedgerow_events_written_total", sink="ledger") >= 3)
        until(lambda: total(numbers(gateway), "hedgerow_events_queued", sink="ledger") == 0)
        assert total(numbers(gateway), "hedgerow_events_lost_total", sink="ledger") == 0


def test_a_reload_and_the_kill_switch_are_seen(lab: LabProcess) -> None:
    with GatewayProcess(config(lab.base_url)) as gateway:
        gateway.process.send_signal(signal.SIGUSR1)
        until(lambda: total(numbers(gateway), "hedgerow_kill_switch", route="fast") == 1)
        assert total(numbers(gateway), "hedgerow_controls_changed_total") == 1
        gateway.file.write_text("targets: {}")
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: total(numbers(gateway), "hedgerow_config_reloads_total", result="failed") >= 1)
        assert total(numbers(gateway), "hedgerow_config_last_reload_successful") == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def shared(lab: LabProcess, folder: Path) -> Config:
    server = {
        "listen": f"127.0.0.1:{free_port()}",
        "reuse_port": True,
        "metrics": {"shared": str(folder)},
        "timeouts": {"idle": "1s"},
    }
    return config(lab.base_url, server=server)


def falls(before: Numbers, after: Numbers) -> Numbers:
    """What counts and has become less."""
    counts = ("_total", "_bucket", "_count", "_sum")
    return {
        key: value
        for key, value in before.items()
        if key[0].startswith("hedgerow_") and key[0].endswith(counts) and after.get(key, 0.0) < value
    }


def own_requests(folder: Path) -> list[float]:
    """How many requests each process has counted."""
    files = [msgspec.msgpack.decode(path.read_bytes(), type=Snapshot) for path in folder.glob("*.metrics")]
    return [sum(each.samples["hedgerow_requests_total"].values()) for each in files]  # type: ignore[arg-type]


def test_processes_on_one_port_show_one_sum_and_no_number_falls_when_one_is_killed(
    lab: LabProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    settings = shared(lab, folder)
    with GatewayProcess(settings) as first:
        second = GatewayProcess(settings)
        try:
            assert first.url == second.url
            ask(first, 40)
            until(lambda: total(numbers(first), "hedgerow_processes") == 2)
            until(lambda: total(numbers(first), "hedgerow_requests_total") == 40)
            for _ in range(20):  # whoever of the two is met
                before = numbers(first)
                assert total(before, "hedgerow_requests_total") == 40
                assert total(before, "hedgerow_processes") == 2
                pids = {its for (name, its), _ in before.items() if name == "process_resident_memory_bytes"}
                assert pids == {(("pid", str(first.pid)),), (("pid", str(second.pid)),)}
            assert min(own_requests(folder)) > 0  # the kernel gave both some
        finally:
            second.process.kill()
            second._end()
        after = numbers(first)
        assert total(after, "hedgerow_processes") == 1
        assert falls(before, after) == {}
        with GatewayProcess(settings) as third:  # it moves what the dead one has counted
            until(lambda: total(numbers(third), "hedgerow_processes") == 2)
            again = numbers(third)
            assert falls(after, again) == {}
        assert falls(again, numbers(first)) == {}
        assert total(numbers(first), "hedgerow_requests_total") == 40


def test_what_a_process_counted_is_kept_over_a_stop_of_all(lab: LabProcess, tmp_path: Path) -> None:
    settings = shared(lab, tmp_path / "shared")
    with GatewayProcess(settings) as gateway:
        ask(gateway, 5)
    with GatewayProcess(settings) as gateway:
        ask(gateway, 2)
        assert total(numbers(gateway), "hedgerow_requests_total") == 7
        assert total(numbers(gateway), "hedgerow_processes") == 1
