"""Ready clients for the SDKs: AsyncOpenAI(http_client=http_client([...]))."""

from __future__ import annotations

import inspect
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
    own, but for those that would have no effect: trust, proxies and limits are an `HttpTarget`'s. `library` is "httpx2"
    for openai >= 3 and anthropic >= 1, "httpx" for older ones. Redirects are followed, as the SDKs do. Raises
    `ValueError` and `TypeError` for what cannot work.

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


_ELSEWHERE = {
    "verify": "use HttpTarget(ca_file=..., verify=...)",
    "cert": "targets are shown no client certificate; go through a proxy that shows it, HttpTarget(proxy=...)",
    "limits": "use HttpTarget(max_connections=...)",
    "proxy": "use HttpTarget(proxy=...), and otherwise=... for what is not hedged",
    "mounts": "use HttpTarget(...), and otherwise=... for what is not hedged",
    "transport": "use otherwise=... for what is not hedged",
    "trust_env": "use HttpTarget(proxy=None), and otherwise=... for what is not hedged",
    "http1": "attempts speak HTTP/1.1",
    "http2": "attempts speak HTTP/1.1, as closing a connection is what cancels them",
}
"""Options of clients that would have no effect on attempts, or keep requests from being hedged; and what to do."""
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
    of_library = getattr(import_module(library), client)
    _refuse_without_effect(of_library, options)
    ours = {name: options.pop(name) for name in _OURS if name in options}
    hedging = getattr(made, transport)(targets, policy, **ours)
    return of_library(transport=hedging, **{"follow_redirects": True, **options})


def _refuse_without_effect(client: Any, options: dict[str, Any]) -> None:
    known = inspect.signature(client).parameters
    for name, instead in _ELSEWHERE.items():
        if name in options and options[name] != known[name].default:
            raise TypeError(f"{name}=... of a client has no effect on what is hedged: {instead}")
