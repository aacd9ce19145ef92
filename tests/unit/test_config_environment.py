"""Settings from the API keys in the environment."""

from __future__ import annotations

import pytest

from hedgerow.config import Address, from_environment
from hedgerow.config.providers import PROVIDERS
from hedgerow.errors import ConfigError


def test_without_a_known_key_there_are_no_settings() -> None:
    assert from_environment({"PATH": "/bin", "OPENAI_API_KEY": " "}) is None


def test_one_key_serves_every_model_hedged_to_the_same_provider() -> None:
    settings = from_environment({"ANTHROPIC_API_KEY": "k"})
    assert settings is not None
    assert {name: route.targets for name, route in settings.routes.items()} == {
        "*": ("anthropic", "anthropic"),
        "claude-*": ("anthropic", "anthropic"),
    }
    target = settings.targets["anthropic"]
    assert (target.base_url, target.secret, target.model) == ("https://api.anthropic.com/v1", "k", None)
    assert settings.warnings == []


def test_two_keys_add_a_route_across_providers_with_models_of_their_own() -> None:
    settings = from_environment({"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "l"})
    assert settings is not None
    fast = settings.routes["fast"]
    assert [(name, settings.targets[name].model) for name in fast.targets] == [
        ("openai-small", "gpt-5-mini"),
        ("mistral-small", "mistral-small-latest"),
    ]
    assert settings.targets["openai-small"].account_name == settings.targets["openai"].account_name
    assert settings.route_for("mistral-large") == "mistral-*"
    assert settings.route_for("anything") == "*"
    assert settings.routes["*"].targets == ("openai", "openai")


def test_openrouter_takes_the_models_of_nobody_else() -> None:
    settings = from_environment({"OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "l"})
    assert settings is not None
    assert settings.routes["*"].targets == ("openrouter", "openrouter")
    assert settings.routes["gpt-*"].targets == ("openai", "openai")


def test_all_keys_at_once_make_settings_without_a_warning() -> None:
    settings = from_environment({provider.key: "k" for provider in PROVIDERS})
    assert settings is not None
    assert settings.warnings == []
    assert settings.routes["fast"].attempts == 3


@pytest.mark.parametrize(
    ("url", "base_url"),
    [
        ("http://127.0.0.1:9000/v1", "http://127.0.0.1:9000/v1"),
        ("https://eu.example/", "https://eu.example/v1"),
        ("", "https://api.openai.com/v1"),
    ],
)
def test_a_base_url_in_the_environment_moves_the_target(url: str, base_url: str) -> None:
    settings = from_environment({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url})
    assert settings is not None
    assert settings.targets["openai"].base_url == base_url


@pytest.mark.parametrize("listen", [None, Address(None, 8080), Address("0.0.0.0", 8080)])
def test_a_base_url_that_is_hedgerow_itself_is_the_clients_and_ignored(listen: Address | None) -> None:
    settings = from_environment({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://localhost:8080/v1"}, listen=listen)
    assert settings is not None
    assert settings.targets["openai"].base_url == "https://api.openai.com/v1"
    assert (
        "environment: OPENAI_BASE_URL: is hedgerow's own address; using https://api.openai.com/v1" in settings.warnings
    )


def test_bad_values_are_named_by_their_variable_and_never_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        from_environment({"OPENAI_API_KEY": "sk oops", "GROQ_API_KEY": "k", "GROQ_BASE_URL": "groq.example"})
    assert caught.value.problems == [
        "environment: OPENAI_API_KEY: holds a blank or a character that cannot be sent in a header",
        "environment: GROQ_BASE_URL: has no scheme; start it with https:// or http://",
    ]
