"""Ready clients for the SDKs: AsyncOpenAI(http_client=http_client([...]))."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from hedgerow.client.settings import Policy
from hedgerow.transports.targets import HttpTarget

if TYPE_CHECKING:
    import httpx
    import httpx2

_NONE = Policy()


@overload
def http_client(
    targets: Sequence[HttpTarget], policy: Policy = ..., *, library: Literal["httpx2"] = ..., **options: Any
) -> httpx2.AsyncClient: ...
@overload
def http_client(
    targets: Sequence[HttpTarget], policy: Policy = ..., *, library: Literal["httpx"], **options: Any
) -> httpx.AsyncClient: ...
def http_client(
    targets: Sequence[HttpTarget], policy: Policy = _NONE, *, library: str = "httpx2", **options: Any
) -> Any:
    """An AsyncClient that hedges, as async SDKs take one: AsyncOpenAI(http_client=http_client([...])).

    `targets` and `policy` as for `HedgeTransport`, whose further options may be given too; all others are the client's
    own. `library` is "httpx2" for openai >= 3 and anthropic >= 1, "httpx" for older ones. Redirects are followed, as
    the SDKs do. Raises `ValueError` for what cannot work.

    ```python
    from openai import AsyncOpenAI
    from hedgerow import HttpTarget, Policy, http_client

    here = HttpTarget(base_url="https://api.openai.com/v1", api_key="sk-one")
    there = HttpTarget(base_url="https://example.com/v1", api_key="sk-two", model="gpt-5-mini")
    client = AsyncOpenAI(http_client=http_client([here, there], Policy(delay="p95")))
    ```
    """
    return _client(library, "AsyncClient", "HedgeTransport", targets, policy, options)


@overload
def http_client_sync(
    targets: Sequence[HttpTarget], policy: Policy = ..., *, library: Literal["httpx2"] = ..., **options: Any
) -> httpx2.Client: ...
@overload
def http_client_sync(
    targets: Sequence[HttpTarget], policy: Policy = ..., *, library: Literal["httpx"], **options: Any
) -> httpx.Client: ...
def http_client_sync(
    targets: Sequence[HttpTarget], policy: Policy = _NONE, *, library: str = "httpx2", **options: Any
) -> Any:
    """As `http_client`, for sync SDKs; `targets`, `policy`, `library` and `options` are the same.

    ```python
    from openai import OpenAI
    from hedgerow import HttpTarget, http_client_sync

    one, other = HttpTarget(base_url="https://api.openai.com/v1"), HttpTarget(base_url="https://example.com/v1")
    client = OpenAI(http_client=http_client_sync([one, other]))
    ```
    """
    return _client(library, "Client", "SyncHedgeTransport", targets, policy, options)


_OURS = ("nonstream_as_stream", "allow", "listeners", "base_urls", "otherwise")


def _client(
    library: str, client: str, transport: str, targets: Sequence[HttpTarget], policy: Policy, options: dict[str, Any]
) -> Any:
    if library not in ("httpx2", "httpx"):
        raise ValueError(f"library is {library!r}: it must be httpx2 or httpx")
    try:
        made = import_module(f"hedgerow.transports.{library}")
    except ModuleNotFoundError as missing:
        if missing.name != library:
            raise
        raise ImportError(f"clients of {library} need {library}: pip install {library}") from None
    if rules := ", ".join(f"{name}=..." for name in options if name in Policy.__struct_fields__):
        raise TypeError(f"the rules of hedging are those of its policy: http_client(targets, Policy({rules}))")
    ours = {name: options.pop(name) for name in _OURS if name in options}
    hedging = getattr(made, transport)(targets, policy, **ours)
    return getattr(import_module(library), client)(transport=hedging, **{"follow_redirects": True, **options})
