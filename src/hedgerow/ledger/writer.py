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

from hedgerow.ledger.inbox import Inbox
from hedgerow.ledger.record import Reply, decode_hello, encode, frame

NICE = 5
"""How far it lets others go first: where there is not enough of a processor for both, requests are more urgent."""


def main() -> int:
    """Write what comes on standard input; answers go to standard output."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
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

    def now() -> int:
        return time.time_ns() // 1000  # noqa: TID251  # when things were written, and how old they are

    from hedgerow.ledger.writing import Writer  # takes long to import, and is to keep nothing from being read

    return Writer(decode_hello(hello), inbox, answer, now).run()


if __name__ == "__main__":
    sys.exit(main())
