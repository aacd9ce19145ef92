"""Who hears what happens: listeners by the kinds of events that they want to be told of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Event,
    FirstToken,
    Listener,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    WonAlone,
)

log = logging.getLogger("hedgerow")
BEGINNINGS = (RequestStarted, AttemptLaunched)
OF_REQUESTS = (*BEGINNINGS, FirstToken, AttemptEnded, RequestFinished, RequestBilled)
"""What happens in every request."""


Tally = Callable[[WonAlone], None]


class Audience:
    """Tells each listener in order. A fault of who only listens is not the request's: it goes on."""

    __slots__ = ("_heard", "tally")

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._heard = {
            kind: tuple(
                getattr(listener, "ears", {}).get(kind, listener)
                for listener in listeners
                if kind in getattr(listener, "kinds", (kind,))
            )
            for kind in get_args(Event)
        }

        wanting = [one for one in listeners if any(kind in getattr(one, "kinds", (kind,)) for kind in OF_REQUESTS)]
        self.tally: Tally | None = getattr(wanting[0], "tally", None) if len(wanting) == 1 else None
        """Told of a request in place of its events, where one record can say all; None where others want those."""

    def after(self, first: Mapping[type[Event], Listener]) -> Audience:
        """The same listeners, told after these."""
        other = Audience(())
        other._heard = {kind: (first[kind], *heard) if kind in first else heard for kind, heard in self._heard.items()}
        return other

    def hears(self, kinds: Iterable[type[Event]]) -> bool:
        """Whether anybody wants to be told of one of these."""
        return any(self._heard[kind] for kind in kinds)

    def tell(self, event: Event) -> None:
        """To be called for every event."""
        for listener in self._heard[type(event)]:
            try:
                listener(event)
            except Exception:
                log.exception("hedgerow itself failed to hear of a %s; please report it", type(event).__name__)
