"""What an operator may change while the gateway runs, for one route or for all of them."""

from __future__ import annotations

import msgspec


class Controls(msgspec.Struct, gc=False):
    """`kill_switch` stops all hedges. `rollout` is the share of requests, 0 to 1, that may be hedged.

    `delay` (as `hedge.delay` is written) and `budget` (a share of requests) take the place of the configured ones where
    they are set. What is None is as the configuration says.
    """

    kill_switch: bool = False
    rollout: float | None = None
    delay: str | None = None
    budget: float | None = None
