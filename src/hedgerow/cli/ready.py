"""The ready line that scripts wait for."""

from __future__ import annotations

import os

import msgspec


def print_ready(url: str) -> None:
    """The one line on stdout once connections are accepted."""
    print(msgspec.json.encode({"ready": True, "url": url, "pid": os.getpid()}).decode(), flush=True)
