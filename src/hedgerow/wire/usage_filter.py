"""Taking the usage report that hedgerow asked for out of a stream whose client did not.

With `include_usage` OpenAI's streams hold one more event, of no choices and a usage, before `[DONE]`. Exactly that
event goes; usage that a server adds to chunks with choices stays, and so does every other byte.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hedgerow.wire.sse import LF_ENDS, after_last_blank_line, keep, payloads

MAX_REPORT = 64 * 1024
"""Bytes; a longer event is no usage report. So much may be held while an event is not complete."""

_USAGE = b'"prompt_tokens"'
_BLANK_LINE = re.compile(rb"(?>\r\n|\r|\n)(?:\r\n|\r|\n)")


class _Chunk(msgspec.Struct, gc=False):
    choices: list[Any] | msgspec.UnsetType | None = msgspec.UNSET
    usage: dict[str, Any] | None = None
    error: Any = None
    moderation: Any = None
    prompt_filter_results: Any = None

    def only_reports(self) -> bool:
        """Whether it says nothing but usage."""
        told = self.error or self.moderation or self.prompt_filter_results
        return not self.choices and self.choices is not msgspec.UNSET and bool(self.usage) and not told


_decode = msgspec.json.Decoder(_Chunk).decode


class UsageFilter:
    """The bytes of one stream without its usage report, whatever the reads are."""

    __slots__ = ("_calm", "_halved", "_open", "_seam", "_size", "_too_long")

    def __init__(self) -> None:
        self._calm = True
        """The next byte starts an event, and none is left to drop."""
        self._open: list[bytes] = []
        self._size = 0
        self._seam = b""
        self._too_long = False
        """The head of the open event is already out."""
        self._halved = False
        """A CR was the last byte dropped; a LF that follows belongs to it."""

    def feed(self, data: bytes) -> bytes:
        """What of this piece, and of those held before, can go out now."""
        if self._calm and data.endswith(LF_ENDS) and data.find(_USAGE) < 0:
            return data
        if self._halved and data:
            self._halved = False
            data = data.removeprefix(b"\n")
        probe = self._seam + data
        end = after_last_blank_line(probe)
        if not end:
            out = self._hold(data, probe)
        else:
            head = end - len(self._seam)
            self._open.append(data[:head])
            out = self._release(b"".join(self._open))
            rest = data[head:]
            self._open.clear()
            self._size = 0
            self._halved = self._halved and not rest
            out += self._hold(rest, rest)
        self._calm = not self._open and not self._halved and not self._too_long
        return out

    def rest(self) -> bytes:
        """What is held at the end of the stream: an event that was not completed, unless it is a report even so."""
        rest = b"".join(self._open)
        self._open.clear()
        return rest if self._too_long or not _reports(rest + b"\n\n") else b""

    def _hold(self, data: bytes, probe: bytes) -> bytes:
        """Keep the start of an event, or let it go where it is too long to be a report."""
        self._seam = probe[-1:]
        if self._too_long:
            return data
        if data:
            keep(self._open, data)
            self._size += len(data)
        if self._size <= MAX_REPORT:
            return b""
        self._too_long = True
        out = b"".join(self._open)
        self._open.clear()
        return out

    def _release(self, block: bytes) -> bytes:
        """Whole events without the reports among them."""
        too_long, self._too_long = self._too_long, False
        if block.find(_USAGE) < 0:
            return block
        kept = []
        done = 0
        for end in [blank.end() for blank in _BLANK_LINE.finditer(block)]:
            event = block[done:end]
            if not too_long and len(event) <= MAX_REPORT and _reports(event):
                kept.append(event[: len(event) - len(event.lstrip(b"\r\n"))])
                self._halved = event.endswith(b"\r")
            else:
                kept.append(event)
                self._halved = False
            too_long = False
            done = end
        kept.append(block[done:])  # of an odd number of line ends
        return b"".join(kept)


def _reports(event: bytes) -> bool:
    if event.find(_USAGE) < 0:
        return False
    found = payloads(event)
    try:
        return len(found) == 1 and _decode(found[0]).only_reports()
    except (msgspec.DecodeError, RecursionError):
        return False
