"""One kind of request that a simulated provider answers: how it is read, and how answers and errors look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from hedgerow.errors import RequestError
from hedgerow.lab.chunks import Body, Errors, Said

CHARACTERS_PER_TOKEN = 4
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the lab read of a request."""

    model: str
    prompt: bytes
    """What the answer would depend on, as JSON; sets the input tokens and, hashed, the request's key."""
    speak: Callable[[Said], Body]
    stream: bool = False
    generates: bool = True
    """False: the answer has no output tokens."""
    free: bool = False
    """True: not even the input is billed."""
    limit: int | None = None
    """The most tokens the answer may have."""
    fills_limit: bool = True
    """True: a limit is the answer's length, not just its upper bound."""
    user: str | None = None

    @property
    def input_tokens(self) -> int:
        """An estimate, at least 1."""
        return len(self.prompt) // CHARACTERS_PER_TOKEN + 1

    def length(self, scripted: int | None, usual: int) -> int:
        """How many tokens to answer with: `scripted` ones first of all, `usual` when nothing else is said."""
        if not self.generates:
            return 0
        if scripted is not None:
            return scripted
        if self.limit is None:
            return usual
        return self.limit if self.fills_limit else min(self.limit, usual)


class Endpoint(ABC):
    """What is the same for all requests to one path. `prefix` starts the ids of its answers."""

    prefix: str
    errors: Errors
    id_field = b"x-request-id"
    """The response header with the request's id."""

    @abstractmethod
    def read(self, target: bytes, body: bytes) -> Asked:
        """Raises RequestError when it cannot be understood."""


def decode(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    """The request. Raises RequestError (400) that names the field at fault."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(400, f"Invalid request body: {error}") from error


def at_least_one(limit: int | None, field: str) -> int | None:
    """The token limit. Raises RequestError (400) for one below 1."""
    if limit is not None and limit < 1:
        raise RequestError(400, f"The token limit must be at least 1, got {limit}", param=field)
    return limit
