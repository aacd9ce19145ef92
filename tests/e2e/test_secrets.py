"""Secrets, prompts and answers are in nothing that a gateway writes or shows, whatever goes wrong.

Every secret here begins with MARK. Those of the configuration are short, so that the log's second line of defence,
which takes out long ones, has no part in it: who speaks must have kept them out.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests.e2e.collector import Collector
from tests.e2e.support import GatewayProcess, until
from tests.e2e.upstream import Cut, Received, Upstream, completion, event, stream, whole

pytestmark = pytest.mark.e2e

MARK = "zqx"
TOKEN = f"{MARK}-admin-token-16"
SPY = """
from hedgerow.gateway import records

first_token = records.first_token

def crash(flight, attempt):
    if flight.request_id == "crash":
        raise RuntimeError(f"no: {flight._incoming!r} {flight.ask!r} {flight.question!r} {attempt.target!r}")
    first_token(flight, attempt)

records.first_token = crash

def judge(answer):
    if "judge" in answer.text:
        raise ValueError(answer.text)
    return None
"""
"""A gate whose exceptions quote the answer, and a fault inside hedgerow."""
QUOTING = f"Incorrect API key provided: {MARK}-echo, for {MARK}-prompt"
ECHO = {"error": {"message": QUOTING, "type": f"{MARK} t", "code": 3}}


def upstream(received: Received) -> Iterator[bytes]:
    """Does what the prompt says, and quotes keys and prompts wherever it can."""
    body = received.json
    wish = body["messages"][0]["content"].split()[0]
    field = [f"x-note: {MARK}-field", f"set-cookie: {MARK}-cookie"]
    match wish:
        case "auth" | "bad" | "down" | "slow-down":
            status = {"auth": "401 No", "bad": "400 Bad", "down": "500 Oops", "slow-down": "429 Slow"}[wish]
            yield whole(json.dumps(ECHO).encode(), status=status, headers=field)
        case "garbage":
            yield f"HTTP/9.9 {MARK}-garbage\r\n\r\n".encode()
        case "cut":
            yield stream(event({"content": f"{MARK}-answer"}))[:200]
            raise Cut
        case "error-frame":
            yield stream(event({"content": f"{MARK}-answer"}), b"data: %b\n\n" % json.dumps(ECHO).encode())
        case _ if body.get("stream"):
            yield stream(event({"content": f"{wish} {MARK}-answer"}), event({}, "stop"))
        case _:
            yield whole(completion(f"{wish} {MARK}-answer"), headers=field)


class Troubled(GatewayProcess):
    """Tracebacks are what is looked for; the rest is looked at here."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        out = self.process.stdout
        assert out is not None
        self.stdout = ""
        try:
            if error is None:
                assert self.stop() in (0, 1)
                self.stdout = out.read().decode()
        finally:
            self._end()
        self.stderr = self._said


def configured(form: str, target: str, collector: str, folder: Path) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        dead = nobody.getsockname()[1]
    targets: dict[str, dict[str, Any]] = {
        "first": {"base_url": target, "api_key": f"{MARK}-k1", "headers": {"x-team": f"{MARK}-h1"}},
        "unreachable": {"base_url": f"http://127.0.0.1:{dead}/v1", "api_keys": [f"{MARK}-k2", f"{MARK}-k3"]},
        "proxied": {
            "base_url": "http://localhost.example/v1",
            "api_key": f"{MARK}-k4",
            "proxy": f"http://me:{MARK}-pw@127.0.0.1:{dead}",
        },
    }
    off = {"breaker": {"failure_ratio": "off"}}
    return {
        "targets": {name: {**target, **off} for name, target in targets.items()},
        "routes": {
            "fast": {"targets": ["first", "proxied", "unreachable"], "hedge": {"budget": "off"}, "losers": "keep"},
            "gated": {"targets": ["first"], "gates": {"require": [{"python": "spy:judge"}]}},
        },
        "server": {
            "listen": "127.0.0.1:0",
            "log_level": "debug",
            "log_format": form,
            "access_log": True,
            "api_keys": [f"{MARK}-c1"],
            "admin": {"token": TOKEN},
            "redis": f"redis://:{MARK}-pw@127.0.0.1:{dead}/0",
            "ledger": {"url": f"postgresql://me:{MARK}-pw@127.0.0.1:{dead}/costs", "content": form == "json"},
            "event_log": str(folder / "events.jsonl"),
            "traces": {"endpoint": collector, "headers": {"x-key": f"{MARK}-h2"}},
        },
    }


