"""Compressed answers and streams with a BOM, through the gateway core in virtual time."""

from __future__ import annotations

import gzip
import zlib

import pytest

from hedgerow.events import AttemptEnded, FailureClass, Headers, Outcome, RequestFinished
from tests.engine.scripted import JSON, SSE, Answer, RecordingExchange, Scripts, World, play

ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"P1"},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
EMPTY = b'{"id":"c1","object":"chat.completion","choices":[]}'
ASKED = b'{"model":"fast","messages":[]}'
BOM = b"\xef\xbb\xbf"


def one(
    scripts: Scripts, body: bytes = b'{"model":"fast","stream":true,"messages":[]}'
) -> tuple[World, RecordingExchange]:
    found: list[RecordingExchange] = []

    async def story(world: World) -> None:
        found.append(world.request(body))

    return play(scripts, story), found[0]


def coded(headers: Headers, value: bytes) -> Headers:
    return [*headers, (b"content-encoding", value), (b"x-request-id", b"r")]


def flushed(*pieces: bytes) -> list[bytes]:
    """Each piece compressed so that it can be read at once."""
    squeeze = zlib.compressobj(wbits=31)
    out = [squeeze.compress(piece) + squeeze.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*out[:-1], out[-1] + squeeze.flush()]


def test_a_compressed_stream_is_decoded_as_it_comes() -> None:
    pieces = flushed(ROLE, TOKEN, FINISH + DONE)
    _, client = one({"a": Answer([(0.1, piece) for piece in pieces], headers=coded(SSE, b"gzip"))})
    assert (client.status, client.outcome) == (200, "whole")
    assert client.pieces == [(0.2, ROLE + TOKEN), (pytest.approx(0.3), FINISH + DONE)]
    assert b"content-encoding" not in client.answer_headers
    assert client.answer_headers[b"x-request-id"] == b"r"


def test_a_compressed_stream_that_is_cut_looks_cut() -> None:
    pieces = flushed(ROLE, TOKEN, FINISH)[:2]
    world, client = one({"a": Answer([(0.1, piece) for piece in pieces], headers=coded(SSE, b"gzip"))})
    assert client.text.startswith(ROLE + TOKEN)
    assert client.outcome != "whole"
    assert [e.outcome for e in world.of(AttemptEnded)] == [Outcome.FAILED_AFTER_COMMIT]


@pytest.mark.parametrize(
    ("value", "body", "why"),
    [
        (b"gzip", gzip.compress(ROLE + TOKEN, mtime=0)[:-30], "its compressed body is cut short"),
        (b"br", b"\xff\xff\xff\xff", "the br body is corrupt (brotli: decoder failed)"),
        (b"compress", b"\x1f\x9d", "unknown content coding 'compress'"),
    ],
)
def test_what_cannot_be_decoded_fails_over(value: bytes, body: bytes, why: str) -> None:
    backup = Answer([(0.1, ROLE + TOKEN + FINISH + DONE)])
    world, client = one({"a": Answer([(0.1, body)], headers=coded(SSE, value)), "b": backup})
    assert client.text == ROLE + TOKEN + FINISH + DONE
    failure = world.of(AttemptEnded)[0].failure
    assert (failure.kind, failure.message) == (FailureClass.PROTOCOL, why)


def test_a_compressed_error_is_read_and_told_plainly() -> None:
    body = b'{"error":{"message":"no","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}'
    refused = Answer([(0.1, gzip.compress(body))], 429, coded(JSON, b"gzip"))
    world, client = one({"a": refused})
    assert world.of(AttemptEnded)[0].failure.kind is FailureClass.QUOTA_EXHAUSTED
    assert (client.status, client.text) == (429, body)
    assert b"content-encoding" not in client.answer_headers


def test_an_empty_answer_that_came_compressed_is_delivered_plain() -> None:
    empty = Answer([(0.1, gzip.compress(EMPTY))], headers=coded(JSON, b"gzip"))
    _, client = one({"a": empty, "b": empty}, ASKED)
    assert (client.status, client.text) == (200, EMPTY)
    assert b"content-encoding" not in client.answer_headers


def test_a_bomb_ends_the_attempt_and_not_the_process() -> None:
    bomb = gzip.compress(b"data: " + b"x" * 64 * 1024 * 1024)
    world, client = one({"a": Answer([(0.1, bomb)], headers=coded(SSE, b"gzip"))})
    failure = world.of(AttemptEnded)[0].failure
    assert failure.message == f"{len(bomb)} bytes of the gzip body stand for too many"
    assert client.status == 502
    assert world.of(RequestFinished)[0].status == 502


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_a_bom_does_not_reach_the_client(at: int) -> None:
    stream = BOM + ROLE + TOKEN + BOM + FINISH + DONE
    reads = [(0.1, stream[:at]), (0.1, stream[at:])] if at else [(0.1, stream)]
    _, client = one({"a": Answer(reads)})
    assert client.text == ROLE + TOKEN + BOM + FINISH + DONE
