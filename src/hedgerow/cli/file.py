"""Files that commands write: whole or not at all, and named when they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hedgerow.errors import ConfigError


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Written beside it and put in its place when all went well, so that a fault leaves what was there.

    What is no file (a pipe, /dev/stdout) is written to at once. Raises `ConfigError` where it cannot be opened,
    `OSError` with its name where it cannot be written (the disk is full, say).
    """
    plain = path.is_file() or not path.exists()
    target = path.resolve() if plain else path
    beside = target.with_name(f"{target.name}.part") if plain else target
    try:
        file = beside.open("wb")
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror}"]) from None
    try:
        with file:
            yield file
        if plain:
            beside.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if plain:
            beside.unlink(missing_ok=True)
