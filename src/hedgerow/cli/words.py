"""Words that several commands share: the panels of the first screen, exit codes, examples."""

from __future__ import annotations

import inspect

RUN = "Run"
CONFIGURE = "Configure"
LOOK = "Look back"
TRY = "Try and test"

EXIT_CODES = "Exit codes: 0 ok, 1 something failed at run time, 2 bad usage or configuration."

Examples = tuple[tuple[str, str], ...]
"""What one may want, and the command line that does it."""


def epilog(examples: Examples) -> str:
    """What stands below the help of a command, in Rich's markup."""
    shown = [f"{what}:\n  [bold]{command.replace('[', chr(92) + '[')}[/bold]" for what, command in examples]
    return "\n\n".join([*shown, EXIT_CODES])


def prose(docstring: str | None) -> str:
    """A docstring as help text: paragraphs stay, line breaks within them go, for the terminal sets its own."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
