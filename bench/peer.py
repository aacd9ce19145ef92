"""What the harness needs to know of a candidate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Installed:
    """A peer on disk: its exact version and the program (or folder) that `launch` starts from."""

    version: str
    program: Path


@dataclass(frozen=True, slots=True)
class Setup:
    """What one start of a peer is given: the port to listen on, the upstream's port, a fresh folder for its files."""

    port: int
    upstream: int
    work: Path

    def write(self, name: str, text: str) -> str:
        """Writes a file into the work folder and returns its path."""
        path = self.work / name
        path.write_text(text)
        return str(path)


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line. A peer that cannot be told its port writes the one it chose into `port_file`."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    port_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """One candidate. `slow` peers get fewer rounds, longer warm-up and no run with 512 or more connections."""

    name: str
    about: str
    install: Callable[[], Installed]
    launch: Callable[[Installed, Setup], Launch]
    path: str = "/v1/chat/completions"
    model: str = "bench"
    headers: Callable[[Setup], Mapping[str, str]] = lambda setup: {}
    slow: bool = False
