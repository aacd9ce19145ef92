"""Response to stream and back: what the official SDK reads from either is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai
import pytest

from hedgerow.events import Failure, FailureClass
from tests.unit.responses_support import (
    COMPLETED,
    CREATED,
    CUT_SHORT,
    FINAL,
    FLAT,
    INCOMPLETE,
    ITEM_DONE,
    NESTED,
    OPENING,
    RED,
    RESPONSES,
    call,
    event,
    message,
    reasoning,
    response,
    usage,
)


@contextmanager
def sdk(body: bytes, content_type: str = "text/event-stream") -> Iterator[openai.OpenAI]:
    """The official client, to which every request is answered with this body."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": content_type}, content=body)

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        yield openai.OpenAI(api_key="sk-any", base_url="http://upstream/v1", max_retries=0, http_client=http)


def streamed(body: bytes) -> list[Any]:
    with sdk(body) as client, client.responses.stream(model="m", input="x") as events:
        return list(events)


def accumulated(body: bytes) -> Any:
    """What the SDK's accumulator makes of a stream."""
    with sdk(body) as client, client.responses.stream(model="m", input="x") as events:
        return plain(events.get_final_response().to_dict())


def parsed(body: bytes) -> Any:
    with sdk(body, "application/json") as client:
        return plain(client.responses.create(model="m", input="x").to_dict())


def plain(value: Any) -> Any:
    """Without what the SDK's parser adds."""
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items() if key not in ("parsed", "parsed_arguments")}
    return [plain(member) for member in value] if isinstance(value, list) else value


ANNOTATION = {"type": "url_citation", "start_index": 0, "end_index": 3, "title": "T", "url": "https://t"}
LOGPROB = {"token": "Red", "bytes": [82], "logprob": -0.5, "top_logprobs": []}
PARTS: list[dict[str, Any]] = [
    {"type": "output_text", "text": "Red [DONE] \u2028 \U0001f600", "annotations": [ANNOTATION], "logprobs": [LOGPROB]},
    {"type": "refusal", "refusal": "No."},
]
THOUGHTS = reasoning("Red?", "Blue?") | {
    "content": [{"type": "reasoning_text", "text": "hm"}],
    "encrypted_content": "gAAA",
    "status": "completed",
}
CUSTOM = {"id": "ct_1", "type": "custom_tool_call", "call_id": "call_2", "name": "g", "input": "raw"}
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
MCP = {"id": "mcp_1", "type": "mcp_call", "arguments": "{}", "name": "t", "server_label": "s", "output": "o"}
CODE: dict[str, Any] = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "1+1",
    "container_id": "c",
}
CODE |= {"outputs": [{"type": "logs", "logs": "2"}]}
IMAGE = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "iVBO"}
SHELL: dict[str, Any] = {"id": "ls_1", "type": "local_shell_call", "call_id": "c", "status": "completed"}
SHELL |= {"action": {"type": "exec", "command": ["ls"], "env": {}}}
OUTPUTS: list[list[dict[str, Any]]] = [
    [message("Red and blue")],
    [message("Red"), call(), call("{}", id="fc_2", call_id="call_2")],
    [THOUGHTS, message(content=PARTS)],
    [reasoning(), message("")],
    [SEARCH, MCP, CODE, IMAGE, SHELL, CUSTOM, message("x", id="msg_2")],
    [{key: value for key, value in call().items() if key != "id"}],
    [],
]


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_sdk_reads_the_same_from_a_response_and_from_its_stream(output: list[dict[str, Any]]) -> None:
    document = json.dumps(response("completed", output, usage=usage(12, 2), completed_at=1764500001)).encode()
    stream = RESPONSES.as_stream(document)
    assert RESPONSES.as_document(stream) == document
    assert accumulated(stream) == parsed(document)


def test_the_events_of_a_response_are_those_of_the_api() -> None:
    output = [THOUGHTS, message(content=PARTS), call()]
    document = json.dumps(response("completed", output, usage=usage(12, 2))).encode()
    events = streamed(RESPONSES.as_stream(document))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type.removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        *["reasoning_summary_part.added", "reasoning_summary_text.delta"],
        *["reasoning_summary_text.done", "reasoning_summary_part.done"],
        *["reasoning_summary_part.added", "reasoning_summary_text.delta"],
        *["reasoning_summary_text.done", "reasoning_summary_part.done"],
        *["content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"],
        "output_item.done",
        "output_item.added",
        *["content_part.added", "output_text.delta", "output_text.annotation.added"],
        *["output_text.done", "content_part.done"],
        *["content_part.added", "refusal.delta", "refusal.done", "content_part.done"],
        "output_item.done",
        "output_item.added",
        *["function_call_arguments.delta", "function_call_arguments.done"],
        "output_item.done",
        "completed",
    ]
    begun = events[0].response
    assert (begun.status, begun.output, begun.usage) == ("in_progress", [], None)
    assert [event.item.type for event in events if event.type.endswith("item.added")] == [
        "reasoning",
        "message",
        "function_call",
    ]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == PARTS[0]["text"]
    assert events[-1].response.output_text == PARTS[0]["text"]


