"""Gemini's streams as they are without `alt=sse`: one JSON array, read object by object in every chunking."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage, UsageSource
from hedgerow.wire.base import ACCEPTED, Accepted
from hedgerow.wire.gemini_sse import Elements
from hedgerow.wire.sse import MAX_EVENT, payloads
from tests.unit.gemini_support import ARRAY, GEMINI, OVERLOADED, SSE, answer, chunk, cut, failed, of, run, usage

ROLE = answer([{"text": ""}], usageMetadata=usage(9, 0))
RED = answer([{"text": 'Red "}\\]'}], usageMetadata=usage(9, 2))
BLUE = answer([{"text": "and blue"}], usageMetadata=usage(9, 3))
STOP = answer([{"text": ""}], "STOP", usageMetadata=usage(9, 4))
ERROR = json.loads(OVERLOADED)


def array(*chunks: dict[str, Any], closed: bool = True) -> bytes:
    """As Google writes it."""
    inside = b"\n,\r\n".join(json.dumps(chunk, indent=2).encode() for chunk in chunks)
    return b"[" + inside + (b"\n]\n" if closed else b"")


def test_the_object_with_the_first_token_decides() -> None:
    stream = array(ROLE, RED, BLUE, STOP)
    reading = GEMINI.scanner(ARRAY, SSE)
    until = stream.index(b"}\n,", stream.index(b"Red")) + 1
    assert reading.feed(stream[: until - 1]) is None
    assert reading.feed(stream[until - 1 : until]) is ACCEPTED
    assert reading.watch(stream[until:]) is False
    ending = reading.ending(True)
    assert (ending.failure, ending.usage) == (None, Usage(9, 4))


@pytest.mark.parametrize(
    ("rest", "clean", "why"),
    [
        (array(RED, STOP, closed=False), True, "was closed before a finish reason"),
        (array(RED, BLUE), True, "was closed before a finish reason"),
        (array(RED, STOP), False, "broke off"),
    ],
)
def test_an_array_that_is_not_whole_is_a_cut(rest: bytes, clean: bool, why: str) -> None:
    verdict, _, ending = run(rest, facts=ARRAY, clean=clean)
    assert verdict is ACCEPTED
    assert of(ending).failure == Failure(FailureClass.PROTOCOL, f"the stream {why}")
    usage_told = of(ending).usage
    assert usage_told is not None
    assert usage_told.input_tokens == 9


def test_an_error_before_and_after_the_first_token() -> None:
    before = failed(run(array(ROLE, ERROR), facts=ARRAY)[0])
    after = of(run(array(RED, ERROR), facts=ARRAY)[2])
    assert (before.kind, before.status) == (FailureClass.OVERLOADED, 503)
    assert after.failure is not None
    assert (after.failure.kind, after.failure.body) == (FailureClass.OVERLOADED, before.body)
    assert after.usage == Usage(9, 2, source=UsageSource.PARTIAL)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FailureClass.PROTOCOL),
        (b"[]", FailureClass.PROTOCOL),
        (b"[1, 2]", FailureClass.PROTOCOL),
        (b"<html>", FailureClass.PROTOCOL),
        (OVERLOADED, FailureClass.OVERLOADED),
        (array(ROLE, STOP), FailureClass.EMPTY),
        (json.dumps(STOP).encode(), FailureClass.EMPTY),
        (chunk("Red"), FailureClass.PROTOCOL),
        (chunk("", "STOP"), FailureClass.EMPTY),
    ],
)
def test_what_is_no_answer(body: bytes, kind: FailureClass) -> None:
    assert failed(run(body, facts=ARRAY)[0]).kind is kind


def test_an_answer_in_another_form_is_made_the_array_that_was_asked_for() -> None:
    whole = answer([{"text": "Red"}], "STOP", usageMetadata=usage(9, 4))
    for body, chunks in [
        (json.dumps(whole, indent=1).encode(), [whole]),
        (chunk("Red ") + chunk("blue", "STOP", usageMetadata=usage(9, 4)), ["Red ", "blue"]),
    ]:
        verdict, _, ending = run(body, facts=ARRAY)
        assert isinstance(verdict, Accepted)
        assert verdict.instead is not None
        told = json.loads(verdict.instead)
        assert told == chunks or [one["candidates"][0]["content"]["parts"][0]["text"] for one in told] == chunks
        assert of(ending).failure is None
        assert of(ending).usage == Usage(9, 4)


TEXT = st.text(st.sampled_from('{}[]"\\\n é\ud83d'), max_size=12)
VALUES = TEXT | st.none() | st.lists(TEXT, max_size=2) | st.dictionaries(TEXT, st.lists(TEXT, max_size=2), max_size=2)


@given(st.lists(st.dictionaries(TEXT, VALUES, max_size=2), max_size=3), st.lists(st.integers(0, 5_000)), st.booleans())
def test_the_objects_of_an_array_come_out_however_it_is_cut(
    objects: list[dict[str, Any]], cuts: list[int], pretty: bool
) -> None:
    elements = Elements()
    stream = json.dumps(objects, indent=2 if pretty else None).encode()
    block = b"".join(elements.cut(read) for read in cut(stream, cuts))
    assert [json.loads(payload) for payload in payloads(block)] == objects
    assert elements.closed


@given(
    st.lists(st.sampled_from([ROLE, RED, BLUE, STOP, ERROR]), max_size=6),
    st.lists(st.integers(0, 5_000), max_size=40),
    st.booleans(),
)
def test_every_chunking_says_the_same(chunks: list[dict[str, Any]], cuts: list[int], closed: bool) -> None:
    stream = array(*chunks, closed=closed)
    one = run(stream, facts=ARRAY)
    other = run(*cut(stream, cuts), facts=ARRAY)
    assert (one[0], one[2]) == (other[0], other[2])


def test_an_endless_object_does_not_fill_the_memory() -> None:
    tracemalloc.start()
    elements = Elements()
    elements.cut(b'[{"text":"')
    for _ in range(2 * MAX_EVENT // 65_536):
        assert elements.cut(b"x" * 65_536) == b""
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * MAX_EVENT
    assert elements.overflowed
    block = elements.cut(b'"},{"text":"Red"}]')
    assert payloads(block)[-1] == b'{"text":"Red"}'


def test_an_endless_object_before_the_first_token_fails() -> None:
    reading = GEMINI.scanner(ARRAY, SSE)
    assert reading.feed(b'[{"text":"') is None
    verdict = None
    while verdict is None:
        verdict = reading.feed(b"x" * 1_048_576)
    assert verdict == Failure(FailureClass.PROTOCOL, "an event of more than 32 MiB")
