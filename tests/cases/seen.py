"""What was seen of one run of a step: by the client, by the upstreams, and in the gateway's events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.cases.answers import Answer
from tests.cases.case import NAMES, Name
from tests.cases.client import Got
from tests.cases.upstream import Seen

Event = dict[str, Any]
Breakers = dict[tuple[str, str], dict[str, Any]]
"""By target and model (empty where the target has a breaker for all), as the admin API shows them."""


@dataclass
class Run:
    """One request of a case."""

    got: Got
    answer: Answer
    seen: dict[Name, list[Seen]]
    """Its requests at the upstreams, in the order in which they came."""
    events: list[Event] = field(default_factory=list)
    """Those with its request id."""

    def of_kind(self, kind: str) -> list[Event]:
        """Its events of one kind, in order."""
        return [event for event in self.events if event["event"] == kind]

    def one(self, kind: str) -> Event | None:
        """Its last event of a kind."""
        return found[-1] if (found := self.of_kind(kind)) else None

    def attempt(self, target: str) -> Event | None:
        """How the last attempt at a target ended."""
        ended = [event for event in self.of_kind("attempt_ended") if event["target"] == target]
        return ended[-1] if ended else None

    def launched(self, target: str) -> list[Event]:
        """The attempts at a target."""
        return [event for event in self.of_kind("attempt_launched") if event["target"] == target]

    @property
    def winner(self) -> str | None:
        """The target whose answer was committed to."""
        finished = self.one("request_finished")
        if finished is None or finished["winner"] is None:
            return None
        targets = {event["attempt"]: str(event["target"]) for event in self.of_kind("attempt_launched")}
        return targets.get(finished["winner"], "an attempt that no event tells of")

    @property
    def contacted(self) -> list[str]:
        """Targets of attempts and those where a request was seen, in order, each once."""
        launched = [event["target"] for event in self.of_kind("attempt_launched")]
        return list(dict.fromkeys([*launched, *(name for name in NAMES if self.seen[name])]))

    def ms(self, at: float) -> float:
        """A time of the runner's, in milliseconds since the request was sent."""
        return (at - self.got.sent_at) * 1000


@dataclass
class StepSeen:
    """All runs of a step, and what belongs to no single one."""

    runs: list[Run]
    before: list[Run]
    """Of the case's earlier steps."""
    taken_out: list[Event]
    """`target_taken_out`, during this step."""
    changed: list[Event]
    """`breaker_changed`, during this step and those before it."""
    breakers_before: Breakers
    """When the step began."""
    breakers: Breakers
    """When it was over."""
    open_sockets: int
    log: str

    @property
    def so_far(self) -> list[Run]:
        """Of this step and those before it."""
        return [*self.before, *self.runs]

    def counted(self, target: str) -> int | None:
        """Failures that the target's breakers have counted in this step; None where one changed and began anew."""
        if any(event["target"] == target for event in self.changed):
            return None
        return _failures(self.breakers, target) - _failures(self.breakers_before, target)

    def changes(self, target: str, run: Run) -> list[Event]:
        """How the breaker has changed which the target has for this run's model."""
        started = run.one("request_started")
        key = (target, started and started["model"])
        return [event for event in self.changed if (event["target"], event["model"]) == key]

    def left_out(self, target: str, run: Run) -> bool:
        """Whether its breaker was open when the run began."""
        started = run.one("request_started")
        states = [each["state"] for each in self.changes(target, run) if started and each["at"] <= started["at"]]
        return states[-1:] == ["open"]


def _failures(breakers: Breakers, target: str) -> int:
    return sum(int(breaker["failures"]) for (name, _), breaker in breakers.items() if name == target)
