"""The command line that a gateway shows at its start: one that it can answer."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from hedgerow.cli.asking import example
from hedgerow.config import loads
from tests.engine.test_routing import mixed

URL = "http://127.0.0.1:8080"


def tried(targets: dict[str, Any], routes: dict[str, Any], server: dict[str, Any] | None = None) -> tuple[str, Any]:
    """URL and body of the example for this configuration; it is one command line for a shell."""
    text = json.dumps({"targets": targets, "routes": routes, **({"server": server} if server else {})})
    command = shlex.split(example(URL, loads(text, {})))
    assert command[:2] == ["curl", "-N"]
    return command[2].removeprefix(URL), json.loads(command[-1])


def speaking(*families: str) -> dict[str, Any]:
    return {family: {"protocol": family, "base_url": f"http://{family}.example/v1"} for family in families}


@pytest.mark.parametrize(
    ("family", "path", "field"),
    [
        ("openai", "/v1/chat/completions", "messages"),
        ("anthropic", "/v1/messages", "max_tokens"),
        ("gemini", "/v1beta/models/only:streamGenerateContent?alt=sse", "contents"),
    ],
)
def test_a_route_is_asked_in_the_api_that_it_speaks(family: str, path: str, field: str) -> None:
    at, body = tried(speaking(family), {"only": {"targets": [family]}})
    assert at == path
    assert field in body
    assert body.get("model") == (None if family == "gemini" else "only")


def test_of_several_routes_one_is_asked_that_speaks_a_chats_api() -> None:
    listed = {"targets": ["http"], "endpoints": ["/v1/translate"]}
    targets = speaking("http", "gemini", "openai")
    routes = {"words": listed, "gem": {"targets": ["gemini"]}, "chat": {"targets": ["openai"]}}
    assert tried(targets, routes)[0] == "/v1/chat/completions"
    assert tried(targets, {name: routes[name] for name in ("words", "gem")})[0].startswith("/v1beta/models/gem:")


def test_where_no_api_of_a_chat_is_spoken_a_listed_endpoint_is_asked() -> None:
    words = {"targets": ["http"], "endpoints": ["/v1/translate", "/v1/other"]}
    assert tried(speaking("http"), {"words": words}) == ("/v1/translate", {"text": "Hello"})
    both = {"words": words, "more": {"targets": ["http"], "endpoints": ["/v1/translate"]}}
    assert tried(speaking("http"), both) == ("/v1/translate", {"model": "words", "text": "Hello"})


@pytest.mark.parametrize(
    ("pattern", "target", "model"),
    [("gpt-*", "mine", "gpt-MODEL"), ("*", "mine", "MODEL"), ("claude-*", "openai", "claude-MODEL")],
)
def test_a_model_of_a_pattern_is_left_to_be_filled_in_where_none_is_known(
    pattern: str, target: str, model: str
) -> None:
    targets = {target: {"base_url": "http://a.example/v1"}}
    assert tried(targets, {pattern: {"targets": [target]}})[1]["model"] == model


def test_a_known_providers_model_is_asked_for_where_a_pattern_serves_it() -> None:
    targets = {"openai": {"base_url": "http://a.example/v1"}}
    at, body = tried(targets, {"gpt-*": {"targets": ["openai"]}})
    assert (at, body["model"][:4]) == ("/v1/chat/completions", "gpt-")
    assert body["model"] != "gpt-MODEL"


def test_clients_with_keys_are_shown_where_theirs_goes() -> None:
    text = {"targets": speaking("openai"), "routes": {"it's": {"targets": ["openai"]}}, "server": {"api_keys": ["k-1"]}}
    command = shlex.split(example(URL, loads(json.dumps(text), {})))
    assert command[3:5] == ["-H", "authorization: Bearer YOUR-KEY"]
    assert json.loads(command[-1])["model"] == "it's"
    assert example(URL, mixed()).startswith(f"curl -N {URL}/v1/chat/completions -H")
