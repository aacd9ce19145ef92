"""Which route serves a model: by its own name, or by a pattern such as `claude-*`."""

from __future__ import annotations

from collections.abc import Iterable


class RouteNames:
    """The names of all routes; those that end in `*` stand for every name that starts so."""

    __slots__ = ("_exact", "_patterns")

    def __init__(self, names: Iterable[str]) -> None:
        self._exact = frozenset(names)
        patterns = [name for name in self._exact if name.endswith("*")]
        self._patterns = tuple((name[:-1], name) for name in sorted(patterns, key=len, reverse=True))

    def find(self, model: str) -> str | None:
        """The route of that very name, else the longest pattern that matches; None when there is none."""
        if model in self._exact:
            return model
        return next((name for start, name in self._patterns if model.startswith(start)), None)
