"""The `hedgerow` command. Errors of the user's making end in a message, never in a traceback.

Exit codes: 0 ok, 1 something failed at run time, 2 bad usage or configuration, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from hedgerow.cli.outcome import exit_code, fail
from hedgerow.extras import install


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command (default: the process's own arguments) and exit with its code.

    `serve` does not come back: once its configuration is read, a serving process takes this process's place.
    """
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) == ["version"]:
        # Typer and what it needs take five times as long to import as all else this command does.
        from hedgerow.cli.version import version

        version()
        return 0
    try:
        from hedgerow.cli.app import build
    except ModuleNotFoundError as missing:
        return fail(1, [f"the command line needs {missing.name}: {install('gateway')}"])

    def command() -> int:
        build(arguments)(args=list(arguments), prog_name="hedgerow")
        return 0

    return exit_code(command)
