"""Which ledger a command reads: the one that is named, else that of the configuration, else the one in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hedgerow.cli.configure import DEFAULT_FILE
from hedgerow.errors import ConfigError

if TYPE_CHECKING:
    from hedgerow.config import Settings

_FILE = Path("hedgerow-ledger.db")
_HOW = (
    "name the gateway's configuration (--config FILE) or a database "
    "(--ledger sqlite:////var/lib/hedgerow-ledger.db, --ledger postgresql://host/name)"
)


def settings_in(config: Path | None) -> Settings | None:
    """The configuration; None where none is named and none is in this folder. Raises `ConfigError`."""
    if config is None and not DEFAULT_FILE.is_file():
        return None
    from hedgerow.config import load

    return load(config or DEFAULT_FILE)


def ledger_of(settings: Settings | None, config: Path | None) -> str:
    """The URL of the ledger. Raises `ConfigError` where there is none."""
    if settings is None:
        if not _FILE.is_file():
            raise ConfigError([f"there is neither {DEFAULT_FILE} nor {_FILE} in this folder: {_HOW}"])
        return f"sqlite:///{_FILE}"
    url = settings.server.ledger.url
    if url is None:
        raise ConfigError([f"{config or DEFAULT_FILE} keeps no ledger (server.ledger): {_HOW}"])
    return url.get_secret_value()
