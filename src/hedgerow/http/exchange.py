"""What a request handler sees: one request with its body, and the ways to answer it.

The server's connection and the ASGI adapter both speak this interface, so the gateway core knows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hedgerow.events import Headers


class Listener(Protocol):
    """Told what happens on the client's side while a request is being answered."""

    def on_disconnect(self) -> None:
        """The client has gone; nothing more can be delivered. Called at most once, never after the end."""

    def on_pause(self) -> None:
        """The client reads too slowly: send no more until `on_resume`."""

    def on_resume(self) -> None:
        """The client has caught up."""


class Exchange(Protocol):
    """One request and its answer.

    Exactly one of `respond`, or `start` .. `write`* .. `end`, or `abort` ends it. After the client has gone every
    method is a no-op, so a late writer needs no check.
    """

    method: bytes
    target: bytes
    """Request target as sent: path and query, e.g. b"/v1/models?limit=2"."""
    headers: Headers
    body: bytes
    """Whole. A handler that streams for long puts b"" here once it needs it no more."""
    listener: Listener | None
    """Set by the handler when it wants to hear of disconnects and back-pressure; None again after the end."""
    started: bool
    """True once a status line has been sent."""

    @property
    def peer(self) -> str:
        """The client's address for logs, e.g. "127.0.0.1:51234"."""

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        """Send a whole answer; content-length is added, HEAD and 204/304 send no body.

        `fields` are further header fields as `head.field_lines` writes them. They are sent as they are, so none of
        them may be about framing or the connection.
        """

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        """Send status and headers of a streamed answer; `fields` as for `respond`.

        With a content-length among `headers` the body is sent as it is; without, it is chunked (HTTP/1.1) or ended by
        close (HTTP/1.0).
        """

    def write(self, data: bytes) -> None:
        """Send one piece of a streamed answer, at once."""

    def end(self) -> None:
        """End a streamed answer whole."""

    def abort(self) -> None:
        """Break off so that the client sees a truncated answer (no last chunk, connection closed)."""


Handler = Callable[[Exchange], None]
"""Called once per request, when its body is complete. Must not raise; what it raises is answered with 500."""
