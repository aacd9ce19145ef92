"""What a probe found, as it is shown, written to a file and read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec


class Phase(StrEnum):
    """How far an attempt had come when it was cancelled."""

    HEADERS = "before_headers"
    TOKEN = "before_first_token"
    STREAM = "mid_stream"
    WHOLE = "whole_answer"
    """It was not streamed, and nothing of it had come."""


class Level(StrEnum):
    """How sure it is what a cancel comes to."""

    CONFIRMED = "confirmed"
    """The upstream itself says whether it stopped."""
    CLOSED = "closed"
    """Only the connection is known to be closed."""
    UNKNOWN = "unknown"
    """The phase was not met, or the call failed."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cancelled attempt. Times are seconds.

    `stopped` is what the upstream says, None where it does not. `cancelled_after` is counted from when the request was
    written. `closed_after`, `noticed_after`: from the cancel until our end was closed, until the upstream was seen to
    have stopped or to know. `tokens_before` came, `tokens_after` were generated once it was cancelled. `note` is for
    people.
    """

    phase: Phase
    level: Level
    stopped: bool | None = None
    cancelled_after: float | None = None
    closed_after: float | None = None
    noticed_after: float | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    note: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one target. `witness`: what could tell at the upstream, None where nothing could.

    `first_token` and `token_gap` are the seconds that the call took which was not cancelled.
    """

    at: datetime
    base_url: str
    model: str | None
    protocol: str
    witness: str | None
    first_token: float | None
    token_gap: float | None
    findings: Sequence[Finding]

    @property
    def streams(self) -> bool | None:
        """Whether streams stop when they are cancelled; None where that could not be told."""
        return _all(each for each in self.findings if each.phase is not Phase.WHOLE)

    @property
    def whole(self) -> bool | None:
        """The same of answers that are not streamed."""
        return _all(each for each in self.findings if each.phase is Phase.WHOLE)

    @property
    def fails(self) -> bool:
        """Whether something went on."""
        return any(each.stopped is False for each in self.findings)


def _all(findings: Iterable[Finding]) -> bool | None:
    """False where one went on, True where one stopped and none went on."""
    told = {each.stopped for each in findings if each.stopped is not None}
    return None if not told else False not in told
