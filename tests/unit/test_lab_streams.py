"""The events of a stream in each protocol, one by one, for a text and for a tool call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.lab_support import EXACT, Bench, Client, in_lab

MESSAGES = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}, "city": {"type": "string"}}}
ARGUMENTS = '{"city":"lab A hedge"}'
PIECES = ['{"city":"lab', " A", ' hedge"}']


def answered(path: str, body: dict[str, Any], script: dict[str, Any] = EXACT) -> Client:
    found: list[Client] = []
    in_lab(lambda bench: bench.post(path, body, script), then=lambda _, client: found.append(client))
    return found[0]


def message(**more: Any) -> Client:
    return answered("/v1/messages", {"model": "m", "messages": MESSAGES, "max_tokens": 9, **more})


def response(**more: Any) -> Client:
    return answered("/v1/responses", {"model": "m", "input": "hi", **more})


def chat(**more: Any) -> Client:
    return answered("/v1/chat/completions", {"model": "m", "messages": MESSAGES, **more})


def gemini(method: str, **more: Any) -> Client:
    return answered(f"/v1beta/models/m:{method}", {"contents": MESSAGES, **more})


def test_a_message() -> None:
    client = message(stream=True)
    names, events = zip(*client.frames(), strict=True)
    assert list(names) == [event["type"] for event in events]
    whole = message().json
    assert whole.pop("content") == [{"type": "text", "text": "lab A hedge"}]
    assert whole["usage"]["output_tokens"] == 3
    seed = {**whole["usage"], "output_tokens": 1}
    assert list(events) == [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": seed}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
            for text in ("lab", " A", " hedge")
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]
    assert client.answer_headers[b"request-id"] == b"req-lab-0"
    assert b"x-request-id" not in client.answer_headers


CLAUDE_TOOLS = {"tools": [{"name": "other"}, {"name": "weather", "input_schema": SCHEMA}]}


def test_a_messages_tool_use_names_its_tool_with_the_first_token() -> None:
    asked = {**CLAUDE_TOOLS, "tool_choice": {"type": "tool", "name": "weather"}}
    client = message(stream=True, **asked)
    opening = client.writes[0][1]
    assert b"message_start" in opening
    assert b"content_block_start" not in opening
    events = [event for _, event in client.frames()]
    block = {"type": "tool_use", "id": "toolu-msg-lab-0", "name": "weather", "input": {}}
    assert events[2] == {"type": "content_block_start", "index": 0, "content_block": block}
    pieces = [event["delta"]["partial_json"] for event in events[3:7]]
    assert pieces == ["", *PIECES]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    whole = message(**asked).json
    assert whole["content"] == [{**block, "input": json.loads(ARGUMENTS)}]
    assert whole["stop_reason"] == "tool_use"


def test_any_tool_is_the_first() -> None:
    [block] = message(**CLAUDE_TOOLS, tool_choice={"type": "any"}).json["content"]
    assert (block["name"], block["input"]) == ("other", {"text": "lab A hedge"})


def test_a_response() -> None:
    names, events = zip(*response(stream=True).frames(), strict=True)
    assert list(names) == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [name.removeprefix("response.") for name in names] == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *["output_text.delta"] * 3,
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    whole = response().json
    assert events[-1]["response"] == whole
    [item] = whole["output"]
    [part] = item["content"]
    assert events[2]["item"] == {**item, "status": "in_progress", "content": []}
    assert events[3]["part"] == {**part, "text": ""}
    assert events[8]["part"] == part
    assert events[9]["item"] == item
    assert part["text"] == events[7]["text"] == "lab A hedge"
    assert events[0]["response"] == {**whole, "status": "in_progress", "output": [], "usage": None}
    places = {(event["item_id"], event["output_index"], event["content_index"]) for event in events[3:9]}
    assert places == {(item["id"], 0, 0)}


def test_a_response_at_its_limit_is_incomplete() -> None:
    names, events = zip(*response(stream=True, max_output_tokens=3).frames(), strict=True)
    assert names[-1] == "response.incomplete"
    assert events[-1]["response"]["status"] == "incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert events[-1]["response"]["usage"]["output_tokens"] == 3


def test_a_responses_function_call_is_named_with_the_first_token() -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "weather", "parameters": SCHEMA}]
    asked: dict[str, Any] = {"tools": tools, "tool_choice": "required"}
    client = response(stream=True, **asked)
    assert b"weather" not in client.writes[0][1].replace(json.dumps(tools).encode(), b"")
    names, events = zip(*client.frames(), strict=True)
    assert [name.removeprefix("response.") for name in names] == [
        *("created", "in_progress", "output_item.added"),
        *["function_call_arguments.delta"] * 3,
        *("function_call_arguments.done", "output_item.done", "completed"),
    ]
    whole = response(**asked).json
    [item] = whole["output"]
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "weather", ARGUMENTS)
    assert events[2]["item"] == {**item, "status": "in_progress", "arguments": ""}
    assert [event["delta"] for event in events[3:6]] == PIECES
    assert events[6]["arguments"] == ARGUMENTS
    assert events[-1]["response"] == whole
    assert (whole["tools"], whole["tool_choice"]) == (tools, "required")


def test_a_chats_tool_call_is_named_with_the_first_token() -> None:
    function = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    named = {"type": "function", "function": {"name": "weather"}}
    client = chat(stream=True, tools=[function], tool_choice=named)
    deltas = [event["choices"][0]["delta"] for _, event in client.events()[:-1]]
    opening, first, *others, last = deltas
    assert (opening, last) == ({"role": "assistant", "content": None}, {})
    call = {"id": "call-chatcmpl-lab-0", "type": "function", "function": {"name": "weather", "arguments": ""}}
    assert first == {"tool_calls": [{"index": 0, **call}]}
    assert others == [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in PIECES]
    [choice] = chat(tools=[function], tool_choice="required").json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [{**call, "function": {"name": "weather", "arguments": ARGUMENTS}}]


GOOGLE_TOOLS = {
    "tools": [
        {"googleSearch": {}},
        {"functionDeclarations": [{"name": "other"}, {"name": "weather", "parameters": SCHEMA}]},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
}


def test_gemini_streams_running_totals_with_crlf_and_no_end_marker() -> None:
    client = gemini("streamGenerateContent?alt=sse")
    assert client.text.count(b"\r\n\r\n") == 5
    assert client.text.count(b"\n") == 10
    frames = [frame for _, frame in client.frames()]
    assert [frame["usageMetadata"]["candidatesTokenCount"] for frame in frames] == [0, 1, 2, 3, 3]
    assert "candidates" not in frames[0]
    texts = [frame["candidates"][0]["content"]["parts"][0]["text"] for frame in frames[1:]]
    assert texts == ["lab", " A", " hedge", ""]
    assert [frame["candidates"][0].get("finishReason") for frame in frames[1:]] == [None, None, None, "STOP"]
    whole = gemini("generateContent").json
    assert whole["candidates"][0]["content"] == {"parts": [{"text": "lab A hedge"}], "role": "model"}
    assert (whole["usageMetadata"], whole["modelVersion"]) == (frames[-1]["usageMetadata"], "m")


def test_gemini_streams_an_array_without_alt_sse() -> None:
    client = gemini("streamGenerateContent")
    assert client.answer_headers[b"content-type"] == b"application/json"
    events = gemini("streamGenerateContent?alt=sse")
    assert client.json == [frame for _, frame in events.frames()]


def test_a_gemini_function_call_comes_whole_with_the_first_token() -> None:
    call = {"functionCall": {"name": "weather", "args": json.loads(ARGUMENTS)}}
    frames = [frame for _, frame in gemini("streamGenerateContent?alt=sse", **GOOGLE_TOOLS).frames()]
    assert frames[1]["candidates"][0]["content"]["parts"] == [call]
    assert [set(frame) & {"candidates"} for frame in frames[2:4]] == [set(), set()]
    assert frames[4]["candidates"][0]["finishReason"] == "STOP"
    assert gemini("generateContent", **GOOGLE_TOOLS).json["candidates"][0]["content"]["parts"] == [call]


def test_google_sdks_of_either_version_and_escaped_models_are_understood() -> None:
    client = answered("/v1/models/a%2Fb:generateContent", {"contents": []})
    assert client.json["modelVersion"] == "a/b"


@pytest.mark.parametrize("ask", [message, response, chat], ids=lambda ask: ask.__name__)
def test_a_tool_that_is_only_offered_is_not_called(ask: Callable[..., Client]) -> None:
    function = {"name": "weather"}
    tool = {"type": "function", "function": function} if ask is chat else {"type": "function", **function}
    choice: Any = {"type": "auto"} if ask is message else "auto"
    assert b"lab A hedge" in ask(tools=[tool], tool_choice=choice).text
    assert b"lab A hedge" in ask(tools=[tool]).text


@pytest.mark.parametrize(
    ("ask", "choice", "said"),
    [
        (message, {"type": "tool", "name": "x"}, "the tool 'x'"),
        (response, {"type": "function", "name": "x"}, "the tool 'x'"),
        (chat, {"type": "function", "function": {"name": "x"}}, "the tool 'x'"),
        (message, {"type": "any"}, "a tool"),
        (response, "required", "a tool"),
    ],
)
def test_insisting_on_a_tool_that_is_not_there_is_refused(ask: Callable[..., Client], choice: Any, said: str) -> None:
    client = ask(tool_choice=choice)
    assert client.status == 400
    assert client.json["error"]["message"] == f"tool_choice asks for {said}, which tools do not offer"


def test_a_tool_call_without_tokens_is_no_call() -> None:
    function = {"type": "function", "name": "weather"}
    nothing = EXACT | {"tokens": 0}
    body = {"model": "m", "input": "hi", "tools": [function], "tool_choice": "required", "stream": True}
    names = [name for name, _ in answered("/v1/responses", body, nothing).frames()]
    assert names == ["response.created", "response.in_progress", "response.completed"]
    body = {"model": "m", "messages": [], "max_tokens": 9, "tools": [{"name": "w"}], "tool_choice": {"type": "any"}}
    names = [name for name, _ in answered("/v1/messages", body | {"stream": True}, nothing).frames()]
    assert names == ["message_start", "ping", "message_delta", "message_stop"]


def test_completions_say_their_usage_when_asked() -> None:
    def then(_: Bench, client: Client) -> None:
        frames = [frame for _, frame in client.frames()]
        assert [frame["choices"][0]["text"] for frame in frames[:-2]] == ["", "lab", " A", " hedge", ""]
        assert frames[-3]["choices"][0]["finish_reason"] == "stop"
        assert frames[-2]["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
        assert frames[-1] is None

    body = {"model": "m", "prompt": "hi", "stream": True, "stream_options": {"include_usage": True}}
    in_lab(lambda bench: bench.post("/v1/completions", body, EXACT), then=then)
