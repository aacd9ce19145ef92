"""Start a lab as a process and ask it things; for the demo and for tests. Blocking, standard library only."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from hedgerow.lab.control import LabControl, LabDied


class LabProcess(LabControl):
    """A running lab. Use as a context manager, or call `stop`.

    `arguments` are those of `python -m hedgerow.lab`, e.g. `["--name", "primary", "--preset", "openai"]`.
    """

    def __init__(self, arguments: Sequence[str] = (), *, timeout: float = 20.0) -> None:
        """Returns once the lab listens. `timeout` is for this and for each question, in seconds. Raises LabDied."""
        self.timeout = timeout
        self._told_to_end = False
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by stop)
        command = [sys.executable, "-m", "hedgerow.lab", *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._stderr)  # noqa: S603  (our own interpreter)
        ready = self._ready_line()
        self.name = ready["name"]
        self.url = ready["url"]
        self.pid: int = ready["pid"]

    def _ready_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101  (asked for above)
        readable, _, _ = select.select([self._process.stdout], [], [], self.timeout)
        line = self._process.stdout.readline() if readable else b""
        try:
            ready: dict[str, Any] = json.loads(line)
        except ValueError:
            self.fail(f"the lab was not ready within {self.timeout:g} s" if not readable else "the lab did not start")
        return ready

    def fail(self, what: str, cause: Exception | None = None) -> NoReturn:
        """Kill it, and raise LabDied with what it wrote to stderr."""
        if self._stderr.closed:
            raise LabDied(what) from cause
        self._process.kill()
        code = self._process.wait()
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip()
        self._close()
        raise LabDied(f"{what} (exit code {code}); it said:\n{said or '(nothing)'}") from cause

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._told_to_end = self._told_to_end or number in (signal.SIGTERM, signal.SIGINT)
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without warning, as a crash would: its connections are reset or closed."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End it orderly; its exit code. Killed if it takes longer than the timeout. May be called again."""
        if not self._told_to_end:  # told twice, it would die of the second signal
            self._process.terminate()
        try:
            code = self._process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
