"""The process that writes: `python -m hedgerow.ledger.writer`, started by a gateway and fed through its standard input.

It ends when its input does, once all that came is written. Signals do not end it: whoever stops a gateway and all that
belongs to it with one signal would lose what is on its way here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress

from hedgerow.ledger.inbox import Inbox
from hedgerow.ledger.record import URGENT, Reply, decode_hello, encode, frame

NICE = 5
"""How far it lets others go first while it starts, and where there is no `SCHED_IDLE` or it does not keep up with that:
a gateway that must wait for its writer's slice of a processor answers late."""


def main() -> int:
    """Write what comes on standard input; answers go to standard output."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    urgent = URGENT in sys.argv
    os.nice(NICE)
    inbox = Inbox(sys.stdin.buffer)
    hello = inbox.read_one()
    if hello is None:
        return 0
    inbox.start()
    lock = threading.Lock()

    def answer(number: int, reply: Reply) -> None:
        try:
            with lock:
                os.write(1, frame(number, encode(reply)))
        except OSError:
            pass  # the gateway is gone, and what is here is to be written all the same

    def ready() -> None:
        answer(0, Reply())
        if not urgent:
            _let_all_go_first()

    def now() -> int:
        return time.time_ns() // 1000  # noqa: TID251  # when things were written, and how old they are

    from hedgerow.ledger.writing import Writer  # takes long to import, and is to keep nothing from being read

    return Writer(decode_hello(hello), inbox, answer, now, ready).run()


def _let_all_go_first() -> None:
    """For this thread and those that it starts; not for the one that reads, which has next to nothing to do."""
    with suppress(AttributeError, OSError):  # not everywhere is there such a thing
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    sys.exit(main())
