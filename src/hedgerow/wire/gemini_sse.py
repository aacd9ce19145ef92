"""How Gemini's chunks are framed: events with bare JSON between them, or one JSON array that is sent in pieces."""

from __future__ import annotations

import re

from hedgerow.wire.sse import MAX_EVENT, Blocks, keep

ERROR = b'"error"'
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
_JSON_STARTS = (b"{", b"}", b"[", b"]", b'"', b" ", b"\t")
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_LINES = b"\r\n"


class GeminiBlocks(Blocks):
    """Events, and errors that Google sends as bare JSON between them: they come out as events too."""

    __slots__ = ()

    def cut(self, data: bytes) -> bytes:
        """All events that `data` completes, as one piece; b"" if there is none."""
        block = super().cut(data)
        return as_events(block) if block and block.find(ERROR) >= 0 else block

    def rest(self) -> bytes:
        """The bytes after the last blank line: an event not yet complete."""
        rest = super().rest()
        return as_events(rest) if ERROR in rest else rest


def as_events(block: bytes) -> bytes:
    """`block` with each run of lines of bare JSON made the data of an event of its own."""
    found: list[bytes] = []
    bare = False
    for line in _LINE_ENDS.split(block):
        was, bare = bare, line.startswith(_JSON_STARTS)
        if bare is not was and line:
            found.append(b"")
        found.append(b"data:" + line if bare else line)
    return b"\n".join(found)


def event(document: bytes) -> bytes:
    """One event that holds this JSON: line ends in JSON are mere space."""
    return b"data: " + document.strip().translate(None, _LINES) + b"\r\n\r\n"


class Elements(Blocks):
    """Cuts a JSON array into its objects, however the reads fell, and makes each an event."""

    __slots__ = ("_depth", "_escaped", "_quoted", "closed")

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._quoted = False
        """Within a string."""
        self._escaped = False
        """Right after a backslash in it."""
        self.closed = False
        """The array's own bracket has come."""

    def cut(self, data: bytes) -> bytes:
        """The objects that `data` completes, as events. The cost is linear in the bytes fed."""
        found: list[bytes] = []
        start, done = 0, self._leave_string(data)
        for token in _STRUCTURE.finditer(data, done):
            mark = token[0]
            if mark in (b"{", b"["):
                self._depth += 1
                if self._depth == 2:
                    start = token.start()
                    self._open.clear()
                    self._size = 0
            elif mark in (b"}", b"]"):
                self._depth -= 1
                if self._depth == 1:
                    self._open.append(data[start : token.end()])
                    found.append(event(b"".join(self._open)))
                    self._open.clear()
                self.closed = self.closed or self._depth == 0
            elif mark == b'"':  # a string that goes on in the next piece
                self._quoted = True
                self._leave_string(data, token.end())
                break
        if self._depth > 1:
            self._keep(data[start:])
        return b"".join(found)

    def rest(self) -> bytes:
        """Nothing: an object that is not complete is none."""
        return b""

    def _leave_string(self, data: bytes, at: int = 0) -> int:
        """Where the string that is open at `at` has ended; the end of `data` while it has not."""
        if not self._quoted:
            return at
        if self._escaped and at < len(data):
            at += 1
            self._escaped = False
        match = _IN_STRING.match(data, at)
        end = match.end() if match is not None else at
        if data[end : end + 1] == b'"':
            self._quoted = False
            return end + 1
        self._escaped = self._escaped or data[end : end + 1] == b"\\"
        return len(data)

    def _keep(self, data: bytes) -> None:
        keep(self._open, data)
        self._size += len(data)
        if self._size > MAX_EVENT:
            self.overflowed = True
            self._open = []  # what is left of it is no JSON, and is read as no chunk
            self._size = 0
