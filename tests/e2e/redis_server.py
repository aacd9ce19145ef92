"""A Redis of the tests' own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Self

import pytest
from redis import Redis
from redis.exceptions import RedisError

PROGRAM = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(PROGRAM is None, reason="redis-server is not installed: apt-get install redis-server")


class RedisServer:
    """On a Unix socket in a folder of its own; nothing is written to disk. A context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="redis")  # the path of a socket must be short
        self.path = f"{self._folder.name}/s"
        self.url = f"unix://{self.path}"
        self.start()

    def start(self) -> None:
        """Start it (again), empty."""
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [PROGRAM, "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no"],
            cwd=self._folder.name,
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < deadline
            assert self._process.poll() is None
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(10)

    def client(self) -> Redis:
        """A client of it."""
        return Redis.from_url(self.url)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()
