"""Builds the load generator and drives it: one process on core 0 that is both the clients and the upstream."""

import json
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.install import run

SOURCES = Path(__file__).parent / "loadgen"
_FLAGS = ("-O2", "-flto")

Result = dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run. Durations in seconds; `interval` paces the streams, `window` sends them in lock-step.

    `rate` is how many requests are sent a second, whatever becomes of earlier ones; 0 sends each when the last is over.
    """

    name: str
    mode: str
    conns: int
    duration: float
    warm: float
    window: int = 0
    interval: float = 0.0
    chunks: int = 200
    rate: float = 0.0

    def line(self, *, port: int, pid: int, spin: bool) -> str:
        """The words that the load generator reads."""
        words = {
            "mode": self.mode,
            "port": port,
            "pid": pid,
            "conns": self.conns,
            "dur": self.duration,
            "warm": self.warm,
            "spin": int(spin),
            "chunks": self.chunks,
            "window": self.window,
            "interval_us": round(self.interval * 1e6),
            "rate": self.rate,
        }
        return " ".join(f"{key}={value}" for key, value in words.items())


def build(into: Path) -> Path:
    """Compiles the load generator; takes a second."""
    into.mkdir(parents=True, exist_ok=True)
    program = into / "loadgen"
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    run(["cc", *_FLAGS, "-o", str(program), *sources], cwd=SOURCES)
    return program


class LoadGenerator:
    """A running load generator; its upstream serves from entering the context to leaving it."""

    def __init__(
        self, program: Path, *, core: int, upstream_port: int, path: str, model: str, headers: Mapping[str, str]
    ) -> None:
        self.upstream_port = upstream_port
        asked = ["--upstream-port", str(upstream_port), "--path", path, "--model", model]
        for name, value in headers.items():
            asked += ["--header", f"{name}: {value}"]
        self.argv = ["taskset", "-c", str(core), str(program), *asked]
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.upstream_port)) == 0:
                    return self
            time.sleep(0.001)
        raise RuntimeError(f"the load generator does not start: {shlex.join(self.argv)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def measure(self, run: Run, *, port: int, pid: int = 0, spin: bool) -> Result:
        """Does one run and returns what it measured."""
        process = self.process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the load generator is not running")
        process.stdin.write(run.line(port=port, pid=pid, spin=spin) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the load generator died: {shlex.join(self.argv)}")
        result: Result = json.loads(answer)
        return result
