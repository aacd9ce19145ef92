"""Who is asked first, as the checks of a configuration and what people are shown see it."""

from __future__ import annotations

import pytest
import yaml

from hedgerow.config import loads
from hedgerow.config.describe import sections
from hedgerow.config.examples import example_of
from hedgerow.errors import ConfigError


def config(targets: str, route: str) -> str:
    """A file with these targets (name: settings) and one route."""
    listed = "\n".join(
        f"  {name}: {{base_url: 'https://{name}.example/v1'{settings and ', '}{settings}}}"
        for name, _, settings in (each.partition(": ") for each in targets.splitlines())
    )
    return f"targets:\n{listed}\nroutes:\n  r: {{{route}}}\n"


def warnings(targets: str, route: str) -> list[str]:
    return [each.partition("routes.r.")[2] for each in loads(config(targets, route), {}).warnings]


ROLES = "h: only_for: hedge\np: only_for: primary\nq: only_for: primary\nx: "


@pytest.mark.parametrize(
    ("route", "warned"),
    [
        ("targets: [h, p]", []),
        ("targets: [p, h]", []),
        ("targets: [h, p, q]", []),
        ("targets: [x, p]", ["hedge: has no effect: all targets but x are only_for: primary"]),
        ("targets: [x, p], order: rotate", []),
        ("targets: [p, x], order: rotate", []),
        ("targets: [p, q]", ["hedge: has no effect: all targets are only_for: primary"]),
        ("targets: [p, q], order: rotate", ["hedge: has no effect: all targets are only_for: primary"]),
        ("targets: [p, q], hedge: {delay: off}", []),
    ],
)
def test_hedges_that_nobody_gets_are_told_by_who_is_asked_first(route: str, warned: list[str]) -> None:
    used = {each for each in "hpqx" if each in route.partition("[")[2].partition("]")[0]}
    targets = "\n".join(line for line in ROLES.splitlines() if line[0] in used)
    assert warnings(targets, route) == warned


def test_it_is_the_limit_of_who_is_asked_first_that_cuts_a_delay_short() -> None:
    hedged = "hedge: {delay: 3s}"
    targets = "h: only_for: hedge, first_token: 2s\np: first_token: 9s"
    assert warnings(targets, f"targets: [h, p], {hedged}") == []
    with pytest.raises(ConfigError, match=r"3s is too long for targets\.p\.first_token"):
        loads(config("h: only_for: hedge\np: first_token: 2s", f"targets: [h, p], {hedged}"), {})


@pytest.mark.parametrize("more", ["", ", hedge: {mode: chain}"])
def test_a_session_of_one_target_with_several_keys_stays_at_its_key(more: str) -> None:
    route = f"targets: [a], sticky: {{by: x-session-id}}{more}"
    assert warnings("a: api_keys: [k1, k2]", route) == []
    assert "sticky.by: has no effect: a is the route's only target, with one key" in warnings("a: ", route)


def test_each_key_of_a_target_may_be_an_attempt() -> None:
    keys = "a: api_keys: [k1, k2, k3]"
    assert loads(config(keys, "targets: [a], max_attempts: 3"), {}).routes["r"].attempts == 3
    with pytest.raises(ConfigError, match=r"max_attempts: 4 is more than the 3 keys of those in routes\.r\.targets"):
        loads(config(keys, "targets: [a], max_attempts: 4"), {})


def test_each_mapping_has_an_example_that_is_one() -> None:
    for section in sections():
        path = tuple("r" if part == "<name>" else part for part in section.split("."))
        example = example_of(path).partition(", or ")[0]  # a word may stand there, too
        assert isinstance(yaml.safe_load(example), dict), section
