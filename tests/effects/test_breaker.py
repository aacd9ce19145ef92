"""targets.<name>.breaker.*: when a target is left out, and when it is tried again; exact requests in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from hedgerow.events import BreakerChanged, BreakerState, Role
from tests.effects.support import BROKEN, QUICK, SILENT, Sent, Story, after, effect_of, every, settings, tell
from tests.engine.scripted import Script

PLAIN = {
    "routes.<name>.targets": ["a", "b"],
    "routes.<name>.hedge.delay": "off",
    "routes.<name>.failover.budget": "off",
    "targets.<name>.breaker.minimum": 4,
}
"""The first four results of a target decide."""
SLOW = after(1.0)


def firsts(changes: Mapping[str, object], scripts: Sequence[Script], seconds: float = 2.0, times: int = 8) -> str:
    """Which targets eight requests go to first; the last script holds for the rest."""
    return tell(settings({**PLAIN, **changes}), {"a": scripts}, every(seconds, times)).firsts()


@effect_of("targets.<name>.breaker.failure_ratio")
@pytest.mark.parametrize(("ratio", "expected"), [("50%", "aaaabbbb"), ("51%", "aaaaaaaa"), ("off", "aaaaaaaa")])
def test_a_share_of_failures_leaves_a_target_out(key: str, ratio: str, expected: str) -> None:
    assert firsts({key: ratio}, [QUICK, QUICK, BROKEN, BROKEN, QUICK]) == expected


@effect_of("targets.<name>.breaker.failures")
@pytest.mark.parametrize(("failures", "expected"), [("off", "aaaaaaaa"), (2, "aaabbbbb"), (3, "aaaaaaab")])
def test_failures_in_a_row_leave_a_target_out(key: str, failures: object, expected: str) -> None:
    off = {"targets.<name>.breaker.failure_ratio": "off"}
    assert firsts({key: failures, **off}, [QUICK, BROKEN, BROKEN, QUICK, BROKEN]) == expected


@effect_of("targets.<name>.breaker.slow_after")
@pytest.mark.parametrize(("limit", "expected"), [("900ms", "aaaabbbb"), ("1100ms", "aaaaaaaa"), ("off", "aaaaaaaa")])
def test_slow_answers_leave_a_target_out(key: str, limit: str, expected: str) -> None:
    assert firsts({key: limit}, [SLOW]) == expected


@effect_of("targets.<name>.breaker.slow_ratio")
@pytest.mark.parametrize(("ratio", "expected"), [("50%", "aaaabbbb"), ("51%", "aaaaaaaa"), ("100%", "aaaaaaaa")])
def test_a_share_of_slow_answers_leaves_a_target_out(key: str, ratio: str, expected: str) -> None:
    slow = {"targets.<name>.breaker.slow_after": "900ms"}
    assert firsts({key: ratio, **slow}, [QUICK, QUICK, SLOW, SLOW, QUICK]) == expected


@effect_of("targets.<name>.breaker.minimum")
@pytest.mark.parametrize(("minimum", "expected"), [(1, "abbbbbbb"), (4, "aaaabbbb"), (20, "aaaaaaaa")])
def test_fewer_results_say_nothing(key: str, minimum: int, expected: str) -> None:
    assert firsts({key: minimum}, [BROKEN]) == expected


@effect_of("targets.<name>.breaker.window")
@pytest.mark.parametrize(("window", "expected"), [("70s", "aaaabbbb"), ("50s", "aaaaaaaa")])
def test_results_beyond_the_window_no_longer_count(key: str, window: str, expected: str) -> None:
    closed = {"targets.<name>.breaker.open_for": "1d"}
    assert firsts({key: window, **closed}, [BROKEN], seconds=20.0) == expected


def states(story: Story) -> list[tuple[BreakerState, float]]:
    """What became of the first target's breaker, and when."""
    return [(each.state, each.at) for each in story.of(BreakerChanged) if each.target == "a"]


@effect_of("targets.<name>.breaker.open_for")
@pytest.mark.parametrize("seconds", [10, 30])
def test_a_target_is_left_out_for_open_for(key: str, seconds: int) -> None:
    # A hedge tries it again as soon as it is half-open: the others are silent.
    changes = {**PLAIN, "routes.<name>.hedge.delay": "1s", "routes.<name>.hedge.outage.max_tokens": 1000, key: seconds}
    changes |= {"routes.<name>.hedge.budget": "off", "targets.b.breaker.failure_ratio": "off"}
    scripts = {"a": [BROKEN] * 4 + [QUICK], "b": [QUICK] * 4 + [SILENT]}
    story = tell(settings(changes), scripts, every(1.0, 40))
    probes = [(role, at) for _, target, role, at in story.launches if target == "a"][4:]
    assert probes[0] == (Role.HEDGE, 4.0 + seconds + 1.0)
    assert states(story)[0] == (BreakerState.OPEN, 3.1)
    assert states(story)[1] == (BreakerState.HALF_OPEN, 4.0 + seconds)


@effect_of("targets.<name>.breaker.successes")
@pytest.mark.parametrize(("successes", "expected"), [(1, "ab aa aa aa"), (3, "ab ab ab aa")])
def test_so_many_good_answers_bring_a_target_back(key: str, successes: int, expected: str) -> None:
    # One attempt at a time tries it, so of two requests at once the second goes elsewhere until it is back.
    pairs = [Sent(100.0 + 2.0 * (place // 2)) for place in range(8)]
    story = tell(settings({**PLAIN, key: successes}), {"a": [BROKEN] * 4 + [QUICK]}, [*every(1.0, 4), *pairs])
    found = story.firsts()[4:]
    assert " ".join(found[at : at + 2] for at in range(0, 8, 2)) == expected
    state, closed_at = states(story)[-1]
    assert (state, round(closed_at, 3)) == (BreakerState.CLOSED, 100.1 + 2.0 * (successes - 1))
