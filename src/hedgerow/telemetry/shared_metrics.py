"""The metrics of several processes that share a port: each writes its own to a folder, and whoever is scraped adds up.

A process is known to live by the lock that it holds on its `.alive` file. What a dead one has counted stays: the next
process that starts moves it to the file `past`, which says whose it has. Files are replaced, never changed, so that
whoever reads needs no lock. What a process shows it has written before, so that no number ever falls, however it ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from hedgerow.telemetry.families import Samples, merge

log = logging.getLogger("hedgerow.telemetry")
_TRIES: Final = 5
"""Times that the files are read again as a process that starts has just moved some."""


class Snapshot(msgspec.Struct, gc=False):
    """The numbers of one process; of `past`, those of the dead whose files are `folded` in it."""

    pid: int
    samples: Samples
    folded: tuple[str, ...] = ()


_decode = msgspec.msgpack.Decoder(Snapshot).decode


class SharedMetrics:
    """The folder, as one process uses it. `name` is this process's own, and never used again."""

    def __init__(self, folder: str, name: str) -> None:
        """Raises `OSError` when the folder cannot be used."""
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._name = name
        self._writing = threading.Lock()
        self._written = 0
        self._failing = False
        new = self._folder / f"{name}.new"
        self._alive = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        os.rename(new, self._folder / f"{name}.alive")  # locked from the first moment that it is there
        self._fold()

    def write(self, samples: Samples, number: int) -> None:
        """Put this process's numbers there. Of writers in several threads the highest `number` holds."""
        with self._writing:
            if number <= self._written:
                return
            try:
                self._put(self._name, Snapshot(os.getpid(), samples))
            except OSError as error:
                if not self._failing:
                    log.error("server.metrics.shared: %s cannot be written to: %s", self._folder, error)
                self._failing = True
                return
            self._written, self._failing = number, False

    def read(self) -> tuple[Samples, list[int]]:
        """The numbers of all, and the processes that live."""
        for _ in range(_TRIES):
            before = self._stamp()
            samples, pids = self._read()
            if self._stamp() == before:
                break
        return samples, pids

    def close(self) -> None:
        """This process counts no more."""
        os.close(self._alive)

    def _read(self) -> tuple[Samples, list[int]]:
        past = self._get("past")
        samples = dict(past.samples)
        pids = []
        for name in self._names():
            if name not in past.folded:
                alive, found = self._lives(name), self._get(name)
                merge(samples, found.samples, alive=alive)
                pids += [found.pid] * (alive and found.pid > 0)
        return samples, sorted(set(pids))

    def _names(self) -> list[str]:
        """All that have left files, each once."""
        paths = (path for path in self._folder.iterdir() if path.suffix in (".alive", ".metrics"))
        return sorted({path.stem for path in paths} - {"past"})

    def _lives(self, name: str) -> bool:
        if name == self._name:
            return True
        try:
            file = os.open(self._folder / f"{name}.alive", os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(file)
        return False

    def _fold(self) -> None:
        """Move the numbers of the dead to `past`, unless another process is at it."""
        with self._alone() as alone:
            if not alone:
                return
            past = self._get("past")
            dead = [name for name in self._names() if not self._lives(name)]
            for name in dead:
                if name not in past.folded:
                    merge(past.samples, self._get(name).samples, alive=False)
            if dead:
                self._put("past", Snapshot(0, past.samples, tuple(dead)))
            for name in dead:
                for kind in ("metrics", "alive", "new"):
                    with suppress(OSError):
                        os.unlink(self._folder / f"{name}.{kind}")

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        file = os.open(self._folder / "folding", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
        finally:
            os.close(file)

    def _stamp(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._folder / "past.metrics")
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    def _get(self, name: str) -> Snapshot:
        try:
            return _decode((self._folder / f"{name}.metrics").read_bytes())
        except (OSError, msgspec.MsgspecError):  # it has just been moved, or another version wrote it
            return Snapshot(0, {})

    def _put(self, name: str, snapshot: Snapshot) -> None:
        new = self._folder / f"{self._name}.new"
        new.write_bytes(msgspec.msgpack.encode(snapshot))
        os.replace(new, self._folder / f"{name}.metrics")
