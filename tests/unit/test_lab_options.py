"""A lab's options: each fault of theirs is named, all at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import ConfigError
from hedgerow.lab.__main__ import parser
from hedgerow.lab.options import Behaviour, LabOptions


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"speed": 0.0}, "speed: must be above 0, got 0"),
        ({"rho": 1.5}, "rho: must be between 0 and 1, got 1.5"),
        ({"port": 70000}, "port: must be between 0 and 65535, got 70000"),
        ({"name": "a b"}, "name: letters, digits, - and _ only, got 'a b'"),
        ({"tokens": -1}, "tokens: must be a number from 0 up, got -1"),
        ({"gap_ms": -0.5}, "gap_ms: must be a number from 0 up, got -0.5"),
        ({"p50_ms": 1.0}, "p50_ms, p95_ms: give both"),
        ({"p99_ms": 1.0}, "p50_ms, p95_ms: give both"),
        ({"p50_ms": 1.0, "p95_ms": 2.0, "latencies": Path("x")}, "latencies, p50_ms: one or the other"),
        ({"speed": math.nan}, "speed: must be above 0, got nan"),
        ({"jitter": math.inf}, "jitter: must be a number from 0 up, got inf"),
        ({"order": "random"}, "order: must be sampled or sequence, got 'random'"),
        ({"order": "sequence"}, "order: 'sequence' needs `latencies`"),
        ({"column": "ttft_s"}, "column, where: choose from recorded times, and there are none without `latencies`"),
        ({"where": ("a=b",)}, "column, where: choose from recorded times, and there are none without `latencies`"),
    ],
)
def test_an_option_that_cannot_work_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        LabOptions(**given)
    assert [text for text in raised.value.problems if problem in text]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        LabOptions(speed=-1.0, rho=2.0, name="")
    assert len(raised.value.problems) == 3


def test_percentiles_of_ones_own_replace_the_presets() -> None:
    model = Behaviour(LabOptions(preset="openai", p50_ms=10.0, p95_ms=20.0, p99_ms=30.0)).model
    assert model.shape.at(0.0) == pytest.approx(0.01)


def test_what_the_options_leave_out_is_the_presets() -> None:
    behaviour = Behaviour(LabOptions(preset="fast"))
    assert (behaviour.gap, behaviour.tokens) == (0.002, 10)
    behaviour = Behaviour(LabOptions(preset="fast", gap_ms=5.0, tokens=3))
    assert (behaviour.gap, behaviour.tokens) == (0.005, 3)


def test_the_command_line_offers_every_option_and_changes_no_default() -> None:
    assert LabOptions(**vars(parser().parse_args([]))) == LabOptions()
    offered = {action.dest for action in parser()._actions} - {"help"}
    assert offered == set(LabOptions.__dataclass_fields__)
