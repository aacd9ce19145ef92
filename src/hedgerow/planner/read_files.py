"""Which files a log is made of, and what is in each: told by its first bytes, not by its name."""

from __future__ import annotations

import gzip
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from hedgerow.errors import ConfigError

Kind = Literal["CSV", "JSON lines", "JSON array", "JSON", "Parquet", "ledger"]
Packing = Literal["none", "gzip", "zstd"]
NAMES = ("csv", "tsv", "jsonl", "ndjson", "json", "parquet", "db", "sqlite", "sqlite3", "log")
"""Ends of the names of files that are taken from a folder, `.gz` or `.zst` behind them or not."""
_HEAD, _LINE = 1 << 16, 16 << 20
_LEDGERS = ("sqlite:", "postgresql:", "postgresql+")


class File(NamedTuple):
    """One part of a log. `name` as it was given, without a password; `url` of a ledger's database."""

    name: str
    path: Path
    kind: Kind
    packing: Packing = "none"
    url: str = ""


def found(given: Sequence[str | Path], folder: Path) -> list[File]:
    """All the files, in a fixed order. `-` is standard input, which is put into `folder`. Raises `ConfigError`."""
    files = [file for each in given for file in _found(str(each), folder)]
    if not files:
        raise ConfigError(["no log was given"])
    return files


def _found(given: str, folder: Path) -> Iterator[File]:
    path = Path(given)
    if given.startswith(_LEDGERS):
        from hedgerow.ledger.store import shown

        yield File(shown(given), path, "ledger", url=given)
    elif given == "-":
        path = folder / "stdin"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield _file("standard input", path)
    elif path.is_dir():
        inside = sorted(each for each in path.rglob("*") if each.is_file() and _is_log(each.relative_to(path)))
        if not inside:
            raise ConfigError([f"{given}: no log is in this folder; the names of logs end with {', '.join(NAMES)}"])
        yield from (_file(str(each), each) for each in inside)
    elif path.is_file():
        yield _file(given, path)
    elif has_magic(given) and (matching := sorted(glob(given, recursive=True))):
        yield from (_file(each, Path(each)) for each in matching if Path(each).is_file())
    else:
        raise ConfigError([f"{given}: there is no such file"])


def _is_log(path: Path) -> bool:
    ends = [each for each in path.name.lower().split(".")[1:] if each not in ("gz", "zst")]
    return bool(ends) and ends[-1] in NAMES and not any(part.startswith(".") for part in path.parts)


def _file(name: str, path: Path) -> File:
    try:
        with path.open("rb") as file:
            head = _head(file.read)
    except OSError as error:
        raise ConfigError([f"{name}: cannot be read: {error.strerror}"]) from None
    packing: Packing = "none"
    if head.startswith(b"\x1f\x8b"):
        packing, head = "gzip", _unpacked(name, path, "gzip")
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        packing, head = "zstd", _unpacked(name, path, "zstd")
    if not head.strip():
        raise ConfigError([f"{name}: the file is empty"])
    kind = _kind(head)
    if kind is None or (packing != "none" and kind in ("Parquet", "ledger")):
        raise ConfigError([f"{name}: what kind of log is this? Known are CSV, JSON, Parquet and ledgers"])
    url = f"sqlite:///{path}" if kind == "ledger" else ""
    return File(name, path, kind, packing, url)


def _head(read: Callable[[int], bytes]) -> bytes:
    """The beginning, with the first line whole where that is an object, or the beginning of one."""
    head = read(_HEAD)
    while b"\n" not in head and _trimmed(head).startswith(b"{") and len(head) < _LINE and (more := read(_HEAD)):
        head += more
    return head


def _trimmed(head: bytes) -> bytes:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def _unpacked(name: str, path: Path, packing: Packing) -> bytes:
    """The beginning of what is in it."""
    try:
        if packing == "zstd":
            return _from_zstd(path)
        with gzip.open(path) as unpacked:
            return _head(unpacked.read)
    except ImportError:
        raise ConfigError([f"{name}: unpacking it needs Zstandard: pip install backports.zstd"]) from None
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError([f"{name}: cannot be unpacked: {error}"]) from None


def _from_zstd(path: Path) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    try:
        with zstd.open(path) as unpacked:
            return _head(unpacked.read)
    except zstd.ZstdError as error:
        raise OSError(str(error)) from None


def _kind(head: bytes) -> Kind | None:
    if head.startswith(b"PAR1"):
        return "Parquet"
    if head.startswith(b"SQLite format 3\0"):
        return "ledger"
    if b"\0" in head:
        return None
    text = _trimmed(head)
    if text.startswith(b"["):
        return "JSON array"
    if text.startswith(b"{"):
        return "JSON lines" if _is_object(text.partition(b"\n")[0]) else "JSON"
    return "CSV"


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except msgspec.DecodeError:
        return False
