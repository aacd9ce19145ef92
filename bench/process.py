"""Starts one candidate on its core, waits until it answers rightly, and ends it with all its children."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.peer import Installed, Peer, Setup

_READY_LIMIT = 90.0
_POLL = 0.005


class Wrong(Exception):
    """A candidate did not start or did not answer as it must; the message is the reason that goes into the table."""


@dataclass(frozen=True, slots=True)
class Running:
    """A started candidate. `ready` is the time from start to its first right answer, in seconds."""

    pid: int
    port: int
    ready: float


def free_port() -> int:
    """The first of three ports in a row that nobody uses now, below those that outgoing connections take."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000, 3):
        if all(_free(number) for number in range(port, port + 3)):
            return port
    raise Wrong("no free port")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _ask(peer: Peer, port: int, headers: Mapping[str, str], *, stream: bool) -> str:
    """One chat completion; returns the body, raises Wrong for any answer but a 200."""
    body = {"model": peer.model, "stream": stream, "messages": [{"role": "user", "content": "rid-0000000007 hello"}]}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", peer.path, json.dumps(body), {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    finally:
        connection.close()
    if answer.status != 200:
        raise Wrong(f"answers {answer.status}: {' '.join(text.split())[:160]}")
    return text


def _check(peer: Peer, port: int, headers: Mapping[str, str]) -> None:
    """A whole JSON answer and a whole stream, or Wrong."""
    choice = json.loads(_ask(peer, port, headers, stream=False))["choices"][0]
    if not choice["message"]["content"].endswith("@0000000007~end") or choice["finish_reason"] != "stop":
        raise Wrong("its JSON answer is not the upstream's")
    text = _ask(peer, port, headers, stream=True)
    if text.count("@") != 5 or '"stop"' not in text or "data: [DONE]" not in text:
        raise Wrong("its stream is not whole")


def _tail(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "said nothing"


def _await_ready(
    process: subprocess.Popen[bytes], peer: Peer, setup: Setup, log: Path, port_file: Path | None
) -> Running:
    begun = time.perf_counter()
    headers = peer.headers(setup)
    reason = "never listened"
    while time.perf_counter() - begun < _READY_LIMIT:
        if process.poll() is not None:
            raise Wrong(f"ended with status {process.returncode}: {_tail(log)}")
        try:
            if port_file is None or port_file.exists():
                port = setup.port if port_file is None else int(port_file.read_text())
                _ask(peer, port, headers, stream=False)
                return Running(pid=process.pid, port=port, ready=time.perf_counter() - begun)
        except Wrong as wrong:
            reason = str(wrong)
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(_POLL)
    raise Wrong(f"not ready after {_READY_LIMIT:.0f} s: {reason}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the whole process group: asked first, then killed."""
    for how, limit in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(peer: Peer, installed: Installed, setup: Setup, *, core: int | str) -> Iterator[Running]:
    """Starts a candidate in a fresh folder, checks its answers, yields it and ends it."""
    shutil.rmtree(setup.work, ignore_errors=True)
    setup.work.mkdir(parents=True)
    launch = peer.launch(installed, setup)
    log = setup.work / "output.log"
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *launch.argv],
            cwd=setup.work,
            env={**inherited, **launch.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        running = _await_ready(process, peer, setup, log, launch.port_file)
        _check(peer, running.port, peer.headers(setup))
        yield running
    finally:
        _end(process)
