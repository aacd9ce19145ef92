"""A key without a test of its effect is a key that nobody knows to have one."""

from __future__ import annotations

from hedgerow.config import all_keys
from tests.effects import (
    test_breaker,
    test_budgets,
    test_connections,
    test_costs,
    test_experiment,
    test_gates,
    test_hedging,
    test_keep,
    test_ledger,
    test_metrics,
    test_once,
    test_order,
    test_probes,
    test_routes,
    test_server,
    test_targets,
    test_telling,
)
from tests.effects.support import TESTED

MODULES = (
    test_breaker,
    test_budgets,
    test_connections,
    test_costs,
    test_experiment,
    test_gates,
    test_hedging,
    test_keep,
    test_ledger,
    test_metrics,
    test_once,
    test_order,
    test_probes,
    test_routes,
    test_server,
    test_targets,
    test_telling,
)


def test_every_key_has_a_test_of_its_effect() -> None:
    assert MODULES
    assert set(all_keys()) == TESTED
