"""The serving process's own log, and the secrets that are never to be in it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from hedgerow.gateway.blueprint import Blueprint
from hedgerow.telemetry.log_lines import Writer


def begin(blueprint: Blueprint) -> Writer:
    """Log to stderr, as the blueprint says."""
    writer = Writer(sys.stderr, blueprint.server.log_format)
    logging.getLogger().addHandler(writer)
    obey(blueprint)
    return writer


def obey(blueprint: Blueprint) -> None:
    """The level and the secrets of this blueprint hold from now on."""
    root = logging.getLogger()
    root.setLevel(blueprint.server.log_level.upper())
    for handler in root.handlers:
        if isinstance(handler, Writer):
            handler.redact.knows(secrets_in(blueprint))


def end(writer: Writer) -> None:
    """Nothing more will be logged."""
    logging.getLogger().removeHandler(writer)
    writer.close()


def secrets_in(blueprint: Blueprint) -> Iterator[str]:
    """Every secret that the configuration holds."""
    for target in blueprint.targets.values():
        if target.secret is not None:
            yield target.secret
        yield from (key.secret for key in target.more_keys)
        yield from _credentials(value.decode("latin-1") for _, value in target.headers)
        yield from _password(target.pool.proxy)
    server = blueprint.server
    yield from server.api_keys
    yield from server.metrics_tokens or ()
    if server.admin_token is not None:
        yield server.admin_token
    yield from _password(server.redis)
    yield from _password(None if server.ledger is None else server.ledger.url)
    if server.traces is not None:
        yield from _credentials(value for _, value in server.traces.headers)


def _credentials(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from {value, value.rpartition(" ")[2]}  # with and without a scheme such as Bearer


def _password(url: str | None) -> Iterator[str]:
    password = None if url is None else urlsplit(url).password
    if password:
        yield from {password, unquote(password)}
