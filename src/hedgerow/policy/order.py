"""How a route says in which order its targets are asked, as plain data that can be sent to a serving process.

A route that says nothing asks them as they are listed.
"""

from __future__ import annotations

import msgspec


class Rotate(msgspec.Struct, frozen=True, gc=False, tag="rotate"):
    """Each in turn, as often as its weight says."""


OrderRule = Rotate
