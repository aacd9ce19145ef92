"""A first command line for a gateway: one that its routes can answer, in an API that they speak."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from hedgerow.config import Settings

_HELLO = [{"role": "user", "content": "Hello"}]
_FAMILIES = ("openai", "anthropic", "gemini")


def example(url: str, settings: Settings) -> str:
    """A command that asks a route of the gateway at `url`; if any speaks a chat's API, that one."""
    key = bool(settings.server.api_keys)
    model, families = _askable(settings)
    family = next((each for each in _FAMILIES if each in families), None)
    if family == "anthropic":
        body = {"model": model, "max_tokens": 100, "stream": True, "messages": _HELLO}
        return _curl(url, "/v1/messages", body, key=key, headers=["anthropic-version: 2023-06-01"])
    if family == "gemini":
        path = f"/v1beta/models/{quote(model)}:streamGenerateContent?alt=sse"
        return _curl(url, path, {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}, key=key)
    if family is None and (found := _endpoint(settings)) is not None:
        path, named = found
        return _curl(url, path, {**named, "text": "Hello"}, key=key)
    return chat(url, model, key=key)


def chat(url: str, model: str, *, key: bool = False, options: str = "") -> str:
    """A command line that asks the gateway for a stream; `options` are further ones of curl's."""
    body = {"model": model, "stream": True, "messages": _HELLO}
    return _curl(url, "/v1/chat/completions", body, key=key, options=options)


def _curl(url: str, path: str, body: object, *, key: bool, headers: list[str] | None = None, options: str = "") -> str:
    asked = ["authorization: Bearer YOUR-KEY"] * key + (headers or []) + ["content-type: application/json"]
    more = f" {options}" if options else ""
    fields = "".join(f" -H '{each}'" for each in asked)
    at = url + path if shlex.quote(path) == path else shlex.quote(url + path)  # the URL may still be a blank to fill in
    return f"curl -N{more} {at}{fields} -d {shlex.quote(json.dumps(body, ensure_ascii=False))}"


def _askable(settings: Settings) -> tuple[str, set[str]]:
    """A model name that a client can ask for, and what the targets of its route speak; of a chat's API, if any is.

    A route of that very name, the default one first; else a model that a known provider has; else one to be filled in.
    """
    from hedgerow.config.providers import PROVIDERS

    names = [settings.default_route, *settings.routes]
    exact = [(name, name) for name in names if not name.endswith("*")]
    small = [
        (each.small, settings.route_for(each.small))
        for each in PROVIDERS
        if each.small and each.name in settings.targets
    ]
    blank = [(name.replace("*", "MODEL"), name) for name in names]
    for several in (exact, small, blank):
        spoken = [(model, _spoken(settings, name)) for model, name in several if name is not None]
        for family in (*_FAMILIES, "http"):
            if (found := next((each for each in spoken if family in each[1]), None)) is not None:
                return found
    return "MODEL", set()


def _spoken(settings: Settings, route: str) -> set[str]:
    return {family for target in settings.routes[route].targets for family in settings.targets[target].protocol}


def _endpoint(settings: Settings) -> tuple[str, dict[str, str]] | None:
    """A path that a route lists, and what a request must have to be the route's: a model, where others list it too."""
    listed = [(path, name) for name, route in settings.routes.items() for path in route.endpoints]
    if not listed:
        return None
    path, name = listed[0]
    return path, {"model": name} if sum(each == path for each, _ in listed) > 1 else {}
