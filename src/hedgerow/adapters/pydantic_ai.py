"""A model for Pydantic AI that hedges among models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from hedgerow.extras import install

try:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import (
        ModelMessage,
        ModelResponse,
        ModelResponseStreamEvent,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        ThinkingPart,
    )
    from pydantic_ai.models import KnownModelName, Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.settings import ModelSettings, merge_model_settings
except ImportError as missing:
    raise ImportError(f"this needs Pydantic AI ({missing}): {install('pydantic-ai')}") from missing

from hedgerow.client.failing import Unjudged
from hedgerow.client.gates import Check, tell_of_streams
from hedgerow.client.hedger import Hedger
from hedgerow.client.result import Result
from hedgerow.client.settings import Policy
from hedgerow.client.stream import Held
from hedgerow.client.target import Target
from hedgerow.events import Listener

_CHAINED = (
    "openai_background",
    "openai_conversation_id",
    "openai_previous_response_id",
    "openai_store",
    "xai_previous_response_id",
    "xai_store_messages",
)
"""Settings with which a provider keeps something of the request."""


class HedgedModel(FallbackModel):
    """Asks `default_model`, and after a delay the next of `backups` as well; the first good answer wins, the other is
    cancelled.

    A model that fails makes room for the next at once. Streams are hedged to their first content. Requests with a
    provider's own tools, and such as it keeps (background, store, a conversation), are not hedged: for these it is a
    `FallbackModel`. If all fail it raises `EveryAttemptFailed`, which is also what the first model raised.
    """

    def __init__(
        self,
        default_model: Model | KnownModelName | str,
        *backups: Model | KnownModelName | str,
        policy: Policy = Policy(),  # noqa: B008  # frozen
        name: str = "pydantic-ai",
        gate: Check[ModelResponse] | Sequence[Check[ModelResponse]] | None = None,
        on_result: Callable[[Result[Any]], None] | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """`policy` says when. `name` is as in events, of which `listeners` are told. `gate` is asked of whole answers;
        with a `strict` policy there are no streams, then. `on_result` is told what became of each request; of a stream,
        when it begins. Whole answers and streams are learned apart.
        """
        super().__init__(default_model, *backups)
        self.hedged_name = name
        self._on_result = on_result
        self._gate, self._strict = gate, policy.strict
        ones = [FallbackModel(model, fallback_on=_never) for model in self.models]  # each prepares what is its own
        said = [(one, one.models[0].model_id, f"model {number}") for number, one in enumerate(ones)]
        asks = [Target(call=one.request, name=name, account=account) for one, name, account in said]
        opens = [Target(call=partial(_opened, one), name=name, account=account) for one, name, account in said]
        self._whole: Hedger[ModelResponse] = Hedger(name, asks, policy, gate=gate, listeners=listeners)
        self._streams: Hedger[Held[_Opened]] = Hedger(f"{name} (streams)", opens, policy, listeners=listeners)

    @property
    def model_name(self) -> str:
        return f"hedged:{','.join(model.model_name for model in self.models)}"

    @property
    def model_id(self) -> str:
        return f"hedged:{','.join(model.model_id for model in self.models)}"

    @property
    def system(self) -> str:
        return f"hedged:{','.join(model.system for model in self.models)}"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """A whole answer."""
        if self._acts(messages, model_settings, model_request_parameters):
            return await super().request(messages, model_settings, model_request_parameters)
        result = await self._whole(messages, model_settings, model_request_parameters)
        self._tell(result)
        return result.value

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """A stream, which has won with its first content."""
        asked = messages, model_settings, model_request_parameters, run_context
        if self._gate is not None:
            if self._strict:
                raise Unjudged(self.hedged_name)
            tell_of_streams(self.hedged_name)
        if self._acts(messages, model_settings, model_request_parameters):
            async with super().request_stream(*asked) as stream:
                yield stream
            return
        result = await self._streams(*asked)
        self._tell(result)
        async with result.value as opened:
            yield opened.stream

    def _acts(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> bool:
        """Whether asking twice may do something twice, or it goes on with what one of the models has begun."""
        begun = bool(messages) and isinstance(messages[-1], ModelResponse) and messages[-1].state == "suspended"
        if begun or parameters.native_tools:
            return True
        merged = [merge_model_settings(model.settings, settings) or {} for model in self.models]
        return any(each.get(key) for each in merged for key in _CHAINED)

    def _tell(self, result: Result[Any]) -> None:
        if self._on_result is not None:
            self._on_result(result)


def _never(_error: Exception) -> bool:
    """Of one model alone: there is nothing to fall back to."""
    return False


class _Opened:
    """A stream that has said something. It is not read by who races it, but by who asked."""

    def __init__(self, stream: StreamedResponse) -> None:
        self.stream = stream


@asynccontextmanager
async def _opened(one: FallbackModel, *asked: Any) -> AsyncGenerator[_Opened]:
    async with one.request_stream(*asked) as stream:
        events = aiter(stream)
        seen: list[ModelResponseStreamEvent] = []
        async for event in events:
            seen.append(event)
            if _says_something(event):
                break
        stream._event_iterator = _replayed(seen, events)  # what `aiter(stream)` gives, as FallbackModel replays it
        yield _Opened(stream)


async def _replayed(
    seen: list[ModelResponseStreamEvent], rest: AsyncIterator[ModelResponseStreamEvent]
) -> AsyncIterator[ModelResponseStreamEvent]:
    for event in seen:
        yield event
    async for event in rest:
        yield event


def _says_something(event: ModelResponseStreamEvent) -> bool:
    if isinstance(event, PartStartEvent):
        return not isinstance(event.part, TextPart | ThinkingPart) or bool(event.part.content)
    return isinstance(event, PartDeltaEvent)
