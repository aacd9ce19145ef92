"""docs/cli.md, made from the commands themselves: `python -m hedgerow.cli.reference docs` writes it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from hedgerow.cli.app import COMMANDS, EXAMPLES, SUMMARY, build, find
from hedgerow.cli.words import EXIT_CODES, Examples, prose

_HEAD = f"""\
<!-- Written by `make docs` from src/hedgerow/cli; do not edit. -->
# The command line

{SUMMARY}
`hedgerow COMMAND --help` shows what is written here.

{EXIT_CODES}
An interrupted command ends with 130 (Ctrl-C) or 143 (SIGTERM); `serve` and `lab` take both as the wish to stop in good
order. What scripts read goes to standard output, all else to standard error.
"""


def reference() -> str:
    """The page."""
    group: Any = typer.main.get_command(build())
    parts = [_HEAD, *_examples(EXAMPLES)]
    for name in COMMANDS:
        function, examples = find(name)
        parts += [f"## hedgerow {name}\n", _wrapped(function.__doc__), *_examples(examples)]
        command = group
        for word in name.split():
            command = command.commands[word]
        parts += _parameters(command.params)
    return "\n".join(parts)


def _wrapped(docstring: str | None) -> str:
    return "".join(textwrap.fill(each, 120) + "\n\n" for each in prose(docstring).split("\n\n")).removesuffix("\n")


def _examples(examples: Examples) -> Iterator[str]:
    """One console block; none without examples."""
    if examples:
        yield "\n".join(["```console", *(f"# {what}\n$ {command}" for what, command in examples), "```"]) + "\n"


def _parameters(parameters: list[Any]) -> Iterator[str]:
    """A table of arguments and options; none for a command without any."""
    rows = [row for row in map(_row, parameters) if row is not None]
    if rows:
        yield "\n".join(["| | default | |", "|---|---|---|", *rows]) + "\n"


def _row(parameter: Any) -> str | None:
    if parameter.name == "help":
        return None
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        flags = ", ".join(f"`{flag}`" for flag in sorted(parameter.opts, key=len, reverse=True))
        name = flags if parameter.is_flag else f"{flags} {parameter.metavar or ''}".rstrip()
    words, _, stated = parameter.help.partition(r"\[default: ")
    default = stated.removesuffix("]") or ("" if parameter.default in (None, False, ()) else str(parameter.default))
    cells = (name, default and f"`{default}`", " ".join(filter(None, (words.strip(), _choices(parameter)))))
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _choices(parameter: Any) -> str:
    """What may be given, where that is one of a few words."""
    kind = parameter.type_descriptor.annotation
    known: Sequence[object] = get_args(kind) if get_origin(kind) is Literal else ()
    if isinstance(kind, type) and issubclass(kind, Enum):
        known = list(kind)
    words = [f"`{getattr(each, 'value', each)}`" for each in known]
    return f"{', '.join(words[:-1])} or {words[-1]}." if words else ""


def main(folder: Path) -> None:
    """Write the page into `folder`."""
    (folder / "cli.md").write_text(reference(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