def send(gateway: GatewayProcess, method: str, path: str, *, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*gateway.address, timeout=30)
    try:
        connection.request(method, path, body or None, {key.replace("_", "-"): value for key, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.read()
    except (http.client.HTTPException, ConnectionError):
        return 0, b""
    finally:
        connection.close()


def ask(gateway: GatewayProcess, wish: str, *, model: str = "fast", streamed: bool = False, **headers: str) -> int:
    messages = [{"role": "user", "content": f"{wish} {MARK}-prompt"}]
    body = json.dumps({"model": model, "messages": messages, "stream": streamed, "user": f"{MARK}-user"}).encode()
    known = {"authorization": f"Bearer {MARK}-c1", "cookie": f"c={MARK}-cookie", "x_any": f"{MARK}-any", **headers}
    path = f"/v1/chat/completions?key={MARK}-query"
    return send(gateway, "POST", path, body=body, **known)[0]


def trouble(gateway: GatewayProcess, faulty: list[dict[str, Any]]) -> str:
    """Everything that can go wrong does; what the gateway's own pages show."""
    for wish in ("fine", "auth", "bad", "down", "slow-down", "garbage", "cut", "error-frame"):
        for streamed in (False, True):
            ask(gateway, wish, streamed=streamed)
    assert ask(gateway, "judge", model="gated") == 200
    assert ask(gateway, "crash", model="gated", x_hedgerow_request_id="crash") == 500
    assert ask(gateway, "fine", authorization=f"Bearer {MARK}-wrong") == 401
    broken = b'{"model": "%b-' % MARK.encode()
    assert send(gateway, "POST", "/v1/chat/completions", body=broken, x_api_key=f"{MARK}-c1")[0] >= 400
    assert send(gateway, "GET", "/admin/api", authorization=f"Bearer {MARK}-wrong-admin-token")[0] == 401
    with socket.create_connection(gateway.address) as raw:
        raw.sendall(f"POST /v1/x HTTP/1.1\r\nauthorization: {MARK}-raw\r\n{MARK} bad\r\n\r\n".encode())
        raw.recv(65536)
    for number, settings in enumerate(faulty, 1):
        gateway.rewrite(settings)
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda number=number: gateway.log.count("nothing was changed") >= number)  # type: ignore[misc]
    admin = f"Bearer {TOKEN}"
    seen = ("/admin/api", "/admin/api/routes", "/admin/api/targets", "/metrics", "/livez", "/readyz")
    pages = [send(gateway, "GET", path, authorization=admin) for path in seen]
    pages.append(send(gateway, "POST", "/admin/api/reload", authorization=admin))
    assert [status for status, _ in pages[:4]] == [200] * 4
    return "".join(body.decode() for _, body in pages)


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_is_written_or_shown_whatever_goes_wrong(form: str, tmp_path: Path) -> None:
    with Collector() as collector, Upstream(upstream) as target:
        good = configured(form, target.base_url, collector.url, tmp_path)
        bad_key, bad_url = json.loads(json.dumps(good)), json.loads(json.dumps(good))
        bad_key["targets"]["first"]["api_key"] = [f"{MARK}-k5"]
        bad_url["server"]["redis"] = f"http://{MARK}-pw@host"
        bad_url["server"]["ledger"] = {"url": f"mysql://me:{MARK}-pw@host"}
        bad_url["targets"]["first"]["headers"] = {"content-length": f"{MARK}-h3"}
        with Troubled(good, files={"spy.py": SPY}, environ={"OTEL_BSP_SCHEDULE_DELAY": "50"}) as gateway:
            shown = trouble(gateway, [bad_key, bad_url])
            until(lambda: len(collector.spans) > 20)
        received = [request.headers for request in target.requests]
        assert any(fields["authorization"] == f"Bearer {MARK}-k1" for fields in received)
        written = {
            "stderr": gateway.stderr,
            "stdout": gateway.stdout,
            "events": (tmp_path / "events.jsonl").read_text(),
            "spans": "".join(str(span) for span in collector.spans),
            "pages": shown,
        }
    assert all(written[name] for name in ("stderr", "events", "spans", "pages"))
    assert "Traceback" in gateway.stderr
    assert "RuntimeError: no: <Incoming>" in gateway.stderr
    found = {name: text[at - 300 : at + 100] for name, text in written.items() if (at := text.find(MARK)) >= 0}
    assert found == {}
    example = "rediss://:[redacted]@host:6380"  # an example of ours, in a message
    assert "[redacted]" not in gateway.stderr.replace(example, "")  # nobody relied on it
    if form == "json":
        lines = [line for line in gateway.stderr.splitlines() if line.startswith("{")]
        assert len(lines) > 50
        assert all(json.loads(line)["message"] for line in lines)
