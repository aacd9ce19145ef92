"""Times as they are given on the command line, the same for every command."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from hedgerow.errors import ConfigError
from hedgerow.units import parse_duration

WHEN: Final = "24h (ago), 2026-12-01 or 2026-12-01T08:30 (UTC)"


def now() -> datetime:
    """What "24h" is counted from."""
    return datetime.now(UTC)  # noqa: TID251  # the command line is where the time comes in


def moment(text: str | None, option: str) -> int | None:
    """Unix microseconds. Raises `ConfigError`."""
    if text is None:
        return None
    ago = None if text.isdigit() else parse_duration(text)
    if ago is not None:
        return microseconds(now()) - round(ago * 1_000_000)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError([f"{option} {text}: expected a time such as {WHEN}"]) from None
    return microseconds(at if at.tzinfo else at.replace(tzinfo=UTC))


def microseconds(at: datetime) -> int:
    """Since 1970."""
    return round(at.timestamp() * 1_000_000)
