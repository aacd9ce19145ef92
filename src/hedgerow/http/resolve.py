"""From a host name to a connected socket: cached DNS and happy eyeballs (RFC 8305).

asyncio's `happy_eyeballs_delay` is not offered by uvloop, so the race is run here, over plain non-blocking sockets.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.http.forks import not_for_children

ATTEMPT_DELAY = 0.25
"""Seconds one address has to itself before the next is tried too (RFC 8305 section 5)."""


@dataclass(frozen=True, slots=True)
class Address:
    """One way to reach a host: family and the socket address of that family."""

    family: int
    sockaddr: tuple[Any, ...]


class Resolver:
    """The addresses of one host and port, looked up at most once per `ttl` seconds.

    Concurrent callers share one lookup. A failed lookup is not remembered.
    """

    def __init__(self, host: str, port: int, *, ttl: float, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._port = port
        self._ttl = ttl
        self._loop = loop
        self._known = _literal(host, port)
        self._fixed = bool(self._known)
        self._until = 0.0
        self._lookup: asyncio.Task[list[Address] | OSError] | None = None

    async def addresses(self) -> Sequence[Address]:
        """Addresses in the order to try them, families alternating. Raises `OSError` when the name has none."""
        if self._fixed or (self._known and self._loop.time() < self._until):
            return self._known
        if self._lookup is None:
            self._lookup = self._loop.create_task(self._resolve(), name=f"resolve {self._host}")
        found = await asyncio.shield(self._lookup)  # one caller's cancel must not take it from the others
        if isinstance(found, OSError):
            raise found
        return found

    def forget(self) -> None:
        """None of the addresses could be connected to: look again next time."""
        self._until = 0.0

    def close(self) -> None:
        if self._lookup is not None:
            self._lookup.cancel()

    async def _resolve(self) -> list[Address] | OSError:
        try:
            infos = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            return error
        except UnicodeError:
            return OSError("the name is not valid")
        finally:
            self._lookup = None
        self._known = interleave(Address(family, sockaddr) for family, _, _, _, sockaddr in infos)
        self._until = self._loop.time() + self._ttl
        return self._known or OSError("the name has no address")


def _literal(host: str, port: int) -> list[Address]:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return []
    if address.version == 4:
        return [Address(socket.AF_INET, (host, port))]
    return [] if address.scope_id else [Address(socket.AF_INET6, (host, port, 0, 0))]


def interleave(addresses: Iterable[Address]) -> list[Address]:
    """Families alternating, each in its resolver's order, the first one first (RFC 8305 section 4)."""
    families: dict[int, list[Address]] = {}
    for address in dict.fromkeys(addresses):
        families.setdefault(address.family, []).append(address)
    rows = itertools.zip_longest(*families.values())
    return [address for row in rows for address in row if address is not None]


async def connect_first(
    addresses: Sequence[Address], *, loop: asyncio.AbstractEventLoop, delay: float = ATTEMPT_DELAY
) -> socket.socket:
    """A socket connected to the first address that answers; the others' sockets are closed.

    The next address is tried when the newest attempt fails or has had `delay` seconds. Raises `OSError` with every
    distinct reason when none answers.
    """
    if len(addresses) == 1:
        return await _connect(addresses[0], loop)
    todo = list(reversed(addresses))
    running: set[asyncio.Task[socket.socket]] = set()
    reasons: list[str] = []
    winner: socket.socket | None = None
    try:
        while todo or running:
            if todo:
                running.add(loop.create_task(_connect(todo.pop(), loop)))
            done, running = await asyncio.wait(
                running, timeout=delay if todo else None, return_when=asyncio.FIRST_COMPLETED
            )
            running |= done  # until looked at, they are still ours to close
            for task in done:
                running.discard(task)
                error = task.exception()
                if error is not None:
                    reasons.append(str(error))
                elif winner is None:
                    winner = task.result()
                else:
                    task.result().close()
            if winner is not None:
                return winner
    finally:
        for task in running:
            _abandon(task)
    raise OSError("; ".join(dict.fromkeys(reasons)))


def _abandon(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancel() and not task.cancelled() and task.exception() is None:
        task.result().close()


async def _connect(address: Address, loop: asyncio.AbstractEventLoop) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    not_for_children(sock)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await loop.sock_connect(sock, address.sockaddr)
    except OSError as error:
        sock.close()
        reason = os.strerror(error.errno) if error.errno else str(error)  # asyncio's own text repeats the address
        raise OSError(f"{reason} ({address.sockaddr[0]})") from error
    except BaseException:
        sock.close()
        raise
    return sock
