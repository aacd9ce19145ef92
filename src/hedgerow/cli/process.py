"""The serving process: `python -m hedgerow.cli.process FD ...`, started by `hedgerow serve` in its own place.

It is told everything through the open file `FD`, and imports nothing that only reading a configuration or a command
line needs. The other arguments are for whoever looks at the list of processes.
"""

from __future__ import annotations

import signal
import sys

import msgspec

from hedgerow.cli.outcome import exit_code
from hedgerow.cli.ready import print_ready
from hedgerow.gateway.blueprint import Blueprint, Source

URL = "{url}"
"""Stands in `LaunchRecord.welcome` for what is known only when the server listens."""


class LaunchRecord(msgspec.Struct, frozen=True):
    """What to serve, what to print on stderr once it listens, whether to print the ready line on stdout, and where what
    to serve can be read again."""

    blueprint: Blueprint
    welcome: tuple[str, ...]
    json_ready: bool
    source: Source | None = None


def main() -> int:
    """Serve what the record says until SIGTERM or SIGINT; returns the exit code."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # blocked by whoever started us
    with open(int(sys.argv[1]), "rb") as file:
        record = msgspec.msgpack.decode(file.read(), type=LaunchRecord)
    from hedgerow.gateway.app import run

    def on_ready(url: str) -> None:
        for line in record.welcome:
            print(line.replace(URL, url), file=sys.stderr, flush=True)
        if record.json_ready:
            print_ready(url)

    return run(record.blueprint, on_ready=on_ready, source=record.source)


if __name__ == "__main__":
    sys.exit(exit_code(main))
