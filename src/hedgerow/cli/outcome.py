"""How a command ends: errors of the user's making become a message and an exit code, never a traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence

from hedgerow.errors import ConfigError, HedgerowError


def exit_code(command: Callable[[], int]) -> int:
    """Run `command`; the code it returns, or the one for the error it raises."""
    try:
        return command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except ConfigError as error:
        return fail(2, error.problems)
    except HedgerowError as error:
        return fail(1, [str(error)])
    except KeyboardInterrupt:
        return fail(130, ["interrupted"])
    except OSError as error:
        return fail(1, [_os_words(error)])


def fail(code: int, problems: Sequence[str]) -> int:
    """Say what is wrong; returns `code`."""
    for problem in problems:
        print(f"hedgerow: {problem}", file=sys.stderr)
    return code


def _os_words(error: OSError) -> str:
    words = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        words += "; --listen HOST:PORT takes another address, port 0 any free one"
    return f"{error.filename}: {words}" if error.filename else words
