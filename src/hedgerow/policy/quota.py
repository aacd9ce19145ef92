"""Hedges leave an upstream's rate limits to the traffic that cannot do without them.

What each target's answers report of its limits (`events.RateLimits`) is carried forward: what is sent is taken off at
once, and what is used comes back evenly until all of the limit is there. That is how the buckets of OpenAI, Anthropic
and Groq fill: 4,379 of OpenAI's 1,500,000 tokens a day, told to be back in 4m12.172s, are 17.36 a second, and so is the
limit over a day (community.openai.com/t/541210). A fixed window gives back later; the next answer puts that right.

A hedge is refused (`QuotaGuard`)

* while its account is known to turn requests away by its rate limit;
* when it would leave less than `keep` of the backup's limit: that much is for regular traffic. Where both targets
  share an account, what the primary reported holds too;
* once hedges hold `share` of the primary's limit at the backup. So that is all that a backup needs to have to spare,
  and a primary in trouble does not put its whole load on it. The last hedge may overshoot, so that one always fits.

This holds for requests and for each way of counting tokens. By a limit that nobody reported nothing is refused.
"""

from __future__ import annotations

from hedgerow.events import Reason
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import MAX_OUT
from hedgerow.policy.plan import Candidate, Refusal
from hedgerow.room import RateLimits, Room

KEEP = 0.2
"""The share of its own limit that a backup keeps for regular traffic, unless said otherwise."""

SHARE = 0.2
"""What hedges may hold at a backup, as a share of the primary's limit, unless said otherwise."""

LIMITED = 10.0
"""Seconds that an account gets no hedges, at least, after it turned a request away by its rate limit."""

WINDOW = 60.0
"""Seconds in which a limit is taken to be whole again when the upstream does not say."""

REFRESH = 0.1
"""Seconds between two reports of one target that are worth their reading; what is sent meanwhile is reckoned."""


class _Level:
    """How much of one limit is used, and how much of that by hedges. `rate` is what comes back in a second."""

    __slots__ = ("at", "hedged", "limit", "rate", "used")

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self.rate = limit / WINDOW
        self.used = self.hedged = 0.0
        self.at = now

    def learn(self, limit: int, room: Room, now: float) -> None:
        self.advance(now)
        self.limit = limit
        self.used = 0.0 if room.resets_in == 0.0 else float(max(limit - room.remaining, 0))
        if self.used > 0.0:
            self.rate = self.used / (room.resets_in or WINDOW)
        self.hedged = min(self.hedged, self.used)

    def advance(self, now: float) -> None:
        """Let time pass: what hedges used comes back in proportion."""
        if now > self.at:
            if (before := self.used) > 0.0:
                self.used = used = max(before - self.rate * (now - self.at), 0.0)
                if self.hedged:
                    self.hedged *= used / before
            self.at = now

    def room(self, now: float) -> Room:
        """As the upstream would report it."""
        self.advance(now)
        return Room(max(int(self.limit - self.used), 0), self.limit, self.used / self.rate)


_Levels = dict[str, _Level]
"""By the names of the fields of `RateLimits`."""
_Key = tuple[str, str]
"""Target and account: a provider counts each model of each account by itself."""


