"""A fork copies open sockets, and what the parent closes stays open for as long as its child lives.

So the child lets go of its parent's connections to upstreams at once: a loser that is cancelled is closed, whoever has
forked.
"""

from __future__ import annotations

import os
import socket
from weakref import WeakSet

_ours: WeakSet[socket.socket] = WeakSet()


def not_for_children(sock: socket.socket) -> None:
    """A process that is forked from this one is to let go of this socket."""
    _ours.add(sock)


def _let_go() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for sock in list(_ours):
        if (number := sock.fileno()) >= 0:
            # In its place: whoever closes the number later must not close something else that has it by then.
            os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)
    _ours.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
