"""Any model that LiteLLM knows, as a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hedgerow.client.target import Target
from hedgerow.extras import install


def litellm_target(model: str, *, name: str | None = None, account: str | None = None, **params: Any) -> Target[Any]:
    """A target that calls `litellm.acompletion` of this `model` with the messages of the call:
    `hedge(litellm_target("openai/gpt-5"), litellm_target("anthropic/claude-sonnet-5"), args=(messages,))`.

    `params` go to every call of this model (`api_key`, `api_base`, `temperature`...), `kwargs` of `hedge` to every
    target, `stream=True` among them, with `first_token=says_something`. LiteLLM's own retries and fallbacks are off:
    the next target is the better retry. `name` is as in results; targets of one `account` share a rate limit.

    Raises `ImportError` where LiteLLM is not installed.
    """
    try:
        from litellm import acompletion
    except ImportError as missing:
        raise ImportError(f"this needs LiteLLM ({missing}): {install('litellm')}") from missing

    async def call(messages: Sequence[Any], **kwargs: Any) -> Any:
        said = {"num_retries": 0, "max_retries": 0, **params, **kwargs}
        return await acompletion(model=model, messages=list(messages), **said)

    return Target(call=call, name=name or model, account=account)


def says_something(chunk: Any) -> bool:
    """Whether a chunk of a stream has content, a tool call or reasoning in it: `first_token` for LiteLLM's streams."""
    for choice in chunk.choices:
        delta = choice.delta
        if any(getattr(delta, said, None) for said in ("content", "tool_calls", "reasoning_content")):
            return True
    return False