class Quota:
    """What is known of every target's limits. Shared by all routes of one process; it outlives a reload.

    Only targets with a key of our own belong here: the limits of a client's key say nothing about the next client.
    """

    __slots__ = ("_asked", "_due", "_limited", "reported")

    def __init__(self) -> None:
        self._due: dict[_Key, float] = {}
        self._asked: dict[_Key, float] = {}
        self.reported: dict[_Key, _Levels] = {}
        """What targets said is left of their limits; nothing need be told as `spent` before one has said anything."""
        self._limited: dict[str, float] = {}

    def due(self, candidate: Candidate, now: float, launched_at: float) -> bool:
        """Whether the headers of an answer of this target should be read now; then not again for `REFRESH` seconds.

        So reading them costs a busy target next to nothing. What says how much was left before a request that one has
        heard of already is old news: some heads come with the first token, and a slow one may be half a minute late.
        """
        key = (candidate.target, candidate.account)
        if now < self._due.get(key, now) or launched_at < self._asked.get(key, launched_at):
            return False
        self._due[key], self._asked[key] = now + REFRESH, launched_at
        return True

    def learn(self, candidate: Candidate, limits: RateLimits, now: float) -> None:
        """An answer of this target reported `limits`; they count whatever it was sent so far."""
        levels = self.reported.setdefault((candidate.target, candidate.account), {})
        for kind, room in (
            ("requests", limits.requests),
            ("tokens", limits.tokens),
            ("input_tokens", limits.input_tokens),
            ("output_tokens", limits.output_tokens),
        ):
            if room is None:
                continue
            level = levels.get(kind)
            limit = max(room.remaining, level.limit if level else 0) if room.limit is None else room.limit
            if not limit:  # nothing is left, of nobody knows what: that cannot be carried forward
                levels.pop(kind, None)
                self.limited(candidate, room.resets_in or WINDOW, now)
                continue
            if level is None:
                level = levels[kind] = _Level(limit, now)
            level.learn(limit, room, now)

    def limited(self, candidate: Candidate, retry_after: float | None, now: float) -> None:
        """The target turned a request away by its rate limit; `retry_after` seconds count up to `health.MAX_OUT`."""
        until = now + min(max(retry_after or 0.0, LIMITED), MAX_OUT)
        self._limited[candidate.account] = max(until, self._limited.get(candidate.account, until))

    def limited_for(self, candidate: Candidate, now: float) -> float:
        """Seconds that its account still counts as rate limited; 0 when it does not."""
        return max(self._limited.get(candidate.account, now) - now, 0.0)

    def fits(self, candidate: Candidate, ask: Ask, now: float) -> bool:
        """Whether such a request should not meet its rate limit, as far as anything is known of that."""
        if self._limited and self.limited_for(candidate, now) > 0.0:
            return False
        levels = self.levels(candidate, now)
        return all(level.limit - level.used >= _need(kind, ask, levels) for kind, level in levels.items())

    def spent(self, candidate: Candidate, ask: Ask, now: float, *, hedge: bool = False) -> None:
        """An attempt was launched there: until the next report it counts as the upstream should count it."""
        levels = self.reported.get((candidate.target, candidate.account))
        if levels:
            for kind, level in levels.items():
                level.advance(now)
                need = _need(kind, ask, levels)
                level.used += need
                if hedge:
                    level.hedged += need

    def headroom(self, candidate: Candidate, now: float) -> RateLimits | None:
        """What should be left at this target now; None when it never reported anything."""
        levels = self.reported.get((candidate.target, candidate.account))
        return RateLimits(**{kind: level.room(now) for kind, level in levels.items()}) if levels else None

    def levels(self, candidate: Candidate, now: float) -> _Levels:
        """For guards: what is known of each kind of limit now."""
        levels = self.reported.get((candidate.target, candidate.account)) or {}
        for level in levels.values():
            level.advance(now)
        return levels


class QuotaGuard:
    """Refuses hedges that would eat what regular traffic needs; the rules are those of the module."""

    __slots__ = ("_keep", "_quota", "_share")

    def __init__(self, quota: Quota, *, keep: float = KEEP, share: float = SHARE) -> None:
        """`keep` is at least 0 and below 1, `share` above 0 (`inf`: no such bound). Raises `ValueError` for others."""
        if not 0.0 <= keep < 1.0:
            raise ValueError("keep must be at least 0 and below 1")
        if not share > 0.0:
            raise ValueError("share must be above 0")
        self._quota, self._keep, self._share = quota, keep, share

    def refuses(self, ask: Ask, primary: Candidate, backup: Candidate, now: float) -> Refusal | None:
        """Why a hedge of `ask`, whose first attempt went to `primary`, may not go to `backup` now; None: it may."""
        quota = self._quota
        wait = quota.limited_for(backup, now)
        if wait > 0.0:
            return Refusal(Reason.QUOTA, f"{backup.target}: rate limited, no hedges for {wait:.1f} s")
        levels, others = quota.levels(backup, now), quota.levels(primary, now)
        why = self._too_low(ask, backup, levels) or self._too_many(backup, levels, primary, others)
        if why is None and primary.account == backup.account and others is not levels:
            why = self._too_low(ask, primary, others)
        return None if why is None else Refusal(Reason.QUOTA, why)

    def _too_low(self, ask: Ask, candidate: Candidate, levels: _Levels) -> str | None:
        for kind, level in levels.items():
            left, need, keep = level.limit - level.used, _need(kind, ask, levels), self._keep * level.limit
            if left - need < keep:
                needs = f"{max(left, 0.0):.0f} {_words(kind)} left, the hedge needs {need}"
                kept = f"{keep:.0f} are kept for regular traffic (hedge.quota_keep: {self._keep * 100:.6g}%)"
                return f"{candidate.target}: {needs} and {kept}"
        return None

    def _too_many(self, backup: Candidate, levels: _Levels, primary: Candidate, others: _Levels) -> str | None:
        for kind, level in levels.items():
            if kind in others and level.hedged >= (most := self._share * others[kind].limit):
                held = f"hedges hold {level.hedged:.0f} {_words(kind)}"
                setting = f"hedge.quota_share: {self._share * 100:.6g}% of the limit of {primary.target}"
                return f"{backup.target}: {held}, {most:.0f} are theirs ({setting})"
        return None


def _need(kind: str, ask: Ask, levels: _Levels) -> int:
    """What a request takes from a limit.

    OpenAI, Azure, Groq and Cerebras count on arrival: the prompt and the longest answer allowed. Who counts the two
    apart, Anthropic, counts an answer as it comes and does not mind its limit.
    """
    if kind == "requests":
        return 1
    if kind == "output_tokens":
        return 0
    apart = kind == "input_tokens" or "input_tokens" in levels
    return ask.input_tokens if apart else ask.input_tokens + (ask.max_output_tokens or 0)


def _words(kind: str) -> str:
    return kind.replace("_", " ")
