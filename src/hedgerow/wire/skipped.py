"""Values of which only their presence matters, megabytes of them perhaps."""

from __future__ import annotations

import msgspec


class _Some(msgspec.Struct, gc=False):
    """An object of which nothing is decoded."""


Skipped = _Some | list[_Some] | str | int | float | None
