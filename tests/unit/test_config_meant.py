"""Warnings about keys that are set and do nothing: losers that nobody is, weights that nobody goes by, and the like."""

from __future__ import annotations

import pytest

from hedgerow.config import loads

TARGETS = "targets:\n  a: {base_url: 'https://a.example/v1'}\n  b: {base_url: 'https://b.example/v1'}\n"
KEEP = "losers: keep"


def warnings(route: str, *, targets: str = TARGETS, server: str = "") -> list[str]:
    """Those of a route `r` with these keys, without the name of the file."""
    text = f"{targets}routes:\n  r: {{{route}}}\n  all: {{targets: [a, b]}}\n{server}"
    return [each.removeprefix("hedgerow.yaml:") for each in loads(text, {}).warnings]


@pytest.mark.parametrize(
    ("route", "why"),
    [
        ("targets: [a, b], hedge: {mode: chain}", "routes.r.hedge.mode is chain, which never asks two at once"),
        ("targets: [a, b], hedge: {mode: shadow}", "routes.r.hedge.mode is shadow, which launches no hedge"),
        ("targets: [a, b], hedge: {delay: off}", "routes.r.hedge.delay is off, so nothing is hedged"),
        ("targets: [a, b], hedge: {max_hedges: 0}", "routes.r.hedge.max_hedges is 0, so nothing is hedged"),
        ("targets: [a, b], max_attempts: 1", "the route allows one attempt"),
        ("targets: [a]", "the route lists one target"),
    ],
)
def test_losers_cannot_be_kept_where_none_ever_loses(route: str, why: str) -> None:
    assert warnings(f"{route}, {KEEP}") == [f"5: routes.r.losers: has no effect: {why}"]
    assert warnings(route) == []


@pytest.mark.parametrize(
    ("route", "why"),
    [
        ("targets: [a, b], hedge: {mode: chain}", "routes.r.hedge.mode is chain, which never asks two at once"),
        ("targets: [a, b], hedge: {delay: off}", "routes.r.hedge.delay is off, so nothing is hedged"),
        ("targets: [a]", "the route lists one target"),
        ("targets: [a, b]", ""),
        ("targets: [a, b], hedge: {mode: shadow}", ""),
        ("targets: [a, b], hedge: {mode: race}", ""),
    ],
)
def test_nobody_can_be_held_out_where_nobody_is_hedged(route: str, why: str) -> None:
    said = [f"5: routes.r.experiment.holdout: has no effect: {why}"] if why else []
    assert warnings(f"{route}, experiment: {{holdout: 5%}}") == said
    assert warnings(route) == []


@pytest.mark.parametrize("hedge", ["{}", "{mode: race}", "{delay: 1s}", "{delay: p95}"])
def test_where_some_do_nothing_is_said(hedge: str) -> None:
    assert warnings(f"targets: [a, b], hedge: {hedge}, {KEEP}") == []


def test_a_redis_is_for_losers_that_are_kept() -> None:
    server = "server: {redis: 'redis://127.0.0.1:6379'}\n"
    (found,) = warnings("targets: [a, b]", server=server)
    assert found == "7: server.redis: has no effect: no route says losers: keep, so there is nothing to share"
    assert warnings(f"targets: [a, b], {KEEP}", server=server) == []


@pytest.mark.parametrize("order", ["", "order: fixed,", "order: fastest,", "order: cheapest,", "hedge: {mode: race},"])
def test_a_weight_is_for_a_route_that_goes_by_weights(order: str) -> None:
    price = "price: {input: 1, output: 1}"
    targets = f"targets:\n  a: {{base_url: 'https://a.example/v1', {price}, weight: 3}}\n"
    targets += f"  b: {{base_url: 'https://b.example/v1', {price}}}\n"
    (found,) = warnings(f"{order} targets: [a, b]", targets=targets)
    assert found == "2: targets.a.weight: has no effect: no route that lists it says order: rotate"
    assert warnings("order: rotate, targets: [a, b]", targets=targets) == []


@pytest.mark.parametrize(
    ("require", "said"),
    [("[finished]", "finished"), ("['matches': '^Yes']", "matches"), ("[finished, matches: x]", "finished, matches")],
)
def test_the_start_of_a_stream_is_for_gates_that_can_judge_it(require: str, said: str) -> None:
    text = f"delays every stream, but {said} can say nothing of a start: only answers within it are judged in time"
    (found,) = warnings(f"targets: [a, b], gates: {{require: {require}, prefix: {{tokens: 5}}}}")
    assert found == f"5: routes.r.gates.prefix: {text}"


@pytest.mark.parametrize(
    "gates",
    [
        "{require: [finished, no_refusal], prefix: {tokens: 5}}",
        "{require: [{min_chars: 20}], prefix: {tokens: 10}}",
        "{require: [json], prefix: {tokens: 5}}",
        "{require: [finished], prefix: {tokens: 100000}}",
        "{require: [finished]}",
    ],
)
def test_others_are_not_warned_of(gates: str) -> None:
    assert warnings(f"targets: [a, b], gates: {gates}") == []
