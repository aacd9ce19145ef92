"""Records that hold keys, prompts or answers, and therefore do not show what they hold."""

from __future__ import annotations

from typing import Any


class Unshown:
    """To be inherited first: tracebacks, logs and debuggers show such a record's name alone."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What the library rich prints in place of fields; msgspec's own would be all of them."""
        return []
