"""Compressed bodies: decoded as they come, whatever the reads, and never more than the memory can take."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.wire import encoding
from hedgerow.wire.encoding import Decoder, decoded, decoder
from tests.unit.client_support import ask, on_both_loops
from tests.unit.test_http_client_answers import say

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(b'data: {"choices":[{"delta":{"content":"word %d"}}]}\n\n' % i for i in range(400))


def bare(body: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-15)
    return squeeze.compress(body) + squeeze.flush()


CODED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "members": ("gzip", lambda body: gzip.compress(body[:9]) + gzip.compress(b"") + gzip.compress(body[9:])),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", bare),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "frames": ("zstd", lambda body: zstd.compress(body[:9]) + zstd.compress(b"") + zstd.compress(body[9:])),
    "two": ("gzip, br", lambda body: brotli.compress(gzip.compress(body))),
    "three": ("br,deflate , identity, zstd", lambda body: zstd.compress(zlib.compress(brotli.compress(body)))),
}
every_coding = pytest.mark.parametrize("coding", CODED)


def of(value: str) -> Decoder:
    found = decoder([(b"content-type", b"text/event-stream"), (b"content-encoding", value.encode())])
    assert found is not None
    return found


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(marks)]


@every_coding
@pytest.mark.parametrize("body", [b"", b"x", TEXT, TEXT * 40], ids=len)
def test_a_body_in_every_coding_is_decoded_whatever_the_reads(coding: str, body: bytes) -> None:
    value, encode = CODED[coding]
    coded = encode(body)
    for size in (1, 7, len(coded)):
        decoding = of(value)
        assert b"".join(decoding.feed(coded[i : i + size]) for i in range(0, len(coded), size)) == body
        assert decoding.complete


@given(st.sampled_from(list(CODED)), st.binary(max_size=300), st.lists(st.integers(0, 500), max_size=8))
def test_all_chunkings_decode_to_the_same(coding: str, body: bytes, cuts: list[int]) -> None:
    value, encode = CODED[coding]
    decoding = of(value)
    assert b"".join(map(decoding.feed, split(encode(body), cuts))) == body
    assert decoding.complete


@given(st.sampled_from(list(CODED)), st.integers(1, 10_000))
def test_a_body_that_is_cut_short_is_not_complete_and_what_came_is_a_start_of_it(coding: str, lost: int) -> None:
    value, encode = CODED[coding]
    coded = encode(TEXT)
    kept = coded[: max(1, len(coded) - lost)]
    decoding = of(value)
    assert TEXT.startswith(decoding.feed(kept))
    assert not decoding.complete or coding in ("members", "frames")  # cut between two of them


@given(st.sampled_from(list(CODED)), st.integers(0, 10_000), st.integers(1, 255), st.lists(st.integers(0, 10_000)))
def test_a_corrupt_body_raises_one_kind_of_error_or_none(coding: str, at: int, flip: int, cuts: list[int]) -> None:
    value, encode = CODED[coding]
    coded = bytearray(encode(TEXT))
    coded[at % len(coded)] ^= flip
    decoding = of(value)
    said = ""
    try:
        for read in split(bytes(coded), cuts):
            decoding.feed(read)
    except ValueError as error:
        said = str(error)
    assert not said or "body is corrupt" in said or "stand for too many" in said


@given(
    st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, gzip"]),
    st.sampled_from([b"", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\x78\x9c"]),
    st.lists(st.binary(max_size=40)),
)
def test_random_bytes_raise_nothing_else(value: str, start: bytes, reads: list[bytes]) -> None:
    decoding = of(value)
    try:
        for read in (start, *reads):
            decoding.feed(read)
    except ValueError:
        return
    assert decoding.complete in (True, False)


FIRST, SECOND = TEXT[:54], TEXT[54:108]


def flushed_zlib(wbits: int) -> tuple[bytes, bytes]:
    squeeze = zlib.compressobj(wbits=wbits)
    first = squeeze.compress(FIRST) + squeeze.flush(zlib.Z_SYNC_FLUSH)
    return first, squeeze.compress(SECOND) + squeeze.flush()


def flushed_br() -> tuple[bytes, bytes]:
    squeeze = brotli.Compressor()
    first = squeeze.process(FIRST) + squeeze.flush()
    return first, squeeze.process(SECOND) + squeeze.finish()


def flushed_zstd() -> tuple[bytes, bytes]:
    squeeze = zstd.ZstdCompressor()
    first = squeeze.compress(FIRST, zstd.ZstdCompressor.FLUSH_BLOCK)
    return first, squeeze.compress(SECOND, zstd.ZstdCompressor.FLUSH_FRAME)


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        ("gzip", flushed_zlib(31)),
        ("deflate", flushed_zlib(15)),
        ("deflate", flushed_zlib(-15)),
        ("br", flushed_br()),
        ("zstd", flushed_zstd()),
    ],
)
def test_what_an_upstream_flushed_comes_out_at_once(value: str, reads: tuple[bytes, bytes]) -> None:
    decoding = of(value)
    assert decoding.feed(reads[0]) == FIRST
    assert not decoding.complete
    assert decoding.feed(reads[1]) == SECOND
    assert decoding.complete


@pytest.mark.parametrize("value", ["gzip", "zstd"])
def test_a_plain_body_that_is_labelled_as_coded_passes_unchanged(value: str) -> None:
    for body in (TEXT, b'{"choices":[]}', b"<html>", b"\n{}", b": comment\n\n"):
        decoding = of(value)
        assert decoding.feed(body[:1]) + decoding.feed(body[1:]) == body
        assert decoding.complete


def test_what_follows_the_last_member_is_dropped() -> None:
    for rest in (b"\0\0\0", b"junk"):
        decoding = of("gzip")
        assert decoding.feed(gzip.compress(TEXT) + rest) + decoding.feed(rest) == TEXT
        assert decoding.complete


@pytest.mark.parametrize("value", ["gzip", "gzip, gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_told_before_it_fills_the_memory(value: str) -> None:
    bomb = b"\0" * 256 * 1024 * 1024
    if value == "br":
        coded = brotli.compress(bomb, quality=1)
    elif value == "gzip, gzip":
        coded = gzip.compress(gzip.compress(bomb))
    else:
        coded = CODED[value][1](bomb)
    del bomb
    decoding = of(value)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"^\d+ bytes of the (gzip|deflate|br|zstd) body stand for too many$"):
            decoding.feed(coded)
        assert tracemalloc.get_traced_memory()[1] < 3 * encoding.FEED_LIMIT
    finally:
        tracemalloc.stop()


def test_a_frame_that_wants_a_huge_window_is_refused() -> None:
    squeeze = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    coded = squeeze.compress(TEXT, zstd.ZstdCompressor.FLUSH_BLOCK)
    with pytest.raises(ValueError, match="the zstd body is corrupt"):
        of("zstd").feed(coded)


@pytest.mark.parametrize("value", ["identity", "Identity", "", "none", "utf-8", "identity, identity"])
def test_a_plain_body_needs_no_decoder(value: str) -> None:
    assert decoder([(b"content-encoding", value.encode()), (b"transfer-encoding", b"chunked")]) is None
    assert decoder([]) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("compress", "unknown content coding 'compress'"),
        ("gzip, sdch\xff", "unknown content coding 'sdch\\xc3\\xbf'"),
        ("gzip, gzip, gzip, gzip", "the body has more than 3 content codings"),
    ],
)
def test_what_cannot_be_undone_is_told_once_there_is_a_body(value: str, message: str) -> None:
    decoding = of(value)
    assert decoding.complete
    with pytest.raises(ValueError) as raised:
        decoding.feed(b"x")
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("value", "module", "package"),
    [("br", "brotli", "brotli"), ("zstd", "backports", "backports")],
)
def test_a_library_that_is_not_installed_is_named(
    value: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value == "zstd" and sys.version_info >= (3, 14):
        module = package = "compression"
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=f"a body in {value}, and the package {package} is not installed"):
        of(value).feed(b"x")


def test_codings_of_the_transfer_are_undone_before_those_of_the_content() -> None:
    headers = [
        (b"content-encoding", b"br"),
        (b"x-request-id", b"r"),
        (b"content-encoding", b"deflate"),
        (b"content-length", b"9"),
        (b"transfer-encoding", b"gzip, chunked"),
    ]
    decoding = decoder(headers)
    assert decoding is not None
    assert decoding.feed(gzip.compress(zlib.compress(brotli.compress(TEXT)))) == TEXT
    assert decoded(headers) == [(b"x-request-id", b"r")]


@on_both_loops
async def test_the_http_client_undoes_chunked_only_and_tells_the_other_coding() -> None:
    coded = gzip.compress(TEXT)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n%x\r\n" % len(coded)
    async with say(head + coded + b"\r\n0\r\n\r\n") as server:
        pool = server.pool()
        sink = ask(pool)
        body = await sink.whole()
        decoding = decoder(sink.headers)
        assert decoding is not None
        assert decoding.feed(body) == TEXT
        await pool.close()
