"""Has a configuration read again, by a process of its own: the serving one knows neither YAML nor the settings."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE

import msgspec

from hedgerow.errors import ConfigError
from hedgerow.gateway.blueprint import Blueprint, Source

PATIENCE = 30.0
"""Seconds the reader may take; it needs less than one on an idle machine."""

_FAULTY = 2
"""The reader's exit code when the configuration is at fault."""
_UPDATED = "the reader speaks another version of hedgerow than this process, which must be restarted"


async def read_again(source: Source) -> tuple[Blueprint, tuple[str, ...]]:
    """What the file means now, and warnings. Raises `ConfigError` with all that is wrong with it."""
    code, output, said = await _run(source.reader)
    lines = tuple(said.decode("utf-8", "replace").splitlines())
    if code == _FAULTY:
        raise ConfigError(list(lines))
    if code != 0:
        last = f": {lines[-1]}" if lines else ""
        raise ConfigError([f"{source.file}: the reader failed with code {code}{last}"])
    try:
        return msgspec.msgpack.decode(output, type=Blueprint), lines
    except msgspec.DecodeError:
        raise ConfigError([f"{source.file}: {_UPDATED}"]) from None


async def _run(command: tuple[str, ...]) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of a process, which is gone when this ends. Raises `ConfigError`."""
    try:
        child = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    except OSError as error:
        raise ConfigError([f"the reader cannot be started: {error.strerror or error}"]) from None
    try:
        async with asyncio.timeout(PATIENCE):
            output, said = await child.communicate()
    except TimeoutError:
        raise ConfigError([f"the reader took more than {PATIENCE:g} s"]) from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode or 0, output, said
