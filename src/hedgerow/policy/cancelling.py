"""Targets that go on generating when an attempt there is cancelled: what is known of that, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hedgerow.events import Reason
from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate, OnFailure, Refusal, RunsOn

RAISE = 2.0
"""What delays are multiplied with under `raise_delay`."""


class Probed(msgspec.Struct, frozen=True, gc=False):
    """What a probe found of a target: whether the upstream stopped its streams and its whole answers when cancelled.

    None: that could not be told. `detail` is for people, `at` the date.
    """

    streams: bool | None
    whole: bool | None
    detail: str
    at: str

    @property
    def fails(self) -> bool:
        """Whether something went on."""
        return self.streams is False or self.whole is False


def runs_on(probed: Probed | None, action: OnFailure) -> RunsOn | None:
    """What follows from a probe; None where nothing does."""
    if probed is None or not probed.fails or action is OnFailure.WARN:
        return None
    return RunsOn(probed.streams is False, probed.whole is False, action)


def stoppable(ask: Ask, backup: Candidate, _now: float) -> Refusal | None:
    """The guard that refuses hedges to a target which goes on with what is cancelled there, where it is so configured.

    What is asked there first is paid for in any case, so it may be hedged against.
    """
    if backup.runs_on is None or not backup.runs_on.bars(stream=ask.stream):
        return None
    return Refusal(Reason.CANCEL_FAILURE, f"{backup.target} goes on when cancelled (on_cancel_failure: disable)")


def raises_delay(candidates: Iterable[Candidate], *, stream: bool) -> bool:
    """Whether hedges between these are to wait longer."""
    return any(each.runs_on is not None and each.runs_on.raises(stream=stream) for each in candidates)
