"""`hedgerow version`: what runs here, for bug reports."""

from __future__ import annotations

import platform

import typer

import hedgerow

PARTS = ("uvloop", "httptools", "aiofastnet")
"""The libraries that decide how the gateway behaves on the wire."""


def version() -> None:
    """Print the versions of hedgerow, Python and the libraries its data plane stands on."""
    typer.echo(f"hedgerow {hedgerow.__version__}")
    typer.echo(f"python {platform.python_version()} ({platform.python_implementation()}, {platform.system()})")
    for part in PARTS:
        typer.echo(f"{part} {_installed(part)}")


def print_and_exit(wanted: bool) -> None:
    """Callback of `--version`."""
    if wanted:
        typer.echo(f"hedgerow {hedgerow.__version__}")
        raise typer.Exit


def _installed(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
