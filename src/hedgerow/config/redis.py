"""The address of a Redis."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from pydantic import SecretStr

from hedgerow.config.fields import Leaf, problem, reference
from hedgerow.extras import install

_URL = r"rediss?://[^\s/?#]+(/[0-9]{1,4})?|unix:///[^\s?#]+(\?db=[0-9]{1,4})?"


def _parse(value: object, _: Path) -> SecretStr | None:
    if value is None or isinstance(value, SecretStr):
        return value
    if not isinstance(value, str) or not re.fullmatch(_URL, value.strip()):  # not quoted: it may hold a password
        raise problem("expected the URL of a Redis, such as redis://127.0.0.1:6379/0, rediss://:password@host:6380")
    if importlib.util.find_spec("redis") is None:
        raise problem(f"needs the package redis: {install('redis')}")
    return SecretStr(value.strip())


REDIS = Leaf(
    _parse, "URL of a Redis", {"anyOf": [{"type": "null"}, {"type": "string", "pattern": rf"^({_URL})$"}, reference()]}
)
