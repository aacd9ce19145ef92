"""Simulated providers for one test, ended with it. Needs httptools: `pip install 'hedgerow[testing]'`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from hedgerow.lab.control import LabControl
from hedgerow.lab.options import LabOptions
from hedgerow.lab.process import LabProcess
from hedgerow.lab.thread import LabThread


class Labs:
    """Starts labs when it is called; leave it as a context manager, and all of them are gone."""

    def __init__(self) -> None:
        self._running = ExitStack()

    def __call__(
        self,
        name: str = "lab",
        *,
        script: Mapping[str, Any] | None = None,
        process: bool = False,
        **options: Any,
    ) -> LabControl:
        """A running provider, of `base_url` for OpenAI's clients and `url` for those of others; any key will do.

        `script` is what it does with every request, such as {"ttft_ms": 300} or {"fault": "stall"}; `behave` changes
        that. `options` are those of `LabOptions` (`preset="openai"`, `speed=10`, `tokens=20`...). It runs in a thread
        of this process; with `process` in a process of its own, which takes longer to start and shares no interpreter
        lock with the test. `stats()` and `log()` say what it has seen. Raises ConfigError for options that cannot work.
        """
        chosen = LabOptions(name=name, **options)
        lab: LabThread | LabProcess = LabProcess(_arguments(name, options)) if process else LabThread(chosen)
        self._running.enter_context(lab)
        if script is not None:
            lab.behave(script=dict(script))
        return lab

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


def _arguments(name: str, options: Mapping[str, Any]) -> list[str]:
    """The options as those of `python -m hedgerow.lab`."""
    arguments = ["--name", name]
    for key, value in options.items():
        option = "--" + {"models": "model"}.get(key, key).replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value not in (None, False):
            for each in (value,) if isinstance(value, str | int | float | Path) else value:
                arguments += [option, str(each)]
    return arguments
