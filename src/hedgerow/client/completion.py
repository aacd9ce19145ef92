"""The plain form, for who wants the text of an answer and no object made first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from hedgerow.client.calls import hedge
from hedgerow.client.checking import like
from hedgerow.client.result import AttemptRecord
from hedgerow.client.settings import Rules
from hedgerow.client.target import Target, name_of

Model = Callable[..., Awaitable[Any]] | tuple[Any, str]
"""An async function of the prompt and `model_kwargs` that returns text or an SDK's answer; or an async client of the
OpenAI or Anthropic SDK (or one of that shape) and the name of a model."""
_OURS = {"delay": "hedge_delay_ms", "gate": "quality_check"}
"""What `hedge` has under another name; a model has neither."""
LONGEST = 1_024
"""Tokens of an answer that are asked for where the API must be told and the caller does not say."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer's text; who gave it; seconds that it took; whether the other was asked as well by delay; and all
    attempts. `raw` is what the client or function returned.
    """

    content: str
    provider: str
    latency: float
    hedged: bool
    attempts: tuple[AttemptRecord, ...]
    raw: Any


async def hedged_completion(
    prompt: str,
    *,
    primary: Model,
    backup: Model,
    hedge_delay_ms: float | None = None,
    quality_check: Callable[[str], str | bool | None] | None = None,
    **model_kwargs: Any,
) -> Completion:
    """Ask `primary` for an answer to `prompt`, and where it has no answer after `hedge_delay_ms`, `backup` too; the
    first good answer wins.

    Without a delay it is learned from earlier calls to these two. `quality_check` is given the text: False or a reason
    means that it is no answer, unless nobody has a better one. `model_kwargs` go to both (`temperature=0`). A client is
    asked without retries of its own: after an error the other is asked instead.

    Raises `EveryAttemptFailed`, and `TypeError` for what cannot be asked.

    ```python
    import asyncio
    from hedgerow import hedged_completion

    async def model(prompt: str, *, temperature: float) -> str:
        return f"an answer to {prompt}"

    asked = hedged_completion("why?", primary=model, backup=model, hedge_delay_ms=800, temperature=0)
    print(asyncio.run(asked).content)
    ```
    """
    for name in model_kwargs:
        if meant := _OURS.get(name) or like(name, _OURS.values()):
            raise TypeError(f"hedged_completion has no option {name!r}: did you mean {meant}?")
        if name in Rules.__optional_keys__:
            raise TypeError(f"hedged_completion has no option {name!r}: use hedge(..., {name}=...)")
    if model_kwargs.get("stream"):
        raise TypeError("hedged_completion gives whole texts: for a stream use hedge(..., first_token=...)")
    first, second = _target(primary), _target(backup)
    rules: Rules = {} if hedge_delay_ms is None else {"delay": hedge_delay_ms / 1_000}
    gate = None if quality_check is None else partial(_check, quality_check)
    called = f"completion by {first.name} or {second.name}"
    result = await hedge(first, second, args=(prompt,), kwargs=model_kwargs, gate=gate, name=called, **rules)
    return Completion(
        content=content_of(result.value),
        provider=result.target,
        latency=result.latency,
        hedged=result.hedged,
        attempts=result.attempts,
        raw=result.value,
    )


def _check(quality_check: Callable[[str], str | bool | None], answer: Any) -> str | bool | None:
    return quality_check(content_of(answer))


def _target(model: object) -> Target[Awaitable[Any]]:
    if callable(model):
        return Target(call=model, name=name_of(model) or "model")
    if not isinstance(model, tuple) or list(map(type, model[1:])) != [str]:
        raise TypeError("a model must be an async function, or a pair of an async client and the name of a model")
    client, name = model
    if hasattr(client, "__enter__") or not (hasattr(client, "chat") or hasattr(client, "messages")):
        raise TypeError(f"{type(client).__name__} is no async client of the OpenAI or Anthropic SDK")
    provider = type(client).__module__.partition(".")[0]
    return Target(call=partial(_ask, client, name), name=f"{provider}/{name}")


async def _ask(client: Any, model: str, prompt: str, **model_kwargs: Any) -> Any:
    asked = {"model": model, "messages": [{"role": "user", "content": prompt}], **model_kwargs}
    if hasattr(client, "with_options"):
        client = client.with_options(max_retries=0)
    if hasattr(client, "chat"):
        return await client.chat.completions.create(**asked)
    return await client.messages.create(**{"max_tokens": LONGEST, **asked})


def content_of(answer: Any) -> str:
    """The text of an answer: itself, a chat completion's, a message's or a response's; "" where it has none.

    Raises `TypeError` for what is none of these.
    """
    match answer:
        case str() as text:
            return text
        case {"choices": [{"message": {"content": text}}, *_]}:
            return text or ""
        case {"content": [*parts]}:
            return "".join(part.get("text") or "" for part in parts)
    if hasattr(answer, "choices"):
        return "".join(choice.message.content or "" for choice in answer.choices[:1])
    said = getattr(answer, "output_text", None) or getattr(answer, "content", None)
    if isinstance(said, list):
        return "".join(getattr(part, "text", None) or "" for part in said)
    if isinstance(said, str):
        return said
    raise TypeError(f"a {type(answer).__name__} is no answer whose text is known: return a str")
