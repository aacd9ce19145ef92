"""The log as lines: for people or for machines, written by a thread of its own, so that no request waits for a pipe.

What a record is about (`request_id`, `route`, `target`...) are attributes of it, given as `extra`.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec

ACCESS: Final = "hedgerow.access"
"""The logger whose records say in their fields what there is to say."""
ROOM: Final = 10_000
"""Lines that may wait to be written; further ones are lost, and counted."""
LAST: Final = 2.0
"""Seconds that the last lines may take to be written at the end."""
_BATCH = 200

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {10: "\\n", 13: "\\r", 9: "\\t"}
_IN_MESSAGE = ("method", "path", "status")
_PLAIN = re.compile(r"[\w.:/@+*-]+", re.ASCII)
_SHORT = 12
"""Secrets of fewer characters are also words, or dates."""


class Redactor:
    """Takes out of a text what must not be in it, should it ever get there: these secrets, and what looks like one.

    Nothing of ours says a secret; this is for what others say: an exception of a plug-in, a warning of a library.
    """

    GONE: Final = "[redacted]"
    _LOOKS_LIKE_ONE = re.compile(
        r"(?i)(?P<before>\b(?:bearer|basic)\s+|://[^/\s:@]*:(?=[^/\s@]+@))[^\s@,;'\"]+|\b(?:(?:sk|pk|gsk|xai)[-_]|AIza)[\w-]{16,}"
    )

    _HINTS: Final = ("bearer", "basic", "://", "sk-", "sk_", "pk-", "pk_", "xai-", "aiza")

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None

    def knows(self, secrets: Iterable[str]) -> None:
        """These are secrets too, from now on."""
        self._secrets |= {secret for secret in secrets if len(secret) >= _SHORT}
        if self._secrets:
            longest_first = sorted(self._secrets, key=len, reverse=True)
            self._known = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(self.GONE, text)
        lower = text.lower()
        if any(hint in lower for hint in self._HINTS):  # rarely: the expression is slow
            text = self._LOOKS_LIKE_ONE.sub(lambda match: f"{match['before'] or ''}{self.GONE}", text)
        return text


class Console(logging.Formatter):
    """`2026-12-01 12:00:00,123 INFO hedgerow.gateway ...`, and tracebacks below."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        # A line break in what a client or an upstream calls something is not to begin a line of ours.
        message = record.getMessage().translate(_CONTROLS)
        if record.name == ACCESS:
            pairs = (f"{name}={_shown(value)}" for name, value in _fields(record) if name not in _IN_MESSAGE)
            message = " ".join((message, *pairs))
        lines = [f"{self.formatTime(record)} {record.levelname} {record.name} {message}"]
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        if record.stack_info:
            lines.append(record.stack_info)
        return self._redact("\n".join(lines))


class Json(logging.Formatter):
    """One object a line: `time`, `level`, `logger`, `message`, what the record is about, `exception`."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact
        self._encode = msgspec.json.Encoder(enc_hook=str).encode

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _fields(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return self._redact(self._encode(line).decode())


def _fields(record: logging.LogRecord) -> list[tuple[str, Any]]:
    """What the record is about."""
    return [(name, value) for name, value in vars(record).items() if name not in _OWN and value is not None]


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _PLAIN.fullmatch(text) else msgspec.json.encode(text).decode()


class Writer(logging.Handler):
    """Writes records to a stream in a thread of its own; `form` is "console" or "json"."""

    def __init__(self, stream: TextIO, form: str, *, room: int = ROOM) -> None:
        super().__init__()
        self.redact = Redactor()
        self.setFormatter(Json(self.redact) if form == "json" else Console(self.redact))
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(room)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="hedgerow-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._lost += 1
        except Exception:
            self.handleError(record)

    def _write(self) -> None:
        over = False
        while not over:
            lines = [self._lines.get()]
            while len(lines) < _BATCH and not self._lines.empty():
                lines.append(self._lines.get())
            over = None in lines
            if self._lost:
                lost, self._lost = self._lost, 0
                lines.append(self._said_of(lost))
            self._put([line for line in lines if line is not None])

    def _said_of(self, lost: int) -> str:
        text = "the log could not be written fast enough: %d lines were lost"
        return self.format(logging.LogRecord("hedgerow.telemetry", logging.WARNING, "", 0, text, (lost,), None))

    def _put(self, lines: list[str]) -> None:
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it any more
            self._lost += len(lines)

    def close(self) -> None:
        """Write what waits, for `LAST` seconds at most."""
        if self._thread.is_alive():
            try:
                self._lines.put(None, timeout=LAST)
            except queue.Full:
                return
            self._thread.join(LAST)
        super().close()
