"""`python -m hedgerow.cli.reread FILE [HOST:PORT]`: what the serving process has read its configuration again with.

Writes the blueprint to stdout (msgpack) and warnings to stderr, or all that is wrong to stderr: exit code 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import TypeAdapter, ValidationError

from hedgerow.config import Address, Settings, load
from hedgerow.config.network import ADDRESS
from hedgerow.errors import ConfigError

_ADDRESS = TypeAdapter[Address](Annotated[Address, ADDRESS])


def read(file: Path, listen: Address | None) -> Settings:
    """The settings in the file, with another address if one is given. Raises `ConfigError`."""
    return listening(load(file), listen)


def listening(settings: Settings, at: Address | None) -> Settings:
    """The settings with another address; made anew, so that its checks and warnings hold for that address."""
    if at is None:
        return settings
    server = settings.server.model_copy(update={"listen": at})
    try:
        return Settings(**{**dict(settings), "server": server})
    except ValidationError as error:
        raise ConfigError([f"--listen {at}: {one['msg']}" for one in error.errors()]) from None


def main(arguments: list[str]) -> int:
    """Reads, writes, and returns the exit code."""
    from hedgerow.gateway.drafting import blueprint_of

    file, *listen = arguments
    try:
        settings = read(Path(file), _ADDRESS.validate_python(listen[0]) if listen else None)
        blueprint = blueprint_of(settings)
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    for warning in settings.warnings:
        print(warning, file=sys.stderr)
    sys.stdout.buffer.write(msgspec.msgpack.encode(blueprint))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
