"""Start a lab as a process and ask it things; for the demo and for tests. Blocking, standard library only."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from hedgerow.errors import HedgerowError


class LabDied(HedgerowError):
    """The lab's process did not start, ended, or does not answer; the message holds what it wrote to stderr."""


class LabProcess:
    """A running lab. Use as a context manager, or call `stop`.

    `arguments` are those of `python -m hedgerow.lab`, e.g. `["--name", "primary", "--preset", "openai"]`.
    """

    def __init__(self, arguments: Sequence[str] = (), *, timeout: float = 20.0) -> None:
        """Returns once the lab listens. `timeout` is for this and for each question, in seconds. Raises LabDied."""
        self._timeout = timeout
        self._told_to_end = False
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by stop)
        command = [sys.executable, "-m", "hedgerow.lab", *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._stderr)  # noqa: S603  (our own interpreter)
        ready = self._ready_line()
        self.name: str = ready["name"]
        self.url: str = ready["url"]
        """Without a path, e.g. "http://127.0.0.1:40123"; clients of OpenAI's API want `base_url`."""
        self.pid: int = ready["pid"]

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return self.url + "/v1"

    def _ready_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101  (asked for above)
        readable, _, _ = select.select([self._process.stdout], [], [], self._timeout)
        line = self._process.stdout.readline() if readable else b""
        try:
            ready: dict[str, Any] = json.loads(line)
        except ValueError:
            self._fail(f"the lab was not ready within {self._timeout:g} s" if not readable else "the lab did not start")
        return ready

    def _fail(self, what: str, cause: Exception | None = None) -> Any:
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

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request to the control API; the decoded JSON. Raises LabDied, or ValueError with the lab's complaint."""
        where = urlsplit(self.url)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=self._timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, HTTPException) as error:
            self._fail(f"the lab at {self.url} does not answer: {error!r}", error)
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(f"the lab answered {answer.status}: {said.decode(errors='replace')}")
        return json.loads(said)

    def stats(self) -> dict[str, Any]:
        """The counters (`hedgerow.lab.routes.StatsAnswer`)."""
        stats: dict[str, Any] = self.ask("GET", "/lab/stats")
        return stats

    def log(self, *, key: str | None = None, after: int = -1) -> list[dict[str, Any]]:
        """The latest requests (`hedgerow.lab.accounts.Record`), oldest first."""
        query = f"after={after}" + (f"&key={quote(key, safe='')}" if key is not None else "")
        records: list[dict[str, Any]] = self.ask("GET", f"/lab/log?{query}")["records"]
        return records

    def reset(self, *, seed: int | None = None) -> None:
        """New books and unseen keys; with `seed` also other draws."""
        self.ask("POST", "/lab/reset", {} if seed is None else {"seed": seed})

    def behave(self, **behaviour: object) -> None:
        """Change behaviour from now on: `script` (a dict or None) and `fault` (text or None)."""
        self.ask("POST", "/lab/behaviour", behaviour)

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
            code = self._process.wait(self._timeout)
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
