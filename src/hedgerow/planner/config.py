"""From keys as a config has them to what the engine goes by: the very way that a serving process takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.config import Settings
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.planner.plan import Choice
from hedgerow.policy.health import Watch
from hedgerow.policy.settings import Policy

_TARGET = {"base_url": "http://127.0.0.1:9/v1", "api_key": "none"}


def policy_of(choice: Choice) -> Policy:
    """What a route with the choice's config goes by."""
    return policy_from(dict(choice.config))


def policy_from(keys: Mapping[str, str]) -> Policy:
    """Of a route with two targets and these keys, such as `hedge.delay`. Raises `ConfigError` for what cannot be."""
    return blueprint_of(_settings(keys), environ={}).routes["plan"].policy


def watches_of(names: Sequence[str]) -> dict[str, Watch]:
    """How targets are watched by default."""
    breaker = blueprint_of(_settings({}), environ={}).targets["a"].breaker
    return {name: Watch(breaker) for name in names}


def sections(keys: Mapping[str, str]) -> dict[str, Any]:
    """The keys, such as `hedge.delay`, as a route has them."""
    found: dict[str, Any] = {}
    for key, value in keys.items():
        *sections, name = key.split(".")
        place = found
        for each in sections:
            place = place.setdefault(each, {})
        place[name] = value
    return found


def _settings(keys: Mapping[str, str]) -> Settings:
    route: dict[str, Any] = {"targets": ["a", "b"], **sections(keys)}
    return Settings.model_validate({"targets": {"a": _TARGET, "b": _TARGET}, "routes": {"plan": route}})
