"""What is said of a LiteLLM config beside its import: what nothing was made of, and of lone deployments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

_USED = {
    "litellm_settings": {"fallbacks", "default_fallbacks", "request_timeout", "stream_timeout"},
    "router_settings": {
        *("fallbacks", "default_fallbacks", "timeout", "stream_timeout", "model_group_alias", "routing_strategy"),
    },
    "general_settings": {"master_key", "completion_model"},
}
_REASONS = {
    "num_retries": "; hedgerow goes on to the next target instead of trying the same one again",
    "context_window_fallbacks": "; a request that is too long is answered as the provider answers it",
    "content_policy_fallbacks": "; a refusal is an answer",
}


def unread(source: Mapping[str, Any]) -> Iterator[str]:
    """Of all that no other part of the import reads."""
    for section, content in source.items():
        if section in ("model_list", "credential_list"):
            continue
        if section not in _USED or not isinstance(content, dict):
            names = f" ({', '.join(map(str, content))})" if isinstance(content, dict) and content else ""
            yield f"{section}: not carried over{names}"
            continue
        for key in content:
            if key not in _USED[section]:
                yield f"{section}.{key}: not carried over{_REASONS.get(str(key), '')}"


def lone(groups: Mapping[str, list[str]], own_servers: Collection[str]) -> Iterator[str]:
    """Of the groups of one deployment."""
    names = [name for name, own in groups.items() if len(own) == 1]
    if own := [name for name in names if groups[name][0] in own_servers]:
        yield (
            f"routes: {', '.join(own)}: the one deployment is a server of your own and listed once: a second call "
            "to it would wait in the same queue"
        )
    if twice := [name for name in names if name not in own]:
        yield (
            f"routes: {', '.join(twice)}: the one deployment is listed twice, so a slow call is hedged to the same "
            "provider; hedge.delay: off turns that off"
        )
