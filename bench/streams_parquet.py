"""Reads columns of a flat Parquet file as Arrow writes it: Zstandard, pages of version 1, dictionaries, missing values.

A library for all of Parquet is a hundred times the size of everything else the evaluation needs. What is not read here
is refused by name. The format: https://parquet.apache.org/docs/file-format/, metadata in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression.zstd import decompress
else:
    from backports.zstd import decompress

Value = str | int | float | None

_INT64, _FLOAT, _BYTES = 2, 4, 6
_FIXED = {_INT64: "q", _FLOAT: "f"}
_ZSTD = 6
_PLAIN, _DICTIONARY = 0, 8
_DICTIONARY_PAGE, _DATA_PAGE = 2, 0
_OPTIONAL = 1


class NotReadable(ValueError):
    """The file is no Parquet, or uses what this reader does not know."""


def read_columns(path: Path, names: Sequence[str]) -> Mapping[str, list[Value]]:
    """These columns of all rows. Raises `NotReadable`, and `OSError`."""
    data = path.read_bytes()
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise NotReadable(f"{path}: is no Parquet file")
    size = int.from_bytes(data[-8:-4], "little")
    footer = _Thrift(data, len(data) - 8 - size).struct()
    columns: dict[str, list[Value]] = {name: [] for name in names}
    optional = {element[4].decode(): element.get(3) == _OPTIONAL for element in footer[2][1:]}
    if missing := [name for name in names if name not in optional]:
        raise NotReadable(f"{path}: has no column {missing[0]}")
    for group in footer[4]:
        for chunk in group[1]:
            meta = chunk[3]
            name = meta[3][-1].decode()
            if name in columns:
                try:
                    columns[name] += _chunk(data, meta, optional[name])
                except NotReadable as error:
                    raise NotReadable(f"{path}, column {name}: {error}") from None
    return columns


def _chunk(data: bytes, meta: Mapping[int, Any], optional: bool) -> list[Value]:
    """One column of one group of rows."""
    kind, codec, count = meta[1], meta[4], meta[5]
    if codec != _ZSTD or kind not in (*_FIXED, _BYTES):
        raise NotReadable(f"compression {codec} of type {kind} is not known here")
    at = meta.get(11, meta[9])  # the dictionary page comes first, where there is one
    dictionary: Sequence[Value] = ()
    values: list[Value] = []
    while len(values) < count:
        thrift = _Thrift(data, at)
        head = thrift.struct()
        at = thrift.at + head[3]
        page = decompress(data[thrift.at : at])
        if head[1] == _DICTIONARY_PAGE:
            dictionary = _plain(page, kind, head[7][1])
        elif head[1] == _DATA_PAGE:
            values += _page(page, kind, head[5], dictionary, optional)
        else:
            raise NotReadable(f"pages of type {head[1]} are not known here")
    return values


def _page(
    page: bytes, kind: int, head: Mapping[int, int], dictionary: Sequence[Value], optional: bool
) -> Iterator[Value]:
    count, encoding = head[1], head[2]
    present = [1] * count
    if optional:
        size = int.from_bytes(page[:4], "little")
        present = _runs(page[4 : 4 + size], 1, count)
        page = page[4 + size :]
    known = sum(present)
    if encoding == _DICTIONARY:
        found: Iterator[Value] = (dictionary[index] for index in _runs(page[1:], page[0], known))
    elif encoding == _PLAIN:
        found = iter(_plain(page, kind, known))
    else:
        raise NotReadable(f"encoding {encoding} is not known here")
    return (next(found) if one else None for one in present)


def _plain(page: bytes, kind: int, count: int) -> Sequence[Value]:
    if kind in _FIXED:
        return struct.unpack_from(f"<{count}{_FIXED[kind]}", page)
    texts, at = [], 0
    for _ in range(count):
        end = at + 4 + int.from_bytes(page[at : at + 4], "little")
        texts.append(page[at + 4 : end].decode())
        at = end
    return texts


def _runs(data: bytes, width: int, count: int) -> list[int]:
    """Numbers of `width` bits: runs of one of them, and groups of eight that are packed."""
    numbers: list[int] = []
    size, at = (width + 7) // 8, 0
    while len(numbers) < count:
        head, at = _varint(data, at)
        if head & 1:
            length = (head >> 1) * width
            bits = int.from_bytes(data[at : at + length], "little")
            numbers += [bits >> width * index & (1 << width) - 1 for index in range((head >> 1) * 8)]
        else:
            length = size
            numbers += [int.from_bytes(data[at : at + size], "little")] * (head >> 1)
        at += length
    return numbers[:count]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


class _Thrift:
    """Thrift's compact protocol: a struct is a dictionary by field number."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15)
        return fields

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                self.at += 8
                return None
            case 8:
                size, self.at = _varint(self._data, self.at)
                self.at += size
                return self._data[self.at - size : self.at]
            case 9 | 10:
                head = self._byte()
                size = head >> 4
                if size == 15:
                    size, self.at = _varint(self._data, self.at)
                return [self._value(head & 15) for _ in range(size)]
            case 12:
                return self.struct()
            case _:
                raise NotReadable(f"metadata of type {kind} is not known here")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _integer(self) -> int:
        number, self.at = _varint(self._data, self.at)
        return (number >> 1) ^ -(number & 1)
