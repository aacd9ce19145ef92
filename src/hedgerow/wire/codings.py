"""The content codings that can be undone, one decompressor each behind one small class."""

from __future__ import annotations

import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

STEP = 64 * 1024
"""Bytes decoded in one step, about: the br library may round it up by half."""


class Coding(ABC):
    """Undoes one coding. `push` is called only when `more` had nothing."""

    __slots__ = ("_rest", "complete")
    name: ClassVar[str]

    def __init__(self) -> None:
        self._rest = b""
        self.complete = True
        """The body may end here; one without a byte is no fault."""

    def push(self, data: bytes) -> None:
        """Take coded bytes."""
        self._rest += data

    @abstractmethod
    def more(self) -> bytes:
        """The next step; b"" when there is none until more is pushed. Raises `ValueError`."""

    def corrupt(self, error: Exception) -> ValueError:
        return ValueError(f"the {self.name} body is corrupt ({error})")


class _Framed(Coding):
    """Members or frames one after the other, each with its own decompressor."""

    __slots__ = ("_inside", "_plain", "_started")
    FIRST: ClassVar[frozenset[int]]
    """First bytes that a member or frame can have. No JSON and no event stream starts with one of them."""

    def __init__(self) -> None:
        super().__init__()
        self._inside: Any = None
        self._started = False
        self._plain = False

    @abstractmethod
    def open(self) -> Any:
        """A decompressor for the next member or frame."""

    @abstractmethod
    def step(self) -> bytes:
        """Decompress some of `_rest`, which is left holding what was not looked at."""

    def more(self) -> bytes:
        """A body that is only labelled as coded passes unchanged; what follows the last member is dropped."""
        while self._rest or self._inside is not None:
            if self._inside is None and not self._begin():
                rest, self._rest = self._rest, b""
                return rest if self._plain else b""
            piece = self.step()
            if self._inside.eof:
                self._rest = self._inside.unused_data
                self._inside = None
                self.complete = True
            if piece:
                return piece
            if self._inside is not None and not self._rest:
                return b""
        return b""

    def _begin(self) -> bool:
        coded = self._rest[0] in self.FIRST and not self._plain
        if coded:
            self._inside = self.open()
            self._started = True
            self.complete = False
        elif not self._started:
            self._plain = True
        return coded


class _Gzip(_Framed):
    """Members; what follows the last one is dropped, as other clients do."""

    __slots__ = ()
    name = "gzip"
    FIRST = frozenset({0x1F})

    def open(self) -> Any:
        return zlib.decompressobj(wbits=31)

    def step(self) -> bytes:
        try:
            piece: bytes = self._inside.decompress(self._rest, STEP)
        except zlib.error as error:
            raise self.corrupt(error) from None
        self._rest = self._inside.unconsumed_tail
        return piece


class _Zstd(_Framed):
    __slots__ = ("_failed", "_open")
    name = "zstd"
    FIRST = frozenset({0x28, *range(0x50, 0x60)})  # frames, and frames to be skipped
    WINDOW_LOG = 23
    """A window of 8 MiB at most, the limit for this coding in HTTP. (RFC 9659)"""

    def __init__(self) -> None:
        super().__init__()
        self._open, self._failed = _zstd_library()

    def open(self) -> Any:
        return self._open(self.WINDOW_LOG)

    def step(self) -> bytes:
        data, self._rest = self._rest, b""
        try:
            piece: bytes = self._inside.decompress(data, STEP)
        except self._failed as error:
            raise self.corrupt(error) from None
        return piece


class _Deflate(Coding):
    """zlib's format as the standard says, or the bare one that some servers send instead."""

    __slots__ = ("_inside",)
    name = "deflate"

    def __init__(self) -> None:
        super().__init__()
        self._inside: Any = None

    def push(self, data: bytes) -> None:
        super().push(data)
        if self._inside is None:
            self.complete = False

    def more(self) -> bytes:
        if self._inside is None:
            if len(self._rest) < 2:
                return b""
            first, second = self._rest[:2]
            wrapped = first & 15 == 8 and (first << 8 | second) % 31 == 0
            self._inside = zlib.decompressobj(wbits=15 if wrapped else -15)
        if self._inside.eof:
            self._rest = b""
            return b""
        try:
            piece: bytes = self._inside.decompress(self._rest, STEP)
        except zlib.error as error:
            raise self.corrupt(error) from None
        self._rest = self._inside.unconsumed_tail
        self.complete = self._inside.eof
        return piece


class _Brotli(Coding):
    __slots__ = ("_failed", "_flowing", "_inside")
    name = "br"

    def __init__(self) -> None:
        super().__init__()
        import brotli

        self._inside = brotli.Decompressor()
        self._failed: type[Exception] = brotli.error
        self._flowing = False
        """The last step gave something: there may be more of it although all input was taken."""

    def push(self, data: bytes) -> None:
        super().push(data)
        self.complete = False

    def more(self) -> bytes:
        inside = self._inside
        data = b""
        if inside.can_accept_more_data():
            if not self._rest and not self._flowing:
                return b""
            data, self._rest = self._rest, b""
        try:
            piece: bytes = inside.process(data, output_buffer_limit=STEP)
        except self._failed as error:
            raise self.corrupt(error) from None
        self._flowing = bool(piece)
        self.complete = inside.is_finished() and not self._rest
        return piece


class Refused(Coding):
    """Stands for a coding that cannot be undone, and says so once there is a body."""

    __slots__ = ("_why",)
    name = "unknown"

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why

    def push(self, data: bytes) -> None:
        raise ValueError(self._why)

    def more(self) -> bytes:
        return b""


CODINGS: dict[bytes, type[Coding]] = {
    b"gzip": _Gzip,
    b"x-gzip": _Gzip,
    b"deflate": _Deflate,
    b"br": _Brotli,
    b"zstd": _Zstd,
}


def _zstd_library() -> tuple[Callable[[int], Any], type[Exception]]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    def opened(window_log: int) -> Any:
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log})

    return opened, zstd.ZstdError
