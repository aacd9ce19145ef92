"""How much of the server's memory and patience one client may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for every connection of a `Server`. Sizes are bytes, times are seconds.

    Time is checked on a coarse grid, half a second or a quarter of the shortest timeout: a timeout never comes early
    and at most two steps late.
    """

    header_bytes: int = 64 * 1024
    """Target, names and values of one request head, 3 bytes more per field; beyond: 431."""
    body_bytes: int = 64 * 1024 * 1024
    """One request body; beyond: 413, at once when the length is declared."""
    header_timeout: float = 10.0
    """From the first byte of a request head to its end; beyond: 408. Also the time for a TLS handshake."""
    body_timeout: float = 60.0
    """Longest silence while a body is arriving; beyond: 408."""
    body_rate: int = 1024
    """Bytes per second a body must bring on average once `body_timeout` has passed; below: 408.

    Without it a client could hold 64 MiB for years by sending a byte a minute.
    """
    idle_timeout: float = 75.0
    """How long an open connection may wait for the next request; then it is closed without a word."""
    write_timeout: float = 60.0
    """How long a client with a full write buffer may take no byte; then the connection is dropped."""
    pipeline_bytes: int = 64 * 1024
    """Bytes kept of what a client sends while its earlier request is being answered; beyond: reading pauses."""
    write_buffer_high: int = 64 * 1024
    """Unsent bytes of an answer above which its producer is told to pause; it resumes at a quarter of it."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"limits.{name} must be greater than 0")

    @property
    def tick(self) -> float:
        """Seconds between two looks at the clock."""
        shortest = min(self.header_timeout, self.body_timeout, self.idle_timeout, self.write_timeout)
        return min(0.5, shortest / 4)
