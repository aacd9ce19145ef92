"""What a simulated provider is told to do: faults, and fixed times for one request or for all.

A `Script` comes as JSON in the request header `x-lab-script` (or `x-lab-script-NAME`, which only the provider of that
name obeys: one request can then behave differently at each provider behind a gateway), or through the control API for
all requests. A `FaultMix` strikes at random, by probability.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

import msgspec

from hedgerow.errors import ConfigError, RequestError


class Fault(StrEnum):
    """How an answer goes wrong after (or instead of) a status of 200. `at` is the number of tokens sent before."""

    HANG = "hang"
    """Not one byte comes."""
    STALL = "stall"
    """Headers and the role-only chunk come at once, then `at` tokens (default 0), then silence."""
    CUT = "cut"
    """The connection breaks after `at` tokens (default: half of them)."""
    CLOSE = "close"
    """The body ends cleanly after `at` tokens (default: half), with neither a finish chunk nor [DONE]."""
    ERROR = "error"
    """An error frame inside the 200 stream after `at` tokens (default: half), then a clean end."""
    SLOW = "slow"
    """From token `at` on (default: half) the gaps are `SLOWED` times as long."""


SLOWED = 20
_Ms = Annotated[float, msgspec.Meta(ge=0, le=3_600_000)]
_FIELD_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_FIELD_VALUE = re.compile(r"[\x20-\x7e]*")


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to do with a request. What is left out is as the provider's preset has it; times are in milliseconds.

    With `status` (400 to 599) the answer is that error after `delay_ms`, with these `headers`, `retry_after` seconds
    (sent as retry-after and retry-after-ms) and error `code`. With `fault` "error", `status` and `code` go into the
    error frame instead.
    """

    ttft_ms: _Ms | None = None
    gap_ms: _Ms | None = None
    tokens: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    delay_ms: _Ms = 0.0
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    code: str | None = None
    headers: dict[str, str] = {}
    fault: Fault | None = None
    at: int | None = None

    def __post_init__(self) -> None:
        if self.status is not None and self.fault not in (None, Fault.ERROR):
            raise ValueError(f"`status` and `fault` {self.fault.value!r} exclude each other")
        if self.at is not None and self.fault in (None, Fault.HANG):
            raise ValueError("`at` needs a `fault` other than 'hang'")
        if self.at is not None and self.at < 0:
            raise ValueError(f"`at` counts tokens from 0, got {self.at}")
        refuses = self.status is not None and self.fault is None
        for name in ("delay_ms", "retry_after", "headers"):
            if getattr(self, name) and not refuses:
                raise ValueError(f"`{name}` needs a `status` and no `fault`")
        if self.code is not None and self.status is None:
            raise ValueError("`code` needs a `status`")
        for name, value in self.headers.items():
            if not (_FIELD_NAME.fullmatch(name) and _FIELD_VALUE.fullmatch(value)):
                raise ValueError(f"`headers` must be lower-case field names with printable ASCII values: {name!r}")
            if name in ("content-length", "transfer-encoding", "connection"):
                raise ValueError(f"`headers` may not set {name!r}: the server does")

    def stops_at(self, tokens: int) -> int | None:
        """After how many of `tokens` the fault strikes; None without one."""
        match self.fault:
            case None | Fault.HANG:
                return None
            case Fault.STALL:
                return min(self.at or 0, tokens)
            case _:
                return min(tokens // 2 if self.at is None else self.at, tokens)


PLAIN = Script()
_decoder = msgspec.json.Decoder(Script)


def parse_script(text: bytes | str, source: str) -> Script:
    """Read a script from JSON. Raises RequestError (400) that names `source` and the field at fault."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(400, f"{source}: {error}", code="bad_script", param=source) from error


class FaultMix:
    """Faults by probability, e.g. "429:0.01,cut:0.005,stall@3:0.002": status or fault, its token, its share."""

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        """Raises ConfigError, naming the part that cannot be understood."""
        self.text = text
        self._steps: list[tuple[float, Script]] = []
        total = 0.0
        for part in filter(None, (part.strip() for part in text.split(","))):
            script, share = _part(part)
            total += share
            self._steps.append((total, script))
        if total > 1 + 1e-9:
            raise ConfigError([f"fault: the probabilities add up to {total:g}, more than 1"])

    @property
    def scripts(self) -> list[Script]:
        """What may happen."""
        return [script for _, script in self._steps]

    def pick(self, u: float) -> Script | None:
        """The fault that `u`, uniform between 0 and 1, falls on; None for a healthy request."""
        return next((script for limit, script in self._steps if u < limit), None)


def _part(part: str) -> tuple[Script, float]:
    what, _, chance = part.partition(":")
    name, at_sign, at = what.partition("@")
    try:
        share = float(chance)
        if not 0 <= share <= 1:
            raise ValueError(f"{share:g} is not a probability between 0 and 1")
        if name.isascii() and name.isdigit() and not at_sign:
            status = int(name)
            if not 400 <= status <= 599:
                raise ValueError(f"{status} is not an error status (400 to 599)")
            return Script(status=status, retry_after=1.0 if status == 429 else None), share
        return Script(fault=Fault(name), at=int(at) if at_sign else None), share
    except ValueError as error:
        wanted = f"STATUS:PROBABILITY or FAULT[@TOKEN]:PROBABILITY, with FAULT one of {', '.join(Fault)}"
        raise ConfigError([f"fault: {part!r} is not {wanted}: {error}"]) from error
