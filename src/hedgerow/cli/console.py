"""Where tables go."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

PIPED: Final = 120
"""Columns where there is no terminal: half as many make words of each cell."""


def console() -> Console:
    """Standard output, as wide as its terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPED)
