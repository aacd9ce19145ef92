"""The rules of each request's race, made from the policy of its route."""

from __future__ import annotations

from math import inf

from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate, Plan
from hedgerow.policy.settings import Policy

_KEPT = 256
"""Plans that are kept; learned delays change now and then."""


class Plans:
    """Of one policy."""

    __slots__ = ("_known", "_policy", "alone")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known: dict[float | tuple[float, bool, bool], Plan] = {}
        self.alone = Plan(max_hedges=0, max_attempts=1, total=policy.total, stall=policy.stall)
        """One attempt, whatever happens."""

    def of(self, delay: float, ask: Ask, now: float) -> Plan:
        """For a request that begins now, to be hedged after `delay` seconds."""
        policy = self._policy
        if ask.deadline_at < now + policy.total:
            return self._made(delay, ask, ask.deadline_at - now)
        key = delay if ask.stream and ask.replayable else (delay, ask.stream, ask.replayable)
        plan = self._known.get(key)
        if plan is None:
            if len(self._known) > _KEPT:
                self._known.clear()
            plan = self._known[key] = self._made(delay, ask, policy.total)
        return plan

    def longest(self, candidate: Candidate, ask: Ask) -> float:
        """How many seconds the request's first attempt, at this candidate, may at most run without a first token."""
        total = ask.deadline_at - ask.started_at
        return min(self.of(inf, ask, ask.started_at).first_token_of(candidate), total)

    def _made(self, delay: float, ask: Ask, total: float) -> Plan:
        policy, gates = self._policy, self._policy.gates
        return Plan(
            delay=delay,
            max_hedges=policy.max_hedges if delay < inf else 0,
            max_attempts=policy.max_attempts,
            # A whole answer has no first token to be late; in a chain it is late itself, where another may be asked.
            first_token=policy.first_token if ask.stream or (policy.chain and ask.replayable) else inf,
            total=total,
            replayable=ask.replayable,
            width=policy.width,
            stall=policy.stall,
            gate_wait=inf if gates is None else gates.wait,
            strict=gates is not None and gates.strict,
        )
