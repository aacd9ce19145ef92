"""A small inference server on a real socket that tells what it does as llama.cpp, vLLM, SGLang and OpenRouter do.

Formats: llama.cpp tools/server/README.md (`/slots`, `/metrics`), docs.vllm.ai usage/metrics, docs.sglang.io
references/production_metrics, openrouter.ai get-generation.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

GAP, FIRST = 0.002, 0.4


@dataclass
class Work:
    """One request at the engine."""

    task: int
    limit: int
    made: int = 0
    busy: bool = True
    whole: bool = False


class Engine:
    """The server. `kind`: "vllm", "sglang", "llamacpp", "slots" (llama.cpp without `--metrics`) or "openrouter".

    `honours`: it stops when its client has gone. `key`: what it wants as a bearer.
    """

    def __init__(
        self, kind: str, *, honours: bool = True, key: str | None = None, newer: bool = False, others: int = 0
    ) -> None:
        self.kind, self.honours, self.key, self.newer = kind, honours, key, newer
        self.works: list[Work] = []
        self.others = others
        """Requests of others that it says it works on."""
        self.paths: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def page(self, path: str, query: dict[str, list[str]]) -> bytes | None:
        """What it says at this path; None: there is nothing."""
        busy = sum(work.busy for work in self.works) + self.others
        if self.kind == "openrouter" and path == "/api/v1/generation":
            return self._generation(query["id"][0])
        if self.kind == "slots" and path == "/slots":
            return json.dumps([self._slot()]).encode()
        if path != "/metrics":
            return None
        match self.kind:
            case "vllm":
                made = sum(work.made for work in self.works)
                return _page(
                    ("vllm:num_requests_running", "gauge", '{engine="0",model_name="m"}', float(busy)),
                    ("vllm:num_requests_waiting", "gauge", '{engine="0",model_name="m"}', 0.0),
                    ("vllm:generation_tokens_total", "counter", '{engine="0",model_name="m"}', float(made)),
                )
            case "sglang":
                return _page(
                    ("sglang:num_running_reqs", "gauge", '{model_name="m",tp_rank="0"}', float(busy)),
                    ("sglang:num_queue_reqs", "gauge", '{model_name="m",tp_rank="0"}', 0.0),
                    ("sglang:generation_tokens_total", "counter", '{model_name="m"}', float(self._whole())),
                )
            case "llamacpp":
                return _page(
                    ("llamacpp:requests_processing", "gauge", "", busy),
                    ("llamacpp:requests_deferred", "gauge", "", 0),
                    ("llamacpp:tokens_predicted_total", "counter", "", self._whole()),
                )
        return None

    def _whole(self) -> int:
        return sum(work.made for work in self.works if work.whole)

    def _slot(self) -> dict[str, Any]:
        slot: dict[str, Any] = {"id": 0, "n_ctx": 4096, "is_processing": any(work.busy for work in self.works)}
        if self.works:
            last = self.works[-1]
            slot |= {"id_task": last.task, "next_token": [{"has_next_token": last.busy, "n_decoded": last.made}]}
        return slot

    def _generation(self, name: str) -> bytes | None:
        work = self.works[int(name.removeprefix("gen-"))]
        if work.busy:
            return None
        data = {"id": name, "cancelled": not work.whole, "native_tokens_completion": work.made, "total_cost": 0.00042}
        return json.dumps({"data": data | {"provider_name": "Nebius", "finish_reason": None}}).encode()


def _page(*metrics: tuple[str, str, str, float]) -> bytes:
    lines = [
        f"# HELP {name} .\n# TYPE {name} {kind}\n{name}{labels} {value}\n" for name, kind, labels, value in metrics
    ]
    return "".join(lines).encode()


def _handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_said: object) -> None:
            pass

        def do_GET(self) -> None:
            at = urlsplit(self.path)
            engine.paths.append(at.path)
            body = engine.page(at.path, parse_qs(at.query))
            self._answer(404 if body is None else 200, body or b"{}")

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if engine.key is not None and self.headers["authorization"] != f"Bearer {engine.key}":
                self._answer(
                    401, b'{"error":{"message":"Incorrect API key provided: sk-sec*et","code":"invalid_api_key"}}'
                )
                return
            if engine.newer and "max_tokens" in asked:
                said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
                self._answer(400, json.dumps({"error": {"message": said}}).encode())
                return
            limit = asked["max_completion_tokens" if engine.newer else "max_tokens"]
            work = Work(len(engine.works), limit)
            engine.works.append(work)
            try:
                self._generate(work, stream=asked.get("stream", False))
                work.whole = work.made == work.limit
            finally:
                work.busy = False

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _generate(self, work: Work, *, stream: bool) -> None:
            time.sleep(FIRST / 2)
            if stream:
                self._send(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
                    b"x-generation-id: gen-%d\r\n\r\n" % work.task
                )
            time.sleep(FIRST / 2)
            while work.made < work.limit:
                if engine.honours and self._gone():
                    self.close_connection = True
                    return
                work.made += 1
                if stream:
                    self._send(_event({"content": f"{work.made} "}, None))
                time.sleep(GAP)
            self.close_connection = True
            if stream:
                self._send(_event({}, "length") + b"data: [DONE]\n\n")
            else:
                message = {"role": "assistant", "content": "one " * work.limit}
                answer = {"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
                body = json.dumps(answer).encode()
                self._send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
                self._send(b"content-length: %d\r\n\r\n%b" % (len(body), body))

        def _gone(self) -> bool:
            if not select.select([self.connection], [], [], 0)[0]:
                return False
            try:
                return not self.connection.recv(1, socket.MSG_PEEK)
            except OSError:
                return True

        def _send(self, data: bytes) -> None:
            with contextlib.suppress(OSError):  # nobody is there any more, and not everybody minds
                self.connection.sendall(data)

    return Handler


def _event(delta: dict[str, Any], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()
