"""Tool calls: a request that insists on a tool is answered with a call of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hedgerow.errors import RequestError
from hedgerow.lab.text import text, word

_encode = msgspec.json.encode


class Schema(msgspec.Struct):
    """What the lab reads of a tool's JSON schema."""

    properties: dict[str, Any] | None = None

    @property
    def argument(self) -> str:
        """The property that gets the answer's words: the first string there is, else the first, else "text"."""
        properties = self.properties or {}
        strings = (name for name, one in properties.items() if isinstance(one, dict) and _is_string(one.get("type")))
        return next(strings, next(iter(properties), "text"))


def _is_string(kind: object) -> bool:
    return isinstance(kind, str) and kind.lower() == "string"


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the client runs."""

    name: str
    schema: Schema | None = None

    def piece(self, speaker: str, token: int, tokens: int) -> str:
        """What token `token` of `tokens` adds to the arguments; all of them together are a JSON object."""
        opening = f'{{{_encode(self._argument).decode()}:"' if token == 0 else ""
        return opening + word(speaker, token) + ('"}' if token == tokens - 1 else "")

    def arguments(self, speaker: str, tokens: int) -> dict[str, str]:
        """The arguments of a call of so many tokens."""
        return {self._argument: text(speaker, tokens)} if tokens else {}

    def json(self, speaker: str, tokens: int) -> str:
        """The same as the pieces come to: nothing at all for a call without tokens."""
        return "".join(self.piece(speaker, token, tokens) for token in range(tokens))

    @property
    def _argument(self) -> str:
        return (self.schema or Schema()).argument


def insisted(offered: Sequence[Tool], *, name: str | None) -> Tool:
    """The tool of this name; without one, the first. Raises RequestError (400) when there is none such."""
    for tool in offered:
        if name in (None, tool.name):
            return tool
    what = "a tool" if name is None else f"the tool {name!r}"
    raise RequestError(400, f"tool_choice asks for {what}, which tools do not offer", param="tool_choice")
