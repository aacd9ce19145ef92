"""A streamed answer as the demo's client reads it."""

from __future__ import annotations

import asyncio

import pytest

from hedgerow.demo.reply import Answer, Reply
from hedgerow.errors import UpstreamClosed

HEADERS = [(b"x-hedgerow-target", b"beta"), (b"x-hedgerow-attempts", b"2"), (b"x-hedgerow-hedged", b"true")]
ROLE = b'data: {"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
WORDS = [b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % word for word in (b"be", b"ta")]
DONE = b"data: [DONE]\n\n"
WHOLE = ROLE + b"".join(WORDS) + DONE


def read(*pieces: bytes, status: int = 200, error: UpstreamClosed | None = None) -> Answer:
    async def main() -> Answer:
        reply = Reply("7")
        reply.on_head(status, HEADERS)
        for piece in pieces:
            reply.on_data(piece)
        if error is None:
            reply.on_end()
        else:
            reply.on_error(error)
        return await reply.answer

    return asyncio.run(main())


def test_a_hedge_that_was_skipped_is_heard_of() -> None:
    HEADERS.append((b"x-hedgerow-hedge-skipped", b"outage"))
    try:
        assert read(WHOLE).skipped == "outage"
    finally:
        HEADERS.pop()
    assert read(WHOLE).skipped == ""


@pytest.mark.parametrize("cut", range(1, len(WHOLE)))
def test_a_stream_reads_the_same_however_it_is_cut(cut: int) -> None:
    answer = read(WHOLE[:cut], WHOLE[cut:])
    assert (answer.key, answer.text, answer.answer_id, answer.problem) == ("7", "beta", "a", None)
    assert (answer.target, answer.attempts, answer.hedged) == ("beta", 2, True)


def test_a_role_only_chunk_is_no_first_token() -> None:
    assert read(ROLE, DONE).problem == "a stream without content"
    assert read(ROLE, DONE).first_token == float("inf")


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        ([ROLE, *WORDS], "the stream ended with 0 [DONE] marks in place of 1"),
        ([WHOLE, DONE], "the stream ended with 2 [DONE] marks in place of 1"),
        ([WHOLE, b"data: {"], "7 bytes after the last event"),
        ([ROLE, WORDS[0], WORDS[1].replace(b'"a"', b'"b"'), DONE], "chunks of two answers in one stream: a and b"),
        ([ROLE, b'data: {"error": {"message": "no"}}\n\n', DONE], 'an error in the stream: b\'{"message": "no"}\''),
    ],
)
def test_a_broken_stream_is_told_from_a_whole_one(pieces: list[bytes], problem: str) -> None:
    assert read(*pieces).problem == problem


def test_an_error_status_and_a_lost_connection_are_problems() -> None:
    assert read(b'{"error"', b": 1}", status=502).problem == "status 502: b'{\"error\": 1}'"
    assert read(WHOLE, error=UpstreamClosed("gone")).problem == "UpstreamClosed: gone"
