"""Settings without a file: from the API keys that are already in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import ValidationError

from hedgerow.config.check import is_own_address
from hedgerow.config.network import Address
from hedgerow.config.providers import PROVIDERS, Provider
from hedgerow.config.route import Route
from hedgerow.config.server import ServerSettings
from hedgerow.config.settings import Settings
from hedgerow.config.target import Target
from hedgerow.errors import ConfigError

_ANY_MODEL = ("openrouter", "openai")  # who gets names nobody else claims, before the order of PROVIDERS


def from_environment(environ: Mapping[str, str] = os.environ, *, listen: Address | None = None) -> Settings | None:
    """Routes for every provider whose key is set; None when there is none. Raises `ConfigError` on a bad value.

    Each provider's models keep their names and are hedged to the same provider (`claude-*`: anthropic, anthropic);
    `*` takes the rest. With two providers or more, `fast` hedges a small model of the first to one of the next.
    """
    server = ServerSettings() if listen is None else ServerSettings(listen=listen)
    warnings: list[str] = []
    problems: list[str] = []
    targets: dict[str, Target] = {}
    known: list[Provider] = []
    for provider in PROVIDERS:
        if not environ.get(provider.key, "").strip():
            continue
        try:
            targets[provider.name] = _target(provider, environ, server, warnings)
            known.append(provider)
        except ValidationError as error:
            problems += [f"environment: {_variable(provider, one['loc'])}: {one['msg']}" for one in error.errors()]
    if problems:
        raise ConfigError(problems)
    if not known:
        return None
    routes = _routes(known, targets)
    used = {name for route in routes.values() for name in route.targets}
    settings = Settings(
        targets={name: target for name, target in targets.items() if name in used}, routes=routes, server=server
    )
    settings._warnings.extend(warnings)
    return settings


def _variable(provider: Provider, place: tuple[str | int, ...]) -> str:
    return provider.key if "api_key" in place else provider.url


def _target(provider: Provider, environ: Mapping[str, str], server: ServerSettings, warnings: list[str]) -> Target:
    url = environ.get(provider.url, "").strip()
    key = environ[provider.key].strip()
    said = {"base_url": url or provider.base_url, "api_key": key, "protocol": provider.protocol}
    target = Target.model_validate(said)
    if url and is_own_address(target.base_url, server):
        # Whoever points a client at hedgerow has this variable set in the same shell.
        warnings.append(f"environment: {provider.url}: is hedgerow's own address; using {provider.base_url}")
        return target.model_copy(update={"base_url": provider.base_url})
    if not urlsplit(target.base_url).path:
        # ANTHROPIC_BASE_URL, for one, is written without the version that its SDK adds.
        return target.model_copy(update={"base_url": target.base_url + urlsplit(provider.base_url).path})
    return target


def _routes(known: list[Provider], targets: dict[str, Target]) -> dict[str, Route]:
    """The routes; adds the targets that `fast` needs to `targets`."""
    names = [provider.name for provider in known]
    rest = next((name for name in _ANY_MODEL if name in names), names[0])
    routes = {"*": Route(targets=(rest, rest))}
    for provider in known:
        for pattern in provider.models:
            routes[pattern] = Route(targets=(provider.name, provider.name))
    small = {f"{each.name}-small": each for each in known if each.small is not None}
    if len(small) > 1:
        for name, provider in list(small.items())[:3]:
            targets[name] = targets[provider.name].model_copy(update={"model": provider.small})
        routes["fast"] = Route(targets=tuple(small)[:3])
    return routes
