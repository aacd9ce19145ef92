"""What both transports are made of."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from hedgerow.client.settings import Policy
from hedgerow.events import Headers, Listener
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.http.client_settings import PoolSettings
from hedgerow.http.client_tls import tls_context
from hedgerow.http.proxy import proxy_for
from hedgerow.transports.asking import Asked, origin_of
from hedgerow.transports.door import Door
from hedgerow.transports.exchange import Broken
from hedgerow.transports.targets import HttpTarget, Leave, blueprint_of, configured


class Hedging:
    """A transport of the library `_library`, whose answers have bodies of the class `_body`; `_plain_transport` is the
    library's own.
    """

    _library: Any
    _body: Any
    _plain_transport: Any

    def __init__(
        self,
        targets: Sequence[HttpTarget],
        policy: Policy = Policy(),  # noqa: B008  # frozen
        *,
        nonstream_as_stream: bool = False,
        allow: Collection[Leave] = (),
        listeners: Sequence[Listener] = (),
        base_urls: Collection[str] = (),
        otherwise: Any = None,
    ) -> None:
        """`targets` in the order in which they are asked, the primary first; `policy` says when.

        `nonstream_as_stream` asks for whole answers as streams, so that their first token can decide as well.
        `allow`: what may be hedged although it costs or is kept twice: "n" (several choices), "audio", "store" (answers
        of OpenAI's Responses are kept unless `store` is False). `listeners` are told of events. Requests to the hosts
        of targets are hedged; `base_urls`: those of clients whose base URL is another. `otherwise` is the
        transport of requests that are not hedged (files, batches, models); left out, the library's own, with
        the trust and proxy of the target at that host, or the environment's proxy. Raises `ValueError` for what cannot
        work.
        """
        self._open(
            blueprint_of(targets, policy, nonstream_as_stream=nonstream_as_stream, allow=allow),
            listeners,
            base_urls,
            otherwise,
        )

    @classmethod
    def from_config(
        cls,
        file: str | os.PathLike[str],
        *,
        route: str | None = None,
        listeners: Sequence[Listener] = (),
        base_urls: Collection[str] = (),
        otherwise: Any = None,
    ) -> Self:
        """With the targets and routes of a hedgerow.yaml, its ledger, event log and traces.

        `route` answers whatever model is asked for; left out, the model says which does, as in the gateway. What is
        about a server (listen, api_keys, admin, metrics) has no effect. Raises `ConfigError`.
        """
        made = cls.__new__(cls)
        made._open(configured(Path(file), route), listeners, base_urls, otherwise)
        return made

    def _open(
        self, blueprint: Blueprint, listeners: Sequence[Listener], base_urls: Collection[str], otherwise: Any
    ) -> None:
        self._door = Door(blueprint, listeners, base_urls)
        self._otherwise = otherwise
        self._plain_ones: dict[tuple[str | None, str | None, bool], Any] = {}
        self._lock = threading.Lock()

    def _plain(self, request: Any) -> Any:
        """The transport of a request that is not hedged."""
        if self._otherwise is not None:
            return self._otherwise
        origin = origin_of(request.url)
        settings = self._door.settings_of(origin) or PoolSettings(proxy=proxy_for(origin, os.environ))
        way = settings.proxy, settings.ca_file, settings.verify
        with self._lock:
            if way not in self._plain_ones:
                own = settings.verify and settings.ca_file is None
                trust = True if own else tls_context(settings.ca_file, settings.verify)
                self._plain_ones[way] = self._plain_transport(proxy=settings.proxy, verify=trust)
            return self._plain_ones[way]

    def _others(self) -> Iterator[Any]:
        yield from self._plain_ones.values()
        if self._otherwise is not None:
            yield self._otherwise

    def _response(self, status: int, fields: Headers, asked: Asked, request: Any) -> Any:
        body = self._body(asked, self, request)
        return self._library.Response(status, headers=fields, stream=body, extensions={"http_version": b"HTTP/1.1"})

    def _error(self, broken: Broken, request: Any) -> Exception:
        error: Exception = getattr(self._library, broken.why)(str(broken), request=request)
        return error
