"""One entry of a LiteLLM `model_list` as a target."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from hedgerow.config import litellm_order
from hedgerow.config.network import is_loopback
from hedgerow.config.problem import show_path
from hedgerow.config.providers import PROVIDERS
from hedgerow.config.target import Target

Notes = list[str]

LITERAL = "the key stands in the file as it did in the source; better move it to the environment"
_ENV = "os.environ/"
_REFERENCE = re.compile(r"\$\{[^}]*\}")

# LiteLLM's name of a provider: its base URL, and the variable LiteLLM reads when an entry has no key.
_KNOWN: dict[str, tuple[str, str]] = {each.name: (each.base_url, each.key) for each in PROVIDERS}
_KNOWN |= {
    "together_ai": _KNOWN.pop("together"),
    "fireworks_ai": _KNOWN.pop("fireworks"),
    "cerebras": ("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "deepinfra": ("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "nvidia_nim": ("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "perplexity": ("https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
}
_LOCAL = {
    "ollama": "http://localhost:11434",
    "ollama_chat": "http://localhost:11434",
    "lm_studio": "http://localhost:1234/v1",
}
_NEEDS_BASE = frozenset(
    {"azure", "custom_openai", "hosted_vllm", "litellm_proxy", "llamafile", "openai_like", "xinference"}
)
_SELF_HOSTED = frozenset({*_LOCAL, "hosted_vllm", "llamafile", "xinference"})
_READ = frozenset(
    {"model", "api_key", "api_base", "base_url", "custom_llm_provider", "extra_headers", "organization", "order"}
    | {"timeout", "stream_timeout", "ssl_verify", "max_parallel_requests", "litellm_credential_name", "weight"}
    | litellm_order.COSTS
)


class LeftOut(Exception):
    """The entry has no counterpart; the message says why."""


def value(raw: Any) -> str:
    """A LiteLLM value as hedgerow writes it: `os.environ/X` becomes `${X}`."""
    text = str(raw)
    if text.startswith(_ENV):
        return "${" + text.removeprefix(_ENV) + "}"
    return text.replace("${", "$${")


def target(
    params: Mapping[str, Any], info: Mapping[str, Any], path: tuple[str | int, ...], notes: Notes
) -> dict[str, Any]:
    """The target for these `litellm_params` and this `model_info`, ready to be written. Raises `LeftOut`."""
    provider, model = _provider(params)
    base = params.get("api_base") or params.get("base_url")
    result: dict[str, Any] = {"base_url": _base_url(provider, None if base is None else value(base))}
    key = _key(provider, params, path, notes)
    if key is not None:
        result["api_key"] = key
    if not model.endswith("*"):
        result["model"] = model.replace("${", "$${")
    headers = _headers(params, path, notes)
    if headers:
        result["headers"] = headers
    if params.get("ssl_verify") is False:
        result["tls"] = {"verify": False}
    if isinstance(params.get("max_parallel_requests"), int):
        result["connections"] = {"max": params["max_parallel_requests"]}
    if price := litellm_order.price_of(params, info):
        result["price"] = price
    result |= litellm_order.abilities(info, (*path[:-1], "model_info"), notes)
    for name in params:
        if name not in _READ:
            notes.append(f"{show_path((*path, name))}: not carried over{_why(provider, name)}")
    if provider == "anthropic":
        result["protocol"] = ["openai", "anthropic"]
        notes.append(
            f"{show_path((*path, 'model'))}: OpenAI clients go to Anthropic's OpenAI-compatible endpoint, which lacks "
            "prompt caching; Anthropic clients to its own"
        )
    _check(result)
    return result


def is_own_server(params: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether the target `found` for these `litellm_params` is one server of the user's own, not a provider's fleet.

    Told by the provider's name, or by an address that only this machine or its network knows.
    """
    if _provider(params)[0] in _SELF_HOSTED:
        return True
    base = str(found["base_url"])
    if "${" in base:
        return False
    host = urlsplit(base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return is_loopback(host) or "." not in host or host.endswith((".local", ".internal"))


def _provider(params: Mapping[str, Any]) -> tuple[str, str]:
    """The provider and the model's name with it."""
    model = str(params.get("model") or "")
    if not model or model == "*":
        raise LeftOut("names no model of one provider")
    prefix, slash, rest = model.partition("/")
    named = params.get("custom_llm_provider")
    if named is not None:
        provider, name = str(named), rest if prefix == named and slash else model
    elif slash:
        provider, name = prefix, rest
    else:
        # LiteLLM knows such names from its own table of models.
        provider, name = ("anthropic" if model.startswith("claude") else "openai"), model
    if provider not in _KNOWN and provider not in _LOCAL and provider not in _NEEDS_BASE:
        raise LeftOut(f"the provider {provider!r} has no OpenAI-compatible endpoint that hedgerow knows")
    return provider, name


def _base_url(provider: str, base: str | None) -> str:
    if base is None:
        if provider in _NEEDS_BASE:
            raise LeftOut(f"the provider {provider!r} needs an api_base")
        base = _LOCAL[provider] if provider in _LOCAL else _KNOWN[provider][0]
    base = base.rstrip("/").removesuffix("/chat/completions").removesuffix("/messages")
    match provider:
        case "azure":
            # Whatever path the deployment had, the v1 endpoint of the resource is the OpenAI-compatible one.
            root = base.partition("/openai")[0] if base.startswith("${") else base.split("/openai", 1)[0]
            return f"{root.rstrip('/')}/openai/v1"
        case "ollama" | "ollama_chat" | "anthropic" if not base.endswith("/v1") and not _has_path(base):
            return f"{base}/v1"
        case _:
            return base


def _has_path(url: str) -> bool:
    return bool(urlsplit(_REFERENCE.sub("http://host", url)).path)


def _key(provider: str, params: Mapping[str, Any], path: tuple[str | int, ...], notes: Notes) -> str | None:
    raw = params.get("api_key")
    here = show_path((*path, "api_key"))
    if raw is None:
        if provider not in _KNOWN:
            return None
        notes.append(f"{here}: not given; LiteLLM reads {_KNOWN[provider][1]}, so does this file")
        return "${" + _KNOWN[provider][1] + "}"
    if not str(raw).startswith(_ENV):
        if str(raw).lower() in ("none", "empty", "", "dummy", "anything"):
            return None
        notes.append(f"{here}: {LITERAL}")
    return value(raw)


def _headers(params: Mapping[str, Any], path: tuple[str | int, ...], notes: Notes) -> dict[str, str]:
    headers = params.get("extra_headers")
    found = {str(name): value(content) for name, content in headers.items()} if isinstance(headers, dict) else {}
    organization = params.get("organization")
    if isinstance(organization, str):
        found["OpenAI-Organization"] = value(organization)
    elif organization is not None:
        notes.append(f"{show_path((*path, 'organization'))}: several organizations are not carried over")
    return found


def _why(provider: str, name: str) -> str:
    match name:
        case "rpm" | "tpm":
            return " as a limit; hedgerow goes by what answers report of it"
        case "api_version" if provider == "azure":
            return "; Azure's v1 endpoint needs none"
        case "num_retries" | "max_retries":
            return "; hedgerow goes on to the next target"
        case _:
            return ""


def _check(result: dict[str, Any]) -> None:
    """Leaves out what would not load; references stand for a plausible value."""

    def plain(part: Any, at: str) -> Any:
        match part:
            case dict():
                return {name: plain(each, str(name)) for name, each in part.items()}
            case str() if at == "base_url" and part.startswith("${"):
                return _REFERENCE.sub("https://host.example", part)
            case str():
                return _REFERENCE.sub("x", part)
            case _:
                return part

    try:
        Target.model_validate(plain(result, ""), context=Path())
    except ValidationError as error:
        first = error.errors()[0]
        raise LeftOut(f"{'.'.join(map(str, first['loc']))} {first['msg']}") from None
