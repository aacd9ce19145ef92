"""What a caller of the upstream pool sees: a sink to be told, a call to be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hedgerow.errors import UpstreamError
from hedgerow.events import Headers


class Sink(Protocol):
    """Receives one upstream answer: `on_head`, `on_data`*, then exactly one of `on_end` and `on_error`.

    `on_error` may also come first. After `Call.cancel()` nothing more is called. Interim 1xx answers are not shown.
    """

    def on_head(self, status: int, headers: Headers) -> None: ...

    def on_data(self, data: bytes) -> None:
        """A piece of the body, chunked framing removed, otherwise as it came."""

    def on_end(self) -> None: ...

    def on_error(self, error: UpstreamError) -> None: ...


class Call(Protocol):
    """One request under way."""

    @property
    def sent_at(self) -> float | None:
        """When it was written to a connection, the last one if there were two; None while it never was."""

    @property
    def queued(self) -> bool:
        """Whether it waits for the connection of another to come free."""

    def cancel(self) -> None:
        """Give up: the TCP connection is aborted at once, the sink hears nothing more. No-op when already over."""

    def deliver_to(self, on_data: Callable[[bytes], object]) -> None:
        """From now on give the pieces of the body to `on_data` instead of to the sink's."""

    def pause(self) -> None:
        """Stop reading from the upstream (back-pressure)."""

    def resume(self) -> None: ...
