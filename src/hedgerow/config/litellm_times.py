"""The times of a LiteLLM group as those of a route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.config.hedge import Hedge
from hedgerow.config.route import FIRST_TOKEN, TOTAL
from hedgerow.units import show_duration

_DELAY = Hedge().first_delay or 0.0


def patience(found: Mapping[str, float], *, hedged: bool) -> dict[str, Any]:
    """The route's `hedge`, sooner than by default where that would come too late, and its `timeouts`."""
    # LiteLLM gives whole calls 6000 s unless told otherwise, so a long first_token stretches an unset total.
    total = found.get("total", max(TOTAL, found.get("first_token", 0.0)))
    first_token = min(found.get("first_token", FIRST_TOKEN), total)
    timeouts = {"total": show_duration(total)} if found else {}
    if "first_token" in found:
        timeouts["first_token"] = show_duration(first_token)
    delay = _DELAY if first_token > _DELAY else first_token / 2
    hedge = {"hedge": {"delay": show_duration(delay)}} if hedged else {}
    return hedge | ({"timeouts": timeouts} if timeouts else {})
