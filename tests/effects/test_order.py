"""routes.<name>.order and the keys of targets that it goes by: who is asked first, and who next."""

from __future__ import annotations

import pytest

from tests.effects.support import SILENT, effect_of, every, settings, tell

ROTATE = "routes.<name>.order"


@effect_of(ROTATE)
@pytest.mark.parametrize(("order", "firsts"), [("fixed", "aaaaaa"), ("rotate", "abcabc")])
def test_targets_are_first_in_turn(key: str, order: str, firsts: str) -> None:
    assert tell(settings({key: order}), {}, every(1.0, 6)).firsts() == firsts


@effect_of(ROTATE)
def test_the_next_in_turn_gets_the_hedge(key: str) -> None:
    story = tell(settings({key: "rotate"}), {"b": SILENT}, every(10.0, 3))
    assert [(target, role) for _, target, role, _ in story.launches] == [
        ("a", "primary"),
        ("b", "primary"),
        ("c", "hedge"),
        ("c", "primary"),
    ]


@effect_of("targets.<name>.weight")
@pytest.mark.parametrize(("weight", "firsts"), [(1, "abcabcabcabc"), (2, "abcaabcaabca"), (4, "aabacaaabaca")])
def test_turns_go_by_weight(key: str, weight: int, firsts: str) -> None:
    assert tell(settings({key: weight, ROTATE: "rotate"}), {}, every(1.0, 12)).firsts() == firsts
