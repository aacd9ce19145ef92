"""What a process has open, as Linux tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress


def opened(pid: int | str = "self") -> Iterator[str]:
    """What each open descriptor of a process is; of those that are closed meanwhile, the listing's own too, nothing."""
    folder = f"/proc/{pid}/fd"
    for number in os.listdir(folder):
        with suppress(FileNotFoundError):
            yield os.readlink(f"{folder}/{number}")


def open_sockets() -> int:
    """Sockets of this process; other files are left out, libuv keeps some for good."""
    return sum(each.startswith("socket:") for each in opened())
