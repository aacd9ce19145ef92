"""What telling of a request costs: the gateway's own time with spans, with an access line, and with nobody listening.

Run: python -m bench.telling
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from bench.path import Path
from hedgerow.events import Listener
from hedgerow.gateway.access_log import AccessLog, handler_of
from hedgerow.gateway.listening import Loudly
from hedgerow.http.exchange import Handler
from hedgerow.telemetry.log_lines import Writer
from hedgerow.telemetry.traces import Traces

ROUNDS, CALLS = 40, 100


def _traces(sampler: Sampler) -> Traces:
    provider = TracerProvider(sampler, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Dropping()))
    return Traces(provider, epoch=1e9)


class _Dropping(InMemorySpanExporter):
    """Keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.shutdown()


def once(listeners: Sequence[Listener]) -> float:
    """The least seconds that a request took on the average of a round."""
    path = Path(listeners=[Loudly(), *listeners])
    handle = handler_of(path.gateway)
    least = min(_round(path, handle) for _ in range(ROUNDS))
    path.close()
    return least


def _round(path: Path, handle: Handler) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        path.whole(handle)
    return (time.process_time() - began) / CALLS


def main() -> None:
    """Print what each costs beside a request that nobody listens to."""
    with open(os.devnull, "w") as nowhere:
        writer = Writer(nowhere, "json")
        logging.getLogger().addHandler(writer)
        logging.getLogger().setLevel(logging.WARNING)
        clock = asyncio.new_event_loop()
        made: dict[str, Callable[[], Sequence[Listener]]] = {
            "nobody listens": lambda: (),
            "a listener that does nothing": lambda: (lambda _event: None,),
            "access line, JSON": lambda: (AccessLog(clock.time),),
            "spans, not sampled": lambda: (_traces(ALWAYS_OFF),),
            "spans": lambda: (_traces(ALWAYS_ON),),
        }
        base = once(())
        for name, listeners in made.items():
            took = once(listeners())
            print(f"{name:30} {took * 1e6:7.1f} us  {took / base:5.2f} times")
        logging.getLogger().removeHandler(writer)
        writer.close()
        clock.close()


if __name__ == "__main__":
    main()