def test_a_call_without_an_id_is_added_whole() -> None:
    document = json.dumps(response("completed", [OUTPUTS[5][0]])).encode()
    events = streamed(RESPONSES.as_stream(document))
    assert [event.type.removeprefix("response.") for event in events[2:-1]] == ["output_item.added", "output_item.done"]
    assert events[2].item.arguments == call()["arguments"]


def test_every_event_is_of_the_sdks_own_type() -> None:
    """The SDK takes what it is given; validated, each event is what its type promises."""
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for output in OUTPUTS:
        document = json.dumps(response("completed", output, usage=usage(12, 2))).encode()
        for block in RESPONSES.as_stream(document).split(b"\n\n")[:-1]:
            name, data = block.split(b"\n")
            event = json.loads(data.removeprefix(b"data: "))
            assert name == f"event: {event['type']}".encode()
            assert event.get("item_id", "?"), "openai-node wants one"
            if "id" in event.get("item", {"id": ""}):  # the types want an id that the API may leave out
                adapter.validate_python(event)


@pytest.mark.parametrize(
    ("stream", "document"),
    [
        (OPENING + RED + ITEM_DONE + COMPLETED, FINAL),
        (OPENING + RED + INCOMPLETE, CUT_SHORT),
        (b"\xef\xbb\xbf" + COMPLETED.partition(b"\n")[2].replace(b"\n", b"\r\n"), FINAL),
        (OPENING + COMPLETED + b"data: [DONE]\n\n", FINAL),
    ],
)
def test_the_document_of_a_stream_is_its_last_response(stream: bytes, document: dict[str, Any]) -> None:
    assert RESPONSES.as_document(stream) == json.dumps(document, separators=(",", ":")).encode()


def test_what_the_sdk_accumulates_is_the_document() -> None:
    stream = OPENING + RED + ITEM_DONE + COMPLETED
    assert accumulated(stream) == parsed(RESPONSES.as_document(stream))


def test_an_output_that_the_last_event_leaves_out_is_made_of_the_finished_items() -> None:
    first = event("response.output_item.done", output_index=0, item=reasoning("hm"))
    second = event("response.output_item.done", output_index=2, item=message("Red and blue"))
    final = FINAL | {"output": None}
    stream = CREATED + second + first + event("response.completed", response=final)
    document = RESPONSES.as_document(stream)
    assert json.loads(document) == final | {"output": [reasoning("hm"), message("Red and blue")]}
    assert accumulated(stream) == parsed(document)
    empty = CREATED + second + event("response.completed", response=FINAL | {"output": []})
    assert json.loads(RESPONSES.as_document(empty)) == final | {"output": [message("Red and blue")]}
    missing = {key: value for key, value in final.items() if key != "output"}
    lacking = CREATED + second + event("response.completed", response=missing)
    assert json.loads(RESPONSES.as_document(lacking)) == final | {"output": [message("Red and blue")]}


@pytest.mark.parametrize(("output", "filled"), [(None, [message("Red")]), ([call()], [call()])])
@pytest.mark.parametrize("odd", [b'"\\ud83d"', b"NaN"])
def test_only_a_missing_output_is_filled_in(output: Any, filled: list[dict[str, Any]], odd: bytes) -> None:
    item = event("response.output_item.done", output_index=0, item=message("Red"))
    final = event("response.completed", response=FINAL | {"output": output}).replace(b'"m-p"', odd)
    assert json.loads(RESPONSES.as_document(CREATED + item + final))["output"] == filled


@pytest.mark.parametrize("odd", [b'"\\ud83d"', b"NaN"])
def test_what_only_strict_parsers_refuse_is_converted_all_the_same(odd: bytes) -> None:
    document = json.dumps(FINAL).encode().replace(b'"m-p"', odd)
    assert (
        RESPONSES.as_document(RESPONSES.as_stream(document))
        == json.dumps(json.loads(document), separators=(",", ":")).encode()
    )


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        OPENING + RED,
        OPENING + COMPLETED[:-20],
        OPENING + FLAT,
        OPENING + FLAT + COMPLETED,
        OPENING + NESTED + COMPLETED,
        b'data: {broken "error"\n\n' + COMPLETED,
        event("response.completed", response=None),
        event("response.completed"),
        b'data: {"error":' + b"[" * 100_000 + b"\n\n",
    ],
)
def test_a_stream_that_is_not_whole_has_no_document(stream: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        RESPONSES.as_document(stream)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"output":[1]}',
        b'{"output":' + b"[" * 100_000,
        json.dumps(response("queued")).encode(),
        json.dumps(FINAL | {"error": {"code": "server_error"}}).encode(),
        json.dumps(response("failed", error={"code": "server_error", "message": "x"})).encode(),
    ],
)
def test_what_is_no_finished_response_has_no_stream(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        RESPONSES.as_stream(document)


def test_the_sdk_raises_what_an_error_of_ours_says() -> None:
    frame = RESPONSES.error_frame(Failure(FailureClass.TIMEOUT_STALL, "silent for 10 s"))
    with sdk(OPENING + RED + frame) as client:
        events = client.responses.create(model="m", input="x", stream=True)
        with pytest.raises(openai.APIError, match=r"^silent for 10 s$") as caught:
            list(events)
    assert (caught.value.code, caught.value.type, caught.value.param) == ("timeout_stall", "upstream_error", None)
