"""Responses and streams of any making, converted: the meaning stays, and nothing else than `ValueError` is raised."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass
from hedgerow.wire.base import ACCEPTED, Facts
from tests.unit.responses_support import (
    COMPLETED,
    RESPONSES,
    SSE,
    call,
    event,
    message,
    reasoning,
    response,
    usage,
)
from tests.unit.test_wire_responses_convert import CUSTOM, accumulated, parsed

TEXT = st.text(max_size=8)
ITEMS = st.one_of(
    st.builds(message, TEXT, TEXT),
    st.builds(call, TEXT),
    st.builds(reasoning, TEXT),
    st.builds(lambda text: CUSTOM | {"input": text}, TEXT),
)
ODD = st.recursive(
    st.none() | st.booleans() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "content"]), inner),
)


@given(st.lists(ITEMS, max_size=4), st.sampled_from([None, 2]), st.sampled_from(["completed", "incomplete"]))
def test_a_stream_made_of_a_response_means_the_same(
    output: list[dict[str, Any]], indent: int | None, status: str
) -> None:
    items = [item | {"id": f"i{number}", "call_id": f"c{number}"} for number, item in enumerate(output)]
    whole = response(status, items, usage=usage(12, 2))
    stream = RESPONSES.as_stream(json.dumps(whole, indent=indent).encode())
    assert json.loads(RESPONSES.as_document(stream)) == whole
    reading = RESPONSES.scanner(Facts("m", True), SSE)
    verdict = reading.feed(stream)
    if verdict is ACCEPTED:
        assert reading.watch(b"")
        assert reading.ending(True).failure is None
    else:
        assert isinstance(verdict, Failure)
        assert verdict.kind is FailureClass.EMPTY
    if status == "completed":
        assert accumulated(stream) == parsed(json.dumps(whole).encode())


def test_no_depth_of_nesting_escapes() -> None:
    for depth in range(100, 1_000, 3):
        with suppress(ValueError):
            RESPONSES.as_stream(b'{"output":[' + b"[" * depth + b"]" * depth + b'],"x":0}')
        with suppress(ValueError):
            RESPONSES.as_stream(b'{"output":[],"x":' + b"[" * depth + b"]" * depth + b"}")


@given(ODD, st.binary(max_size=40))
def test_nothing_but_a_value_error_escapes(odd: Any, raw: bytes) -> None:
    item = {"type": "message", "content": odd, "id": odd, "status": odd}
    for whole in (odd, {"output": odd}, {"output": [odd]}, {"output": [item, {"type": odd, "summary": odd}]}):
        for document in (json.dumps(whole).encode(), json.dumps(whole).encode() + raw, raw):
            with suppress(ValueError):
                RESPONSES.as_document(RESPONSES.as_stream(document))
            with suppress(ValueError):
                RESPONSES.as_document(document)
    with suppress(ValueError):
        RESPONSES.as_document(event("response.output_item.done", item=odd, output_index=odd) + COMPLETED)
