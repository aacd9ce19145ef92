"""Words that several commands share: the panels of the first screen, exit codes, examples."""

from __future__ import annotations

import inspect

RUN = "Run"
CONFIGURE = "Configure"
TRY = "Try and test"

EXIT_CODES = "Exit codes: 0 ok, 1 something failed at run time, 2 bad usage or configuration."


def examples(*pairs: tuple[str, str], then: str = EXIT_CODES) -> str:
    """An epilog: command lines, each under what it is for."""
    shown = [f"{what}:\n  [bold]{command}[/bold]" for what, command in pairs]
    return "\n\n".join([*shown, then])


def prose(docstring: str | None) -> str:
    """A docstring as help text: paragraphs stay, line breaks within them go, for the terminal sets its own."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
