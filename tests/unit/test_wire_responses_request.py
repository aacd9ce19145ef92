"""What a Responses request says about itself, how it is edited, and how errors of ours look."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import RequestError
from hedgerow.events import Failure, FailureClass
from hedgerow.wire.base import Facts
from tests.unit.responses_support import RESPONSES

TARGET = b"/v1/responses"


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "fast", "input": "Name two colours.", "store": False, **fields}).encode()


FREE = Facts("fast", False)
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}
MCP = {"type": "mcp", "server_label": "s", "server_url": "https://s"}


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, FREE),
        ({"stream": True}, Facts("fast", True)),
        ({"store": None}, Facts("fast", False, needs=("store",))),
        ({"max_output_tokens": 5.5}, FREE),
        ({"max_output_tokens": 50}, Facts("fast", False, None, 50)),
        ({"max_output_tokens": None, "tools": None, "stream": None, "background": None, "prompt": None}, FREE),
        ({"previous_response_id": None, "conversation": None, "background": False}, FREE),
        ({"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low"}, "unknown": [1]}, FREE),
        ({"tools": [FUNCTION, {"type": "custom", "name": "g"}]}, FREE),
        ({"tools": [{"type": "local_shell"}, {"type": "apply_patch"}]}, FREE),
        ({"tools": [{"type": "shell", "environment": {"type": "local"}}]}, FREE),
        ({"tools": [{"type": "tool_search", "execution": "client", "parameters": {}}]}, FREE),
        ({"tools": [{"type": "namespace", "name": "crm", "tools": [FUNCTION]}]}, FREE),
        ({"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, "hosted tool 'shell'"),
        ({"tools": [{"type": "shell"}]}, "hosted tool 'shell'"),
        ({"tools": [{"type": "tool_search"}]}, "hosted tool 'tool_search'"),
        ({"tools": [{"type": "namespace", "tools": [FUNCTION, MCP]}]}, "hosted tool 'namespace'"),
        ({"tools": [{"type": "namespace"}]}, "hosted tool 'namespace'"),
        ({"tools": [FUNCTION, {"type": "web_search"}]}, "hosted tool 'web_search'"),
        *[
            ({"tools": [{"type": kind}]}, f"hosted tool '{kind}'")
            for kind in (
                "web_search_preview",
                "file_search",
                "code_interpreter",
                "computer",
                "computer_use_preview",
                "mcp",
                "image_generation",
                "programmatic_tool_calling",
                "to_come",
            )
        ],
        ({"tools": [{"type": "x\nforged line é"}]}, r"hosted tool 'x\nforged line \xe9'"),
        ({"tools": [{"name": "f"}]}, "a tool of unknown type"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"store": True}, "store"),
        ({"plugins": [{"id": "web"}]}, "plugins"),
        ({"prompt": {"id": "pmpt_1"}}, "stored prompt"),
    ],
)
def test_the_facts_of_a_request(fields: dict[str, Any], facts: Facts | str) -> None:
    expected = facts if isinstance(facts, Facts) else Facts("fast", False, facts)
    assert RESPONSES.facts(TARGET, body(**fields)) == expected


def test_a_response_is_stored_unless_the_request_says_no() -> None:
    facts = RESPONSES.facts(TARGET, b'{"model":"fast","input":"Hi"}')
    assert facts == Facts("fast", False, needs=("store",))
    assert RESPONSES.facts(TARGET, b'{"model":"fast","input":"Hi","store":true}') == Facts("fast", False, "store")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"role": "user", "content": "item_reference"}, None),
        ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}, None),
        ({"type": "function_call_output", "call_id": "c", "output": "{}"}, None),
        ({"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "t", "input_schema": {}}]}, None),
        ({"type": "additional_tools", "role": "developer", "tools": [FUNCTION]}, None),
        ({"type": "tool_search_output", "tools": []}, None),
        ({"type": "additional_tools", "role": "developer", "tools": [FUNCTION, MCP]}, "hosted tool 'mcp'"),
        ({"type": "tool_search_output", "tools": [MCP]}, "hosted tool 'mcp'"),
        ({"type": "to_come", "tools": {"odd": 1}}, "a tool of unknown type"),
        ({"type": "item_reference", "id": "msg_1"}, "item_reference"),
        ({"id": "msg_1"}, "item_reference"),
        ({"id": "msg_1", "type": None}, "item_reference"),
        ({"id": "msg_1", "role": "assistant", "content": "x"}, None),
        ({"type": "to_come", "tools": ["\ud800"]}, "a tool of unknown type"),
        ("odd", None),
        (1, None),
        (None, None),
        ([], None),
    ],
)
def test_input_items_may_bring_tools_and_point_at_what_is_stored(item: Any, why: str | None) -> None:
    assert RESPONSES.facts(TARGET, body(input=[item])) == Facts("fast", False, why)


@pytest.mark.parametrize("odd", ["text", None, 1.5, True, {"a": 1}, []])
def test_an_input_of_any_shape_is_left_for_the_upstream_to_judge(odd: Any) -> None:
    assert RESPONSES.facts(TARGET, body(input=odd)) == FREE


@pytest.mark.parametrize(
    ("raw", "message", "param", "code"),
    [
        (b"", "We could not parse the JSON body of your request: it is not valid JSON.", None, None),
        (b"[1]", "Invalid JSON body: expected an object, but got an array instead.", None, None),
        (b"{}", "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        (b'{"prompt":{"id":"p"}}', "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        (
            b'{"model":"x","stream":1}',
            "Invalid type for 'stream': expected a boolean, but got an integer instead.",
            "stream",
            "invalid_type",
        ),
        (
            b'{"model":"x","store":"no"}',
            "Invalid type for 'store': expected a boolean, but got a string instead.",
            "store",
            "invalid_type",
        ),
        (
            b'{"model":"x","model":"y"}',
            "Duplicate keys in the JSON body: 'model' and 'stream' may occur once only.",
            None,
            None,
        ),
    ],
)
def test_a_bad_request_is_refused_as_openai_would(
    raw: bytes, message: str, param: str | None, code: str | None
) -> None:
    with pytest.raises(RequestError) as caught:
        RESPONSES.facts(TARGET, raw)
    told = caught.value
    assert (told.status, told.message, told.param, told.code) == (400, message, param, code)


@pytest.mark.parametrize("odd", [b'"broken \\ud83d emoji"', b"NaN", b'"\xff"', b'{"model":"deep","stream":1}'])
def test_what_only_strict_parsers_refuse_passes_with_its_bytes(odd: bytes) -> None:
    raw = b'{"input":[' + odd + b'],"model":"fast","store":false,"tools":[{"type":"mcp","x":{}}],"stream":true}'
    facts = RESPONSES.facts(TARGET, raw)
    assert facts == Facts("fast", True, "hosted tool 'mcp'")
    assert RESPONSES.rewrite(raw, facts, "gpt") == raw.replace(b'"fast"', b'"gpt"')


@pytest.mark.parametrize("model", [None, "fast"])
def test_a_body_of_which_nothing_changes_is_the_same_object(model: str | None) -> None:
    raw = body(stream=True)
    assert RESPONSES.rewrite(raw, RESPONSES.facts(TARGET, raw), model, usage=True, stream=True) is raw


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b'{"model":"fast","input":"x"}', b'{"stream":true,"model":"gpt","input":"x"}'),
        (b'{"model":"fast","stream":false,"input":[]}', b'{"model":"gpt","stream":true,"input":[]}'),
        (b'{ "stream" : null, "model":"fast" }', b'{ "stream" : true, "model":"gpt" }'),
    ],
)
def test_a_whole_answer_can_be_asked_for_as_a_stream(raw: bytes, sent: bytes) -> None:
    facts = RESPONSES.facts(TARGET, raw)
    assert RESPONSES.rewrite(raw, facts, "gpt", stream=True) == sent
    assert RESPONSES.facts(TARGET, sent).stream


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_random_bytes_are_refused_and_never_raise_otherwise(raw: bytes) -> None:
    for attempt in (raw, b'{"model":"x","input":' + raw + b"}", b'{"model":"x","tools":[{"type":' + raw + b"}]}"):
        with suppress(RequestError):
            RESPONSES.facts(TARGET, attempt)


@pytest.mark.parametrize("depth", [100, 400, 900, 100_000])
def test_nested_tools_never_raise(depth: int) -> None:
    raw = b'{"model":"x","tools":[' + b'{"type":"namespace","tools":[' * depth + b"]}" * depth + b"]}"
    with suppress(RequestError):
        assert RESPONSES.facts(TARGET, raw).forbids_hedge == "hosted tool 'namespace'"


def test_errors_of_our_own_have_the_shape_of_the_api() -> None:
    told = json.loads(RESPONSES.error_body(400, "No.", kind="invalid_request_error", code="c", param="n"))
    assert told == {"error": {"message": "No.", "type": "invalid_request_error", "param": "n", "code": "c"}}
    frame = RESPONSES.error_frame(Failure(FailureClass.TIMEOUT_STALL, "silent for 10 s"))
    assert frame == (
        b'event: error\ndata: {"type":"error","sequence_number":0,"code":"timeout_stall","message":"silent for 10 s",'
        b'"param":null,"error":{"type":"upstream_error","code":"timeout_stall","message":"silent for 10 s",'
        b'"param":null}}\n\n'
    )
