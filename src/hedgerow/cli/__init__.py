"""The `hedgerow` command. Errors of the user's making end in a message, never in a traceback.

Exit codes: 0 ok, 1 something failed at run time, 2 bad usage or configuration, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from hedgerow.errors import ConfigError, HedgerowError


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command (default: the process's own arguments) and exit with its code."""
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
        return _fail(1, [f"the command line needs {missing.name}: pip install 'hedgerow[gateway]'"])
    try:
        build(arguments)(args=list(arguments), prog_name="hedgerow")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except ConfigError as error:
        return _fail(2, error.problems)
    except HedgerowError as error:
        return _fail(1, [str(error)])
    except KeyboardInterrupt:
        return _fail(130, ["interrupted"])
    except OSError as error:
        return _fail(1, [_os_words(error)])
    return 0


def _fail(code: int, problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"hedgerow: {problem}", file=sys.stderr)
    return code


def _os_words(error: OSError) -> str:
    words = error.strerror or str(error)
    return f"{error.filename}: {words}" if error.filename else words
