"""What a case's policy comes to as a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hedgerow.config import load
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.policy.budget import Share
from hedgerow.policy.delay import Fixed, Percentile, parse_delay
from hedgerow.units import parse_duration
from tests.cases.bench import settings
from tests.cases.case import Policy


def blueprint(folder: Path, **policy: Any) -> Blueprint:
    file = folder / "hedgerow.yaml"
    ports: Any = {"primary": 1, "backup": 2}
    file.write_text(json.dumps(settings(msgspec.convert(policy, Policy), "openai", (), ports, folder / "events")))
    return blueprint_of(load(file), environ={})


def test_what_a_policy_does_not_set_is_far_away(tmp_path: Path) -> None:
    plain = blueprint(tmp_path)
    policy, breaker = plain.routes["*"].policy, plain.targets["primary"].breaker
    assert parse_delay(policy.delay, parse_duration) == Fixed(0.3)
    assert (policy.limits.hedges, policy.limits.failovers) == (None, None)
    assert policy.throttle is not None
    assert (policy.throttle.max_tokens, policy.throttle.token_ratio) == (1000, 1)
    assert (breaker.failure_ratio, breaker.failures, breaker.slow_after) == (None, None, None)


def test_what_it_sets_holds(tmp_path: Path) -> None:
    one = blueprint(
        tmp_path,
        hedge_after_ms="adaptive",
        adaptive={"initial_ms": 200, "min_ms": 20},
        breaker={"failures": 3, "open_ms": 250},
        throttle={"max_tokens": 10, "token_ratio": 0.1},
        hedge_budget_tokens=2,
    )
    policy, breaker = one.routes["*"].policy, one.targets["backup"].breaker
    assert parse_delay(policy.delay, parse_duration) == Percentile(0.95)
    assert (policy.warmup_delay, policy.min_delay, policy.learning.warmup) == (0.2, 0.02, 1)
    assert policy.limits.hedges == Share(0.001, 2, 0)
    assert policy.throttle is not None
    assert (policy.throttle.max_tokens, policy.throttle.token_ratio) == (10, 0.1)
    assert (breaker.failure_ratio, breaker.failures, breaker.open_for) == (None, 3, 0.25)


@pytest.mark.parametrize("key", ["breaker", "throttle", "adaptive"])
def test_an_unknown_key_in_a_part_of_a_policy_is_an_error(key: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({key: {"surprise": 1}}, Policy)
