"""What the end-to-end tests share: the gateway as a process, its configuration, and words for what must come true."""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from hedgerow.lab.process import LabProcess

Config = dict[str, Any]
Labs = tuple[LabProcess, LabProcess]
"""A primary and a backup."""

NAMES = ("primary", "backup", "third")
INHERITED = ("PATH", "PYTHONPATH")
"""What a gateway gets of the environment of the tests: no keys, no proxies."""
STOPS_WITHIN = 10.0
"""Seconds from SIGTERM to the end of a gateway with nothing to do; it takes milliseconds."""
MESSAGES: Any = [{"role": "user", "content": "Say hedge."}]


def config(*base_urls: str, delay: str = "30s", server: Mapping[str, Any] | None = None, **route: Any) -> Config:
    """A configuration with one route `fast` over targets `primary`, `backup`...; `delay` is far away unless given.

    Nothing keeps attempts back: hedges and failovers have no cap, no breaker opens, no outage is seen.
    """
    targets = {
        name: {"base_url": url, "breaker": {"failure_ratio": "off"}}
        for name, url in zip(NAMES, base_urls, strict=False)
    }
    unbound = {
        "hedge": {
            "delay": delay,
            "budget": "off",
            "outage": {"max_tokens": 1000, "token_ratio": 1, "both_slow": "off"},
        },
        "failover": {"budget": "off"},
    }
    return {
        "targets": targets,
        "routes": {"fast": {"targets": list(targets), **unbound, **route}},
        "server": {"listen": "127.0.0.1:0", **(server or {})},
    }


class GatewayProcess:
    """`hedgerow serve` in a folder of its own, ready. A context manager.

    At the end of the block it must stop in good order and must have logged no traceback; what it said is added to the
    error of a test that fails.
    """

    def __init__(
        self,
        settings: Config,
        *,
        environ: Mapping[str, str] | None = None,
        listen: str | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        """`files` lie beside its configuration."""
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self.file = file = folder / "hedgerow.yaml"
        file.write_text(json.dumps(settings))  # JSON is YAML
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        self._log = folder / "stderr"
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        with self._log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "hedgerow",
                    "serve",
                    "--config",
                    str(file),
                    "--json-ready",
                    *([] if listen is None else ["--listen", listen]),
                ],
                cwd=folder,
                env=inherited | {"HOME": str(folder), "PYTHONFAULTHANDLER": "1"} | dict(environ or {}),
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        ready = self._ready_line()
        self.url: str = ready["url"]
        self.pid: int = ready["pid"]
        assert self.pid == self.process.pid

    def _ready_line(self) -> dict[str, Any]:
        stdout = self.process.stdout
        assert stdout is not None
        line = stdout.readline() if select.select([stdout], [], [], 20)[0] else b""
        try:
            ready: dict[str, Any] = json.loads(line)
        except ValueError:
            self._end()
            raise AssertionError(f"the gateway did not start; it said:\n{self._said}") from None
        return ready

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return self.url + "/v1"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return self._log.read_text()

    def fds(self) -> int:
        """Its open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self) -> int:
        """Its resident set in bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def rewrite(self, settings: Config | str) -> None:
        """Put another configuration in the place of its file, at once and whole."""
        new = self.file.with_suffix(".new")
        new.write_text(settings if isinstance(settings, str) else json.dumps(settings))
        new.replace(self.file)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = 20.0) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(timeout)

    def stop(self) -> int:
        """End it in good order; its exit code."""
        self.terminate()
        return self.wait()

    def _end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGABRT)  # the fault handler writes where it hangs
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._said = self.log
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if error is not None:
            error.add_note(f"the gateway said:\n{self._said}")
            return
        code = self.process.returncode
        assert code in (0, 1), f"the gateway died or would not stop ({code}):\n{self._said}"
        assert "Traceback" not in self._said, self._said


def until(true: Callable[[], bool], *, within: float = 10.0, every: float = 0.005) -> None:
    """Wait for what must become true."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"did not happen within {within:g} s"
        time.sleep(every)


def assert_within(seconds: Sequence[float], *, bound: float, worst: float = 1.0) -> None:
    """The median keeps the `bound` that is promised; `worst` is what one may take on a busy machine.

    Our tests share their cores with others: a process that does not run for a while is nobody's fault, so a single
    measurement says little. What the code itself adds is in all of them, and so in the median.
    """
    assert statistics.median(seconds) <= bound, sorted(seconds)
    assert max(seconds) <= worst, sorted(seconds)


def script(**fields: Any) -> str:
    """The value of an `x-lab-script` header (docs/lab.md)."""
    return json.dumps(fields)


def chat(**fields: Any) -> bytes:
    """The body of a chat request for the route `fast`."""
    return json.dumps({"model": "fast", "messages": MESSAGES, **fields}).encode()
