"""`hedgerow version`: what runs here, for bug reports. Imports next to nothing, so that it is quick."""

from __future__ import annotations

import platform

import hedgerow

PARTS = ("uvloop", "httptools", "aiofastnet")
"""The libraries that decide how the gateway behaves on the wire."""


def version() -> None:
    """Print the versions of hedgerow, Python and the libraries its data plane stands on."""
    print(f"hedgerow {hedgerow.__version__}")
    print(f"python {platform.python_version()} ({platform.python_implementation()}, {platform.system()})")
    for part in PARTS:
        print(f"{part} {_installed(part)}")


def _installed(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
