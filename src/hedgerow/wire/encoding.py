"""Undoing content codings: gzip, deflate, br and zstd, for upstreams that compress although identity was asked for.

Decoding is incremental: whatever can be decoded comes out at once, so a compressed stream keeps its first token early.
It is bounded too: a few kilobytes can stand for gigabytes, so they are decoded in steps, and no more than `FEED_LIMIT`
bytes are ever made of one read. RFC 9110 section 8.4, RFC 9112 section 7.
"""

from __future__ import annotations

from hedgerow.events import Headers
from hedgerow.wire.codings import CODINGS, Coding, Refused

FEED_LIMIT = 16 * 1024 * 1024
"""Bytes that one read may stand for, those between two codings included. A read has
some 256 KiB, and text is seldom coded to less than a fiftieth."""
SLICE = 16 * 1024
"""Coded bytes that are looked at in one go: a library copies what it leaves, so all of a read would be copied often."""
MAX_CODINGS = 3
"""Layers that are undone; more are an attack or a mistake."""

_NO_CODING = frozenset({b"", b"identity", b"none", b"utf-8", b"chunked"})
"""Values that leave the body as it is; two of them are mistakes that are met with. The HTTP client undoes `chunked`."""
_IN_ORDER = (b"content-encoding", b"transfer-encoding")
"""Where codings are named, in the order in which they were applied."""
_NAMES = frozenset(_IN_ORDER)
_OF_THE_CODED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})


class Decoder:
    """Undoes the codings of one body."""

    __slots__ = ("_at", "_codings", "_input", "_room")

    def __init__(self, codings: list[Coding]) -> None:
        self._codings = codings
        self._input = b""
        self._at = 0
        self._room = 0

    @property
    def complete(self) -> bool:
        """Whether the body may end here: it does not stop in the middle. One without a single byte may too."""
        return all(coding.complete for coding in self._codings)

    def feed(self, data: bytes) -> bytes:
        """All that can be decoded now that `data` has come.

        Raises `ValueError`, fit for a log, when it cannot be decoded or stands for more than `FEED_LIMIT` bytes.
        """
        self._input, self._at, self._room = data, 0, FEED_LIMIT
        last = len(self._codings) - 1
        steps: list[bytes] = []
        while step := self._step(last):
            steps.append(step)
        return steps[0] if len(steps) == 1 else b"".join(steps)

    def _step(self, layer: int) -> bytes:
        if layer < 0:
            start = self._at
            self._at = start + SLICE
            return self._input[start : self._at]
        coding = self._codings[layer]
        while True:
            if step := coding.more():
                self._room -= len(step)
                if self._room < 0:
                    raise ValueError(f"{len(self._input)} bytes of the {coding.name} body stand for too many")
                return step
            data = self._step(layer - 1)
            if not data:
                return b""
            coding.push(data)


def decoder(headers: Headers) -> Decoder | None:
    """What undoes the codings that a response head names; None when the body is plain.

    A coding that is not known here, or whose library is not installed, is told by `Decoder.feed`.
    """
    for name, value in headers:
        if name in _NAMES and value not in _NO_CODING:
            return _decoder(headers)
    return None  # nearly always


def _decoder(headers: Headers) -> Decoder | None:
    values = [value for wanted in _IN_ORDER for name, value in headers if name == wanted]
    applied = [coding for value in b",".join(values).split(b",") if (coding := value.strip().lower()) not in _NO_CODING]
    if len(applied) > MAX_CODINGS:
        return Decoder([Refused(f"the body has more than {MAX_CODINGS} content codings")])
    return Decoder([_coding(name) for name in reversed(applied)]) if applied else None


def decoded(headers: Headers) -> Headers:
    """`headers` as they are for the body without its codings, whose length is not known."""
    return [field for field in headers if field[0] not in _OF_THE_CODED]


def _coding(name: bytes) -> Coding:
    known: type[Coding] | None = CODINGS.get(name)
    if known is None:
        return Refused(f"unknown content coding {name[:40].decode('latin-1')!a}")
    try:
        return known()
    except ImportError as error:
        return Refused(f"a body in {known.name}, and the package {error.name} is not installed")
