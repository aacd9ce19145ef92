"""The bound of a budget, reckoned a second time from what was launched."""

from __future__ import annotations

from hedgerow.policy.budget import Share


class Cap:
    """How far any stretch went beyond what it was granted: `most` is at most the budget's burst."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.launched = 0
        self.most = 0.0
        self._at, self._beyond = 0.0, 0.0

    def request(self, now: float) -> None:
        """A request has come."""
        self._pass(now, self.share.share)

    def attempt(self, now: float) -> None:
        """An attempt that the budget is for is launched."""
        self.launched += 1
        self._pass(now, -1.0)
        self.most = max(self.most, self._beyond)

    def _pass(self, now: float, granted: float) -> None:
        minutes, self._at = (now - self._at) / 60.0, now
        self._beyond = max(0.0, self._beyond - self.share.per_minute * minutes - granted)
