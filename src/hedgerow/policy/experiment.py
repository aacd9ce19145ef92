"""What hedging brings a route: a share of its requests goes without, and of the others it is told what they would have.

Who takes part, and on which side, is settled when a request begins and by nothing that hedging itself decides. So both
sides are alike but for hedging, and what differs between them is what it brings, its refusals and its cost included.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.events import Arm, Reason
from hedgerow.policy.ask import Ask
from hedgerow.policy.guards import WHOLE, Guard, first_refusal, place
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.plan import Candidate, Refusal

_WHAT = b"holdout"


def backups(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Which of these can get the hedge of another."""
    return tuple(each for each in candidates if each.backs and any(one.leads and one is not each for one in candidates))


class Experiment:
    """Of one route."""

    __slots__ = ("_guards", "_held", "_latency", "held_out", "runs")

    def __init__(self, latency: LatencyModel) -> None:
        self._latency = latency
        self.go_by(0.0, ())

    def go_by(self, holdout: float, guards: tuple[Guard, ...], *, hedges: bool = True) -> None:
        """From now on hold out this share, in [0, 1], to the millionth.

        `guards`: those that go by a request and the settings of its route, and by nothing that changes by itself.
        `hedges`: the route launches attempts by delay, or together.
        """
        self._guards = guards
        self._held = round(holdout * WHOLE)
        self.runs = hedges and self._held > 0
        """Whether any request takes part."""
        self.held_out = Refusal(Reason.HOLDOUT, f"experiment.holdout: {self._held * 100 / WHOLE:.6g}% of requests")
        """Why those that are held out are not hedged."""

    def arm(self, ask: Ask, first: Candidate, backups: Sequence[Candidate]) -> Arm | None:
        """The request's side; None where its route would hedge it to none of these, so that it takes no part.

        `first` is where it goes.
        """
        if ask.replayable:
            for backup in backups:
                if backup is not first and first_refusal(self._guards, ask, backup, ask.started_at) is None:
                    return Arm.HOLDOUT if place(ask.request_id, _WHAT) < self._held else Arm.HEDGED
        return None

    def unhedged(self, ask: Ask, target: str, silent: float, longest: float, now: float) -> float | None:
        """Seconds that an attempt would have taken to its first token that lost after `silent` seconds without one.

        That is what its target's attempts take on average that are silent as long, as far as is known: none counts with
        more than `longest`, nor with more than has been seen of the target. So where it is wrong it rather says that
        hedging saved too little. None while too little is known of the target.
        """
        law = self._latency.first_token(target, ask.stream, ask.input_tokens, now)
        return None if law is None else max(law.beyond(silent, longest), silent)
