"""Where and how the ledger is kept."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import SecretStr, model_validator

from hedgerow.config.base import DAY, GIB, KIB, MIB, Model
from hedgerow.config.fields import FLAG, Leaf, duration, flag, problem, reference, size
from hedgerow.extras import install

FILE = "sqlite:///hedgerow-ledger.db"
"""What `ledger: on` means."""
_SQLITE = r"sqlite:///(?!:memory:)[^?#\s]+"
_POSTGRESQL = r"postgres(ql)?://[^\s]*"


def _parse(value: object, folder: Path) -> SecretStr | None:
    if value is None or isinstance(value, SecretStr):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(_POSTGRESQL, text):  # not quoted anywhere: it may hold a password
        if importlib.util.find_spec("psycopg") is None:
            raise problem(f"a ledger in PostgreSQL needs psycopg: {install('postgres')}")
        return SecretStr(re.sub("^postgres(ql)?:", "postgresql:", text))
    if not re.fullmatch(_SQLITE, text):
        raise problem(f"expected the URL of a database: {FILE}, sqlite:////var/lib/ledger.db, postgresql://host/name")
    path = folder / Path(text.removeprefix("sqlite:///")).expanduser()
    if not path.parent.is_dir():
        raise problem(f"there is no folder {path.parent}")
    if path.is_dir():
        raise problem(f"{path} is a folder")
    return SecretStr(f"sqlite:///{path.absolute()}")


URL = Leaf(
    _parse,
    "URL of a database",
    {"anyOf": [{"type": "null"}, {"type": "string", "pattern": rf"^({_SQLITE}|{_POSTGRESQL})$"}, reference()]},
)


class Ledger(Model):
    """One row per request and attempt in a database. `ledger: on` is a file beside this one; without a `url`, none."""

    in_short: ClassVar[tuple[object, ...]] = ("on", "off", True, False)

    url: Annotated[SecretStr | None, URL] = None
    """Where: `sqlite:///hedgerow-ledger.db` (relative to this file's folder; four slashes begin an absolute path), or \
`postgresql://user:password@host/name`, which several gateways may share and which needs `hedgerow[postgres]`."""
    flush: Annotated[float, duration(0.01, 60.0)] = 0.5
    """How often it is written. A gateway that is killed together with its writer loses no more than this."""
    keep: Annotated[float | None, duration(3600.0, 36_500 * DAY, off=True)] = 30 * DAY
    """How long rows of requests and attempts are kept; `off` is for ever."""
    keep_hourly: Annotated[float | None, duration(3600.0, 36_500 * DAY, off=True)] = 730 * DAY
    """How long the sums of each hour are kept, at least as long as the rows; `off` is for ever."""
    queue: Annotated[int, size(MIB, 16 * GIB)] = 64 * MIB
    """Most bytes that wait in memory while the database cannot be written to. Beyond it rows are lost, which is \
counted and said; requests never wait."""
    content: Annotated[bool, FLAG] = False
    """Keep what was asked and answered, too, as long as the rows (`keep`): whoever can read the ledger reads it all. \
Requests that forbid it are left out (`cache-control: no-store`, `store: false`)."""
    content_bytes: Annotated[int, size(KIB, 16 * MIB)] = 64 * KIB
    """Of each prompt and of each answer so much is kept (`content`); beyond it they are cut off, and marked."""

    @model_validator(mode="before")
    @classmethod
    def _in_short(cls, data: Any) -> Any:
        """A word in place of the whole section."""
        switch = flag(data)
        return data if switch is None else {"url": FILE} if switch else {}

    @model_validator(mode="after")
    def _sums_last(self) -> Ledger:
        if self.keep_hourly is not None and (self.keep is None or self.keep_hourly < self.keep):
            raise problem("must be at least as long as keep", at=("keep_hourly",))
        return self
