"""The race of one request, as a state machine without clock or I/O.

The driver tells it what happened and when; it answers with commands and says when it wants to be woken (`wake_at`).
The shape is that of QUIC stacks (time in, timer out) and of RFC 8305's staggered connection attempts:

* The newest attempt runs alone for `delay` seconds; then the next may start. Launch times are absolute: the end of an
  attempt never moves them.
* A failure launches the next candidate at once, where its class allows (`policy.failures`).
* An error never beats a running rival: while any attempt runs, failures only wait.
* The first accepted answer commits; everybody else is cancelled; afterwards nothing is launched.
* An answer that a gate rejected waits for a running rival, up to `gate_wait`; if nobody is better, the best of the
  rejected wins, unless the plan is `strict`.
* With a `width` so many are launched together at the start.
* Events that share one `now` are taken in the order in which they are fed. `step` feeds a batch in a fixed order:
  answers before failures, lower attempts first, the timer last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from hedgerow.events import Failure, FailureClass, Reason, Role
from hedgerow.policy.commands import Cancel, Command, Commands, Commit, Fail, Happened, Kind, Launch, Skip
from hedgerow.policy.failures import Next, most_useful, next_after
from hedgerow.policy.plan import Candidate, Plan, Whether

_NOTHING: Commands = ()


class Race:
    """One request's race. Feed it events; run the commands it returns, in order; wake it at `wake_at`."""

    __slots__ = (
        "_candidates",
        "_excluded",
        "_failures",
        "_give_up_at",
        "_hedge_at",
        "_hedgeable",
        "_hedges",
        "_late_at",
        "_next",
        "_plan",
        "_rejected",
        "_running",
        "_sealed",
        "_total_at",
        "_went_to",
        "_whether",
        "over",
        "wake_at",
        "winner",
    )

    def __init__(
        self,
        plan: Plan,
        candidates: Sequence[Candidate],
        whether: Whether | None = None,
        *,
        hedgeable: int | None = None,
    ) -> None:
        """Hedges go only to the first `hedgeable` candidates (None: to all); the others are for failures alone."""
        if not candidates:
            raise ValueError("a race needs at least one candidate")
        self._plan = plan
        self._hedgeable = len(candidates) if hedgeable is None else hedgeable
        self._candidates = candidates
        self._whether = whether
        self._late_at: list[float] = []
        self._went_to: list[int] = []
        self._running: list[int] = []
        self._failures: list[tuple[int, Failure]] = []
        self._rejected: list[tuple[int, int]] = []  # (rank, -attempt): the greatest is the best
        self._give_up_at = inf
        self._excluded: set[tuple[Next, str]] = set()
        self._next = 0
        self._hedges = 0
        self._hedge_at = inf
        self._total_at = inf
        self._sealed = False
        self.over = False
        self.winner: int | None = None
        self.wake_at = inf

    @property
    def launched(self) -> int:
        """How many attempts have been launched so far."""
        return len(self._late_at)

    @property
    def running(self) -> Sequence[int]:
        """Attempts launched and not ended, in launch order."""
        return self._running

    def start(self, now: float) -> Commands:
        """Launch the first attempt, and those that race with it."""
        self._total_at = now + self._plan.total
        commands: list[Command] = [self._launch(0, Role.PRIMARY, now)]
        for _ in range(1, self._plan.width):
            self._add(Role.RACER, now, commands)
        self._set_wake()
        return commands

    def accepted(self, attempt: int, now: float) -> Commands:
        """The attempt has a good enough first token: it wins, unless the race is over already."""
        if self.over or attempt not in self._running:
            return _NOTHING
        self.winner = attempt
        losers = self._losers(attempt)
        self._finish()
        return [*losers, Commit(attempt)]

    def _losers(self, winner: int) -> list[Command]:
        """Cancel everybody but the winner, in the order of launch: who still runs, and who waits rejected."""
        others = sorted(self._running + [-attempt for _, attempt in self._rejected])
        return [Cancel(other) for other in others if other != winner]

    def failed(self, attempt: int, failure: Failure, now: float) -> Commands:
        """The attempt ended without an answer (or with one that a gate rejected)."""
        if self.over or attempt not in self._running:
            return _NOTHING
        commands: list[Command] = []
        self._lose(attempt, failure, now, commands)
        self._conclude(commands)
        return commands

    def held(self, attempt: int) -> None:
        """Its first token is here, to be judged: it is late no more; if it is the newest, no hedge is due."""
        if attempt in self._running:
            self._late_at[attempt] = inf
            self._hedge_at = inf if attempt == len(self._late_at) - 1 else self._hedge_at

    def rejected(self, attempt: int, failure: Failure, now: float, rank: int = 0) -> Commands:
        """A gate rejected the attempt's answer, of which the driver keeps hold; the best has the highest `rank`."""
        if self.over or attempt not in self._running:
            return _NOTHING
        commands: list[Command] = []
        if self._plan.strict:
            commands.append(Cancel(attempt))
        else:
            self._rejected.append((rank, -attempt))
            self._give_up_at = min(self._give_up_at, now + self._plan.gate_wait)
        self._lose(attempt, failure, now, commands, alone=True)
        self._conclude(commands)
        return commands

    def client_gone(self, now: float) -> Commands:
        """The client has left: cancel whatever runs."""
        if self.over:
            return _NOTHING
        losers = self._losers(-1)
        self._finish()
        return losers

    def tick(self, now: float) -> Commands:
        """Time has passed; a tick before `wake_at` does nothing."""
        if self.over or now < self.wake_at:
            return _NOTHING
        commands: list[Command] = []
        if now >= self._total_at:
            self._sealed = True
            late = Failure(FailureClass.TIMEOUT_TOTAL, f"not answered within {self._plan.total:g} s")
            self._expire(list(self._running), late, now, commands)
        else:
            for attempt in [each for each in self._running if now >= self._late_at[each]]:
                limit = self._plan.first_token_of(self._candidates[self._went_to[attempt]])
                late = Failure(FailureClass.TIMEOUT_FIRST_TOKEN, f"no first token within {limit:g} s")
                self._expire([attempt], late, now, commands)
            if now >= self._hedge_at:
                self._hedge(now, commands)
        if now >= self._give_up_at:
            self._give_up_at = inf
            self._settle(commands)
        else:
            self._conclude(commands)
        return commands

    def step(self, now: float, happened: Iterable[Happened]) -> list[Command]:
        """Feed several events that share one moment, in the fixed order that makes ties deterministic."""
        commands: list[Command] = []
        for event in sorted(happened, key=lambda event: (event.kind.value, event.attempt)):
            match event:
                case Happened(Kind.ACCEPTED, attempt):
                    commands += self.accepted(attempt, now)
                case Happened(Kind.REJECTED, attempt, failure, rank) if failure is not None:
                    commands += self.rejected(attempt, failure, now, rank)
                case Happened(Kind.FAILED, attempt, failure) if failure is not None:
                    commands += self.failed(attempt, failure, now)
                case Happened(Kind.CLIENT_GONE):
                    commands += self.client_gone(now)
                case _:
                    commands += self.tick(now)
        return commands

    def _launch(self, candidate: int, role: Role, now: float) -> Launch:
        attempt = len(self._late_at)
        self._late_at.append(now + self._plan.first_token_of(self._candidates[candidate]))
        self._went_to.append(candidate)
        self._running.append(attempt)
        self._next = candidate + 1
        may_hedge = self._hedges < self._plan.max_hedges and attempt + 1 < self._plan.max_attempts
        self._hedge_at = now + self._plan.delay if may_hedge else inf
        return Launch(attempt, candidate, role)

    def _find_candidate(self, end: int) -> int | None:
        """The next candidate before `end` not ruled out by an earlier failure; None when no attempt may be added."""
        if self._sealed or len(self._late_at) >= self._plan.max_attempts:
            return None
        excluded = self._excluded
        for index in range(self._next, end):
            place = self._candidates[index]
            if not excluded or excluded.isdisjoint(
                ((Next.OTHER_ACCOUNT, place.account), (Next.OTHER_TARGET, place.target))
            ):
                return index
        return None

    def _hedge(self, now: float, commands: list[Command]) -> None:
        self._hedge_at = inf
        if self._running:
            self._add(Role.HEDGE, now, commands)

    def _add(self, role: Role, now: float, commands: list[Command]) -> None:
        """Launch one more beside those that run, if there is where to go and the guards let it."""
        candidate = self._find_candidate(self._hedgeable)
        if not self._plan.replayable:
            commands.append(Skip(Reason.SIDE_EFFECTS, role=role))
        elif candidate is None:
            commands.append(Skip(Reason.TARGETS, "no other target to send it to", role))
        elif self._may(role, candidate, now, commands):
            self._hedges += role is Role.HEDGE
            commands.append(self._launch(candidate, role, now))

    def _may(self, role: Role, candidate: int, now: float, commands: list[Command]) -> bool:
        """Whether the guards let this attempt be launched now; their refusal is a command too."""
        if self._whether is None:
            return True
        refusal = self._whether(role, len(self._late_at), candidate, now)
        if refusal is not None:
            commands.append(Skip(refusal.reason, refusal.detail, role))
        return refusal is None

    def _lose(
        self, attempt: int, failure: Failure, now: float, commands: list[Command], *, alone: bool = False
    ) -> None:
        """Record a failed attempt; launch the next at once where its class allows, with `alone` if nobody else runs."""
        self._running.remove(attempt)
        self._failures.append((attempt, failure))
        where = next_after(failure, replayable=self._plan.replayable)
        if where is Next.NOWHERE:
            self._sealed = True
        elif where is not Next.ANYWHERE:
            loser = self._candidates[self._went_to[attempt]]
            self._excluded.add((where, loser.account if where is Next.OTHER_ACCOUNT else loser.target))
        if alone and self._running:
            return
        candidate = self._find_candidate(len(self._candidates))
        if candidate is not None and self._may(Role.FAILOVER, candidate, now, commands):
            commands.append(self._launch(candidate, Role.FAILOVER, now))

    def _expire(self, expired: list[int], late: Failure, now: float, commands: list[Command]) -> None:
        for attempt in expired:
            commands.append(Cancel(attempt, late))
            self._lose(attempt, late, now, commands)

    def _conclude(self, commands: list[Command]) -> None:
        if self._running:
            self._set_wake()
        else:
            self._settle(commands)

    def _settle(self, commands: list[Command]) -> None:
        """Nobody better is to be waited for: the best of the rejected wins, or the request fails."""
        if self._rejected:
            winner = self.winner = -max(self._rejected)[1]
            commands += [*self._losers(winner), Commit(winner)]
            self._finish()
            return
        attempt, failure = most_useful(self._failures)
        self._finish()
        commands.append(Fail(attempt, failure))

    def _finish(self) -> None:
        self.over = True
        self._running = []
        self.wake_at = inf

    def _set_wake(self) -> None:
        """The earliest of: next hedge, first-token limit of a running attempt, end of waiting, total limit."""
        first_token_at = min(self._late_at[attempt] for attempt in self._running)
        self.wake_at = min(self._hedge_at, first_token_at, self._give_up_at, self._total_at)
