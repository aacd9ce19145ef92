"""Sticky sessions: the next request of a session goes first to where its last one was answered at once.

There the provider has the session's prompt in its cache. Only an answer of the request's first attempt, alone, makes or
keeps that: a session whose request was hedged, or should have been, goes by the order of the route again.

It is a table and no hash of the session over the targets, because the cache is where the last answer came from: a hash
would send sessions to a slow target again and again, and would know neither prices nor who is fastest. What the table
costs is memory, which is bounded, and that another process, or a restart, has to learn it anew.
"""

from __future__ import annotations

from hedgerow.policy.order import Sticky


class Sessions:
    """Where the sessions of one route are. It outlives a reload."""

    __slots__ = ("_places", "_rule")

    def __init__(self, rule: Sticky) -> None:
        self._rule = rule
        self._places: dict[str, tuple[str, float]] = {}  # by session: target and until when

    def __len__(self) -> int:
        """Sessions that are remembered, some of which may be over."""
        return len(self._places)

    def target(self, session: str, now: float) -> str | None:
        """Where this session is; None where it is nowhere."""
        found = self._places.get(session)
        return found[0] if found is not None and now < found[1] else None

    def keep(self, session: str, target: str, now: float) -> None:
        """The session is there, for as long again; those that are over make room, then those longest unheard of."""
        places, rule = self._places, self._rule
        places.pop(session, None)
        places[session] = (target, now + rule.ttl)
        while len(places) > rule.most or next(iter(places.values()))[1] <= now:
            del places[next(iter(places))]

    def forget(self, session: str) -> None:
        """The session is nowhere."""
        self._places.pop(session, None)

    def settle(self, session: str, target: str | None, now: float) -> None:
        """A request of the session is over: `target` answered it at once, or (None) it took more than that."""
        if target is None:
            self.forget(session)
        else:
            self.keep(session, target, now)


def changed(sessions: Sessions | None, rule: Sticky | None) -> Sessions | None:
    """What a reload with this rule makes of them: they stay where they are."""
    after = None if rule is None else Sessions(rule)
    if sessions is not None and after is not None:
        after._places = sessions._places
    return after
