"""A runnable for LangChain that hedges among runnables: chat models for the most part, or whole chains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self, TypeVar, Unpack

from hedgerow.extras import install

try:
    from langchain_core.callbacks import AsyncCallbackManagerForChainRun
    from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
    from langchain_core.runnables.config import get_async_callback_manager_for_config, patch_config
except ImportError as missing:
    raise ImportError(f"this needs LangChain ({missing}): {install('langchain')}") from missing

from hedgerow.client.background import background
from hedgerow.client.calls import hedge
from hedgerow.client.options import Options
from hedgerow.client.result import Result
from hedgerow.client.target import Target

In = TypeVar("In")
Out = TypeVar("Out")
_END = object()


class HedgedRunnable(Runnable[In, Out]):
    """Invokes `primary`, and after a delay the next of `backups` as well; the first good answer wins.

    One that fails makes room for the next at once. Streams are hedged to their first content. Runnables of the same
    models with the same `name` and rules learn from each other, so `bind_tools` for each turn of an agent does no harm.
    Losers are cancelled if they are async all the way, as chat models are; a sync function runs on in its thread. If
    all fail it raises `EveryAttemptFailed`, which is also what the first one raised.

    Sync calls await the async ones in hedgerow's background thread. LangChain shares one async client among all loops,
    so in one process use either the sync calls of a model or the async ones, and those in one loop.
    """

    def __init__(
        self,
        primary: Runnable[In, Out],
        *backups: Runnable[In, Out],
        on_result: Callable[[Result[Any]], None] | None = None,
        **options: Unpack[Options],
    ) -> None:
        """`options` as for `hedge`: rules such as `delay` and `budget`, `gate` for whole answers, `name`. `on_result`
        is told what became of each call; of a stream, when it begins.
        """
        self.runnables = (primary, *backups)
        self.on_result = on_result
        self.options = options
        self.name = options.get("name") or "hedged"

    @property
    def InputType(self) -> type[In]:  # noqa: N802  # LangChain's
        return self.runnables[0].InputType

    @property
    def OutputType(self) -> type[Out]:  # noqa: N802  # LangChain's
        return self.runnables[0].OutputType

    def each(self, change: Callable[[Any], Runnable[In, Out]]) -> Self:
        """The same of changed runnables: `model.each(lambda one: one.with_retry())`."""
        return type(self)(*map(change, self.runnables), on_result=self.on_result, **self.options)

    def bind_tools(self, tools: Any, **kwargs: Any) -> Self:
        """Each with these tools."""
        return self.each(lambda one: one.bind_tools(tools, **kwargs))

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Self:
        """Each with answers of this schema. One that does not parse is a failure: the next is asked."""
        return self.each(lambda one: one.with_structured_output(schema, **kwargs))

    async def ainvoke(self, input: In, config: RunnableConfig | None = None, **kwargs: Any) -> Out:  # noqa: A002  # LangChain's
        """A whole answer."""

        async def ask(said: In, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig) -> Out:
            child = patch_config(config, callbacks=run_manager.get_child())
            targets = [Target(call=one.ainvoke, name=_name_of(one)) for one in self.runnables]
            result: Result[Out] = await hedge(*targets, args=(said, child), kwargs=kwargs, **self._named("answers"))
            self._tell(result)
            return result.value

        return await self._acall_with_config(ask, input, config)

    async def astream(
        self,
        input: In,  # noqa: A002  # LangChain's
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Out]:
        """A stream, which has won with its first content. Where a `gate` is `strict`, the whole answer in one piece."""
        if self.options.get("gate") and self.options.get("strict"):
            yield await self.ainvoke(input, config, **kwargs)
            return
        config = ensure_config(config)
        manager = get_async_callback_manager_for_config(config)
        named = config.get("run_name") or self.get_name()
        run = await manager.on_chain_start(None, input, name=named, run_id=config.pop("run_id", None))
        child = patch_config(config, callbacks=run.get_child())
        targets = [Target(call=one.astream, name=_name_of(one)) for one in self.runnables]
        options = {"first_token": says_something, **self._named("streams")}
        whole: Any = None
        try:
            result = await hedge(*targets, args=(input, child), kwargs=kwargs, **options)
            self._tell(result)
            async with result.value as chunks:
                async for chunk in chunks:
                    whole = chunk if whole is None else _sum(whole, chunk)
                    yield chunk
        except GeneratorExit:  # its caller wants no more
            await run.on_chain_end(whole)
            raise
        except BaseException as error:
            await run.on_chain_error(error)
            raise
        await run.on_chain_end(whole)

    def invoke(self, input: In, config: RunnableConfig | None = None, **kwargs: Any) -> Out:  # noqa: A002  # LangChain's
        """As `ainvoke`, for sync code."""
        return background().call(self.ainvoke(input, config, **kwargs))

    def stream(
        self,
        input: In,  # noqa: A002  # LangChain's
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Out]:
        """As `astream`, for sync code."""
        there, chunks = background(), self.astream(input, config, **kwargs)
        try:
            while (chunk := there.call(_next(chunks))) is not _END:
                yield chunk
        finally:
            there.call(chunks.aclose())  # type: ignore[attr-defined]  # it is a generator

    def _named(self, what: str) -> dict[str, Any]:
        """Whole answers and streams are learned apart."""
        return {**self.options, "name": f"{self.name} ({what})"}

    def _tell(self, result: Result[Any]) -> None:
        if self.on_result is not None:
            self.on_result(result)


async def _next(chunks: AsyncIterator[Any]) -> Any:
    return await anext(chunks, _END)


def _name_of(runnable: Any) -> str:
    """Of a model, however it is bound, what it is called at its provider."""
    while (bound := getattr(runnable, "bound", None)) is not None:
        runnable = bound
    for said in ("model_name", "model"):
        if isinstance(name := getattr(runnable, said, None), str):
            return name
    return str(runnable.get_name())


def _sum(whole: Any, chunk: Any) -> Any:
    """Of what can be added, as LangChain has it; else the last."""
    try:
        return whole + chunk
    except TypeError:
        return chunk


def says_something(chunk: Any) -> bool:
    """Whether a chunk is more than the announcement of an answer."""
    if not hasattr(chunk, "content"):
        return bool(chunk)
    called = getattr(chunk, "tool_call_chunks", None) or getattr(chunk, "tool_calls", None)
    return bool(chunk.content or called or getattr(chunk, "additional_kwargs", None))
