"""Starts the processes of the check, two llama.cpp servers with one slot each and the gateway, and talks to them."""

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e_llm.install import HOME, Tools

_GATEWAY = """\
targets:
  primary: {{protocol: openai, base_url: "http://127.0.0.1:{primary}/v1", api_key: sk-unused, model: gemma}}
  backup: {{protocol: openai, base_url: "http://127.0.0.1:{backup}/v1", api_key: sk-unused, model: gemma}}
routes:
  chat:
    targets: [primary, backup]
    hedge: {{delay: 1s, budget: off}}
    timeouts: {{first_token: 60s, stall: 30s, total: 120s}}
server: {{listen: "127.0.0.1:{port}"}}
"""
# Batches of 8 tokens: the server looks at its queue, and so at cancels, between two batches.
_FLAGS = "--offline --slots --metrics -np 1 -c 8192 -b 8 -ub 8 -t 1 -tb 1 --cache-ram 0"


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(port: int, path: str) -> str:
    """The body of a GET; raises OSError for anything but a 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"GET {path}: {answer.status} {body[:200]}")
    return body


@contextlib.contextmanager
def _process(name: str, argv: list[str], env: dict[str, str] | None, port: int, ready: str) -> Iterator[int]:
    """Runs a process until the block ends; yields its port once `ready` answers 200."""
    log = HOME / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        until = time.monotonic() + 120
        while True:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"e2e-llm: {name} did not start; see {log}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                get(port, ready)
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class Llama:
    """One llama.cpp server with one slot."""

    name: str
    port: int

    def busy(self) -> bool:
        """Whether the slot works on something. The server answers between two batches, so this may take one."""
        slots = json.loads(get(self.port, "/slots"))
        return any(slot["is_processing"] for slot in slots)

    def deferred(self) -> int:
        """Requests that wait for the slot."""
        found = re.search(r"^llamacpp:requests_deferred (\d+)", get(self.port, "/metrics"), re.MULTILINE)
        if found is None:
            raise OSError("no llamacpp:requests_deferred in /metrics")
        return int(found.group(1))

    def free_after(self, since: float, *, limit: float) -> float:
        """Seconds from `since` (monotonic) to the first look that finds the slot free; infinite past the limit."""
        while time.monotonic() - since < limit:
            if not self.busy():
                return time.monotonic() - since
            time.sleep(0.005)
        return float("inf")


@contextlib.contextmanager
def llama(name: str, tools: Tools) -> Iterator[Llama]:
    """Starts one server and waits until its model is loaded."""
    port = free_port()
    argv = [str(tools.bin_dir / "llama-server"), "-m", str(tools.weights), "--host", "127.0.0.1", "--port", str(port)]
    with _process(name, [*argv, *_FLAGS.split()], tools.env, port, "/health"):
        yield Llama(name=name, port=port)


@contextlib.contextmanager
def gateway(primary: Llama, backup: Llama) -> Iterator[int]:
    """Starts hedgerow in front of the two; yields its port."""
    port = free_port()
    config = Path(HOME / "hedgerow.yaml")
    config.write_text(_GATEWAY.format(primary=primary.port, backup=backup.port, port=port))
    argv = [sys.executable, "-m", "hedgerow", "serve", "--config", str(config)]
    with _process("gateway", argv, None, port, "/readyz"):
        yield port


@dataclass(slots=True)
class Answer:
    """A streamed chat completion as a client sees it. Times are monotonic seconds."""

    sent: float
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    first_byte: float = 0.0
    text: str = ""
    finish: str | None = None
    done: bool = False
    pieces: int = 0

    def take(self, line: str) -> None:
        """One line of the stream."""
        if not line.startswith("data:"):
            return
        payload = line.removeprefix("data:").strip()
        if payload == "[DONE]":
            self.done = True
            return
        event: dict[str, Any] = json.loads(payload)
        for choice in event.get("choices", ()):
            content = choice["delta"].get("content") or ""
            self.text += content
            self.pieces += bool(content)
            self.finish = choice.get("finish_reason") or self.finish


class Call:
    """A streaming chat request under way; closing it is what a client does that hangs up."""

    def __init__(self, port: int, model: str, prompt: str, *, tokens: int, **extra: object) -> None:
        body = {
            "model": model,
            "stream": True,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "messages": [{"role": "user", "content": prompt}],
            **extra,
        }
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.answer = Answer(sent=time.monotonic())
        headers = {"content-type": "application/json"}
        self._connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        self._response: http.client.HTTPResponse | None = None

    def begin(self) -> Answer:
        """Waits for status and headers. Through the gateway this is the commit."""
        self._response = self._connection.getresponse()
        self.answer.first_byte = time.monotonic()
        self.answer.status = self._response.status
        self.answer.headers = {name.lower(): value for name, value in self._response.getheaders()}
        return self.answer

    def finish(self) -> Answer:
        """Reads the stream to its end; raises IncompleteRead when it is cut."""
        response = self._response
        if response is None:
            raise RuntimeError("begin() first")
        for raw in response.read().decode().split("\n"):
            self.answer.take(raw)
        self._connection.close()
        return self.answer

    def hang_up(self) -> float:
        """Closes the connection at once; returns when."""
        if self._response is not None:
            self._response.close()
        self._connection.close()
        return time.monotonic()
