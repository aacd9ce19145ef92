"""What was seen of one run of a step: by the client, by the upstreams, and in the gateway's events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.cases.answers import Answer
from tests.cases.case import NAMES, Name
from tests.cases.client import Got
from tests.cases.upstream import Seen

Event = dict[str, Any]


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
    open_sockets: int
    log: str

    @property
    def so_far(self) -> list[Run]:
        """Of this step and those before it."""
        return [*self.before, *self.runs]
