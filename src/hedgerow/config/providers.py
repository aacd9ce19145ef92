"""Providers with an OpenAI-compatible endpoint: base URLs, key variables, model names.

Collected in November 2026 from public documentation and configurations. No endpoint was called, and model names change
often: a hedgerow.yaml of one's own does not depend on this table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """`models` are the patterns of the names it serves; `small` is a fast model for the route `fast`, if any.

    `protocol` as in the settings of a target.
    """

    name: str
    base_url: str
    key: str
    """The environment variable of its API key, as its own SDK reads it."""
    models: tuple[str, ...] = ()
    small: str | None = None
    protocol: tuple[str, ...] = ("openai",)

    @property
    def url(self) -> str:
        """The environment variable that moves the base URL."""
        return self.key.removesuffix("_API_KEY") + "_BASE_URL"


PROVIDERS = (
    Provider(
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        ("gpt-*", "chatgpt-*", "o1*", "o3*", "o4*"),
        "gpt-5-mini",
    ),
    Provider(
        "anthropic",
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        ("claude-*",),
        "claude-haiku-4-5",
        ("openai", "anthropic"),
    ),
    Provider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        ("gemini-*", "gemma-*"),
        "gemini-flash-latest",
    ),
    Provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", small="openai/gpt-5-mini"),
    Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", small="openai/gpt-oss-20b"),
    Provider(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        ("mistral-*", "ministral-*", "magistral-*", "codestral-*", "devstral-*"),
        "mistral-small-latest",
    ),
    Provider("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", ("deepseek-*",)),
    Provider("together", "https://api.together.ai/v1", "TOGETHER_API_KEY", small="openai/gpt-oss-20b"),
    Provider(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        ("accounts/fireworks/*",),
        "accounts/fireworks/models/gpt-oss-20b",
    ),
    Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY", ("grok-*",)),
)
