"""What an operator should hear of one route: of its delays, and of hedges that an outage holds back."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.events import DelayRuleChanged, HedgingThrottled
from hedgerow.policy.lessons import Lessons
from hedgerow.policy.when import When

Notice = DelayRuleChanged | HedgingThrottled


class Notices:
    """Looks at what has changed since it was asked last; to be asked every few seconds, away from requests."""

    __slots__ = ("_lessons", "_route", "_throttled", "_when")

    def __init__(self, route: str, when: When, lessons: Lessons) -> None:
        self._route, self._when, self._lessons = route, when, lessons
        self._throttled = False

    def new(self, now: float) -> Iterator[Notice]:
        """What has changed."""
        for notice in self._when.notices():
            told = notice.target, notice.stream, notice.straggles, notice.detail, notice.at
            yield DelayRuleChanged(self._route, *told)
        throttle = self._lessons.throttle
        refusal = None if throttle is None else throttle.holds(now)
        if (refusal is not None) is not self._throttled:
            self._throttled = refusal is not None
            yield HedgingThrottled(self._route, self._throttled, "" if refusal is None else refusal.detail, now)
