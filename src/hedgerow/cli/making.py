"""What a command has found out, as it is asked for: on the terminal, as a page, as JSON; here or in a file."""

from __future__ import annotations

import io
from collections.abc import Callable
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hedgerow.cli.console import console
from hedgerow.cli.file import written
from hedgerow.errors import ConfigError
from hedgerow.extras import install

if TYPE_CHECKING:
    from rich.console import Console


class Format(StrEnum):
    """What is made."""

    TERMINAL = "terminal"
    HTML = "html"
    JSON = "json"


FORMAT = typer.Option(help="What to make. Left out: html for an --output that ends in .html, else terminal.")
OUTPUT = typer.Option("--output", "-o", help="Write here in place of standard output.")
_IN_A_FILE = 130
"""Columns of a file."""


def format_of(said: Format | None, output: Path | None) -> Format:
    """What was asked for."""
    return said or (Format.HTML if output is not None and output.suffix in (".html", ".htm") else Format.TERMINAL)


def need(what: str, extra: str, made: Format, *modules: str) -> None:
    """Raises `ConfigError` where something is not installed that `what` needs: `extra` brings `modules`."""
    needed = [(name, extra) for name in modules]
    if made is Format.HTML:
        needed += [(name, "report") for name in ("matplotlib", "jinja2")]
    for name, brought_by in needed:
        if find_spec(name) is None:
            raise ConfigError([f"{what} needs {name}: {install(brought_by)}"])


def make(
    made: Format, output: Path | None, *, data: object, show: Callable[[Console], None], page: Callable[[], str]
) -> None:
    """Write it to `output`, else to standard output; `data` is what the JSON says."""
    if made is Format.TERMINAL and output is None:
        show(console())
        return
    text = page() if made is Format.HTML else _json(data) if made is Format.JSON else _shown(show)
    if output is None:
        typer.echo(text, nl=False)
        return
    with written(output) as file:
        file.write(text.encode())
    typer.echo(f"wrote {output}", err=True)


def _json(data: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def _shown(show: Callable[[Console], None]) -> str:
    from rich.console import Console

    text = io.StringIO()
    show(Console(file=text, width=_IN_A_FILE))
    return text.getvalue()
