"""The first token of a streamed response: what counts as one, and what never does."""

from __future__ import annotations

import pytest

from hedgerow.events import FailureClass, Usage, UsageSource
from hedgerow.wire.base import ACCEPTED
from tests.unit.responses_support import (
    ADDED,
    COMPLETED,
    CREATED,
    IN_PROGRESS,
    INCOMPLETE,
    OPENING,
    PART,
    RED,
    added,
    call,
    delta,
    event,
    failed,
    finished,
    message,
    reasoning,
    response,
    run,
    scanner,
)


def image(payload: str) -> bytes:
    kind = "response.image_generation_call.partial_image"
    return event(kind, item_id="ig", output_index=0, partial_image_index=0, partial_image_b64=payload)


DELTAS = [
    f"response.{kind}.delta"
    for kind in (
        "output_text",
        "refusal",
        "function_call_arguments",
        "custom_tool_call_input",
        "mcp_call_arguments",
        "code_interpreter_call_code",
        "shell_call_command",
        "audio",
        "audio.transcript",
        "reasoning_text",
        "reasoning_summary_text",
    )
]
TOKENS = [
    *[delta("x", kind) for kind in DELTAS],
    image("iVBO"),
    added(call("", status="in_progress")),
    added({"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "g", "input": ""}),
    finished(message("Red and blue")),
    finished(message(content=[{"type": "refusal", "refusal": "No."}])),
    finished({"type": "local_shell_call", "id": "ls", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}),
    finished({"type": "mcp_approval_request", "id": "mr", "name": "t", "arguments": "{}", "server_label": "s"}),
    COMPLETED,
    INCOMPLETE,
    event("response.completed", response=response("completed", [call()])),
    event("response.completed", response=response("completed", [reasoning("Colours.")])),
    event("response.incomplete", response=response("incomplete", incomplete_details={"reason": "content_filter"})),
    RED.replace(b"Red ", b"\\ud83d"),
    RED.replace(b"\n", b"\r\n"),
    RED.replace(b": ", b":"),
    RED.replace(b'"logprobs":[]', b'"logprobs":[{"token":"x","logprob":NaN}]'),
    RED.partition(b"\n")[2],
    b'data: {"delta":"x",\ndata: "type":"response.output_text.delta"}\n\n',
]


@pytest.mark.parametrize("token", TOKENS)
def test_the_first_output_is_the_first_token(token: bytes) -> None:
    assert run(OPENING, token)[:2] == (ACCEPTED, token)


NO_TOKENS = [
    *[delta("", kind) for kind in DELTAS],
    CREATED,
    IN_PROGRESS,
    event("response.queued", response=response("queued")),
    ADDED,
    added(reasoning()),
    added({"type": "web_search_call", "id": "ws", "status": "in_progress"}),
    PART,
    event("response.reasoning_summary_part.added", part={"type": "summary_text", "text": ""}, summary_index=0),
    event("response.web_search_call.in_progress", item_id="ws"),
    event("response.web_search_call.searching", item_id="ws"),
    event("response.file_search_call.searching", item_id="fs"),
    event("response.code_interpreter_call.interpreting", item_id="ci"),
    event("response.image_generation_call.generating", item_id="ig"),
    event("response.compaction.compacting", item_id="cm"),
    event("response.output_text.annotation.added", annotation={"type": "file_path"}),
    event("response.to_come", delta="x"),
    finished({"type": "web_search_call", "id": "ws", "status": "completed"}),
    finished(reasoning("Colours.")),
    finished(message("")),
    image(""),
    delta("x", "response.shell_call_output_content.delta"),
    event("keepalive"),
    b"data: 1\n\n",
    b"data: []\n\n",
    b'data: {"type":1,"delta":"x"}\n\n',
    b"data: \n\n",
    b": OPENROUTER PROCESSING\n\n",
    b"event: ping\nid: 1\nretry: 10\n\n",
]


@pytest.mark.parametrize("quiet", NO_TOKENS)
def test_what_is_no_output_leaves_the_race_open(quiet: bytes) -> None:
    assert scanner().feed(quiet) is None
    assert run(quiet, quiet, RED)[:2] == (ACCEPTED, RED)


@pytest.mark.parametrize("kind", DELTAS)
def test_reasoning_counts_only_where_it_shall(kind: str) -> None:
    reading = scanner(reasoning_counts=False)
    assert reading.feed(OPENING) is None
    assert reading.feed(delta("Colours.", kind)) is (None if "reasoning" in kind else ACCEPTED)
    counted = 2 if "reasoning" in kind else 1  # of 8 characters; of one delta
    assert reading.ending(False).usage == Usage(output_tokens=counted, source=UsageSource.ESTIMATED)


def test_a_token_in_an_event_that_is_not_yet_complete_does_not_count() -> None:
    assert scanner().feed(RED[:-1]) is None
    assert failed(run(RED[:-1])[0]).kind is FailureClass.PROTOCOL
