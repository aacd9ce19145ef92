"""`python -m hedgerow.cli.reread FILE [HOST:PORT]`: what the serving process has read its configuration again with.

Writes the blueprint to stdout (msgpack) and warnings to stderr, or all that is wrong to stderr: exit code 2. With
`--prices` prices are fetched before that, unless those that were fetched last are fresh.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import TypeAdapter, ValidationError

from hedgerow.config import Address, Settings, load, price_book
from hedgerow.config.network import ADDRESS
from hedgerow.config.price import Prices
from hedgerow.errors import ConfigError
from hedgerow.gateway.reload_prices import FETCH
from hedgerow.policy.cancelling import Probed
from hedgerow.probe.store import file_of, probed

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


def findings(settings: Settings, file: Path) -> tuple[dict[str, Probed], list[str]]:
    """What probes have found, as far as it counts now; and words on what does not."""
    return probed(settings, file, datetime.now(UTC))  # noqa: TID251  # results grow old by the calendar


def fetch_prices(prices: Prices, now: float) -> None:
    """Fetch prices if those at hand are not half as old as they may become. Raises `ConfigError`."""
    if prices.update is None or prices.file is None:
        return
    if prices.file.exists() and now - price_book.read(prices.file).fetched_at < prices.update / 2:
        return
    price_book.keep(price_book.fetch(prices.url, now), prices.file)


def main(arguments: list[str]) -> int:
    """Reads, writes, and returns the exit code."""
    from hedgerow.gateway.drafting import blueprint_of

    file, *listen = (each for each in arguments if each != FETCH)
    try:
        settings = read(Path(file), _ADDRESS.validate_python(listen[0]) if listen else None)
        if FETCH in arguments:
            fetch_prices(settings.server.prices, time.time())  # noqa: TID251  # of what other processes fetch, too
        known, remarks = findings(settings, file_of(settings, Path(file)))
        blueprint = blueprint_of(settings, probed=known)
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    for warning in (*settings.warnings, *remarks):
        print(warning, file=sys.stderr)
    sys.stdout.buffer.write(msgspec.msgpack.encode(blueprint))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
