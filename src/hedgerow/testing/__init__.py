"""For tests of code that hedges: virtual time, scripted targets, assertions; simulated providers are in `labs`.

pytest finds the fixtures `virtual_loop` and `lab` by itself (`hedgerow.pytest_plugin`).
"""

from hedgerow.testing.asserting import assert_hedged, assert_not_hedged, assert_winner
from hedgerow.testing.loop import Deadlock, VirtualLoop, run_virtual
from hedgerow.testing.scripted import Called, Scripted, scripted

__all__ = [
    "Called",
    "Deadlock",
    "Scripted",
    "VirtualLoop",
    "assert_hedged",
    "assert_not_hedged",
    "assert_winner",
    "run_virtual",
    "scripted",
]
