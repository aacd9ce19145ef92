"""The stream of a response, cut anywhere and made of anything, is read the same and breaks nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass
from hedgerow.wire.base import ACCEPTED, Accepted, Verdict
from tests.unit.responses_support import (
    BLUE,
    COMPLETED,
    FAILED,
    FLAT,
    IN_PROGRESS,
    INCOMPLETE,
    ITEM_DONE,
    NESTED,
    OPENING,
    PART,
    RED,
    delta,
    event,
    of,
    response,
    run,
)
from tests.unit.test_wire_responses_token import DELTAS, NO_TOKENS, TOKENS


def reads(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


EVENTS = st.sampled_from(
    [
        *NO_TOKENS,
        *TOKENS,
        RED,
        BLUE,
        ITEM_DONE,
        COMPLETED,
        INCOMPLETE,
        delta("response"),
        delta("caf\u00e9 \U0001f600"),
        FLAT,
        NESTED,
        FAILED,
        event("response.completed", response=response("completed")),
        b"data: {broken\n\n",
        b"data: [DONE]\n\n",
        b"\xef\xbb\xbf",
        b"\n",
        b"<",
        b"{",
    ]
)
ENDS = (b'"response.completed"', b'"response.incomplete"')
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=10), LINE_ENDS, st.lists(st.integers(0, 6000)), st.booleans())
def test_all_chunkings_agree(events: list[bytes], line_end: bytes, cuts: list[int], clean: bool) -> None:
    stream = b"".join(with_one_end(events)).replace(b"\r\n", b"\n").replace(b"\n", line_end)
    whole, pieces = run(stream, clean=clean), run(*reads(stream, cuts), clean=clean)
    assert same(pieces[0], whole[0])
    assert pieces[3] == whole[3]


def with_one_end(events: list[bytes]) -> list[bytes]:
    """Anything may follow an end but for another one and more output."""
    end = next((number for number, event in enumerate(events) if any(end in event for end in ENDS)), len(events))
    more = [event for event in events[end + 1 :] if not any(key in event for key in (*ENDS, b'"delta"'))]
    return events[: end + 1] + more


def same(one: Verdict, other: Verdict) -> bool:
    """Equal but for the bytes of an empty answer, of which the reads after its end are no part."""
    if isinstance(one, Failure) and isinstance(other, Failure) and one.kind is FailureClass.EMPTY:
        assert one.body is not None
        assert other.body is not None
        return one.kind == other.kind and other.body.startswith(one.body)
    return one == other


QUIET_OR_TALK = st.sampled_from([RED, BLUE, PART, ITEM_DONE, IN_PROGRESS, delta("response"), delta("error")])


@given(st.lists(QUIET_OR_TALK, max_size=60), st.sampled_from([COMPLETED, INCOMPLETE]), st.lists(st.integers(0, 20_000)))
def test_the_end_is_seen_with_its_last_byte_in_every_chunking(middle: list[bytes], end: bytes, cuts: list[int]) -> None:
    verdict, _, seen, ending = run(*reads(OPENING + RED + b"".join(middle) + end, cuts))
    assert verdict is ACCEPTED
    assert seen
    assert of(ending).failure is None


@given(st.lists(st.binary(max_size=60) | EVENTS, max_size=8), st.booleans())
def test_random_bytes_never_raise(pieces: list[bytes], clean: bool) -> None:
    verdict, _, _, ending = run(*pieces, clean=clean)
    assert isinstance(verdict, Accepted | Failure)
    assert (ending is not None) == (verdict is ACCEPTED)


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)))
def test_fields_of_any_type_never_raise(odd: Any) -> None:
    for kind in (*DELTAS, "response.completed", "response.failed", "error", "response.output_item.done"):
        for fields in (
            {"delta": odd, "item": odd, "response": odd, "error": odd},
            {"response": {"output": odd, "error": odd, "usage": odd, "status": odd}},
            {"item": {"type": odd, "content": odd}},
            {"item": {"type": "message", "content": odd}},
            {"response": {"output": [{"type": "reasoning", "summary": odd, "content": odd}]}},
        ):
            run(event(kind, **fields), RED, event(kind, **fields), COMPLETED)
