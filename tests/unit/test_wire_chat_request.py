"""What a chat request says about itself, and how a bad one is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import RequestError
from hedgerow.events import Failure, FailureClass
from hedgerow.wire import lookup
from hedgerow.wire.base import Facts

CHAT = lookup(b"POST", b"/v1/chat/completions")


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "fast", "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, Facts("fast", False)),
        ({"stream": True}, Facts("fast", True, wants_usage=False)),
        ({"stream": True, "stream_options": {"include_usage": True}}, Facts("fast", True)),
        *[
            ({"stream": True, "stream_options": options}, Facts("fast", True, wants_usage=False))
            for options in (None, {}, {"include_usage": None}, {"include_usage": False}, {"include_usage": 1}, "odd")
        ],
        ({"stream_options": {"include_usage": False}}, Facts("fast", False)),
        ({"stream": None, "max_tokens": None, "tools": None, "n": None, "store": None}, Facts("fast", False)),
        ({"max_tokens": 5}, Facts("fast", False, None, 5)),
        ({"max_tokens": 5, "max_completion_tokens": 7}, Facts("fast", False, None, 7)),
        ({"unknown": {"deep": [1]}, "temperature": "warm"}, Facts("fast", False)),
        ({"n": 1.0}, Facts("fast", False)),
        ({"n": 1, "store": False, "modalities": ["text"]}, Facts("fast", False)),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, Facts("fast", False)),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, Facts("fast", False)),
        ({"tools": [{"function": {"name": "f"}}]}, Facts("fast", False)),
        ({"functions": [{"name": "f"}]}, Facts("fast", False)),
        ({"tools": [{"type": "function"}, {"type": "web_search_preview"}]}, "hosted tool 'web_search_preview'"),
        ({"tools": [{"type": "mcp"}]}, "hosted tool 'mcp'"),
        ({"tools": [{"type": "x\nforged line é"}]}, r"hosted tool 'x\nforged line \xe9'"),
        ({"tools": [{"google_search": {}}]}, "a tool of unknown type"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"plugins": [{"id": "web"}]}, "plugins"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"search_parameters": {"mode": "auto"}}, "search_parameters"),
        ({"search_parameters": {}}, "search_parameters"),
        ({"search_parameters": {"mode": "off"}}, Facts("fast", False)),
        ({"n": 2}, Facts("fast", False, needs=("n",))),
        ({"n": 2.0}, Facts("fast", False, needs=("n",))),
        ({"modalities": ["text", "audio"]}, Facts("fast", False, needs=("audio",))),
        ({"audio": {"voice": "x"}, "n": 3}, Facts("fast", False, needs=("n", "audio"))),
    ],
)
def test_the_facts_of_a_request(fields: dict[str, Any], facts: Facts | str) -> None:
    expected = facts if isinstance(facts, Facts) else Facts("fast", False, facts)
    expected = msgspec.structs.replace(expected, has_options="stream_options" in fields)
    assert CHAT.facts(b"/v1/chat/completions", body(**fields)) == expected


@pytest.mark.parametrize(
    ("raw", "message", "param", "code"),
    [
        (b"", "We could not parse the JSON body of your request: it is not valid JSON.", None, None),
        (b'{"model":"x"', "We could not parse the JSON body of your request: it is not valid JSON.", None, None),
        (
            b'{"a":' + b"[" * 200_000,
            "We could not parse the JSON body of your request: it is not valid JSON.",
            None,
            None,
        ),
        (b"[1]", "Invalid JSON body: expected an object, but got an array instead.", None, None),
        (b"{}", "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        (b'{"model":null}', "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        (
            b'{"model":["x"]}',
            "Invalid type for 'model': expected a string, but got an array instead.",
            "model",
            "invalid_type",
        ),
        (
            b'{"model":"x","stream":"yes"}',
            "Invalid type for 'stream': expected a boolean, but got a string instead.",
            "stream",
            "invalid_type",
        ),
        (
            b'{"model":"x","n":"2"}',
            "Invalid type for 'n': expected an integer or a decimal, but got a string instead.",
            "n",
            "invalid_type",
        ),
        (
            b'{"model":"x","tools":[{"type":1}]}',
            "Invalid type for 'tools[0].type': expected a string, but got an integer instead.",
            "tools[0].type",
            "invalid_type",
        ),
        (
            b'{"model":"x","a":"\\ud83d","max_tokens":"5"}',
            "Invalid type for 'max_tokens': expected an integer or a decimal, but got a string instead.",
            "max_tokens",
            "invalid_type",
        ),
        (b'{"model":"\\ud83d"}', "Invalid value for 'model': it holds a lone surrogate.", "model", "invalid_value"),
        *[
            (raw, "Duplicate keys in the JSON body: 'model' and 'stream' may occur once only.", None, None)
            for raw in (
                b'{"model":"cheap","model":"expensive","stream":true,"messages":[]}',
                b'{"model":"cheap","mod\\u0065l":"expensive"}',
                b'{"model":"x","stream":true,"a":{"model":"y"},"stream":false}',
                b'{"model":"cheap","a":"\\ud83d","model":"expensive"}',
            )
        ],
    ],
)
def test_a_bad_request_is_refused_as_openai_would(
    raw: bytes, message: str, param: str | None, code: str | None
) -> None:
    with pytest.raises(RequestError) as caught:
        CHAT.facts(b"/v1/chat/completions", raw)
    assert (caught.value.status, caught.value.message) == (400, message)
    assert (caught.value.param, caught.value.code) == (param, code)


@pytest.mark.parametrize("odd", [b'"broken \\ud83d emoji"', b"NaN", b'"\xff"', b'{"model":"deep","stream":1}'])
def test_what_only_strict_parsers_refuse_passes_with_its_bytes(odd: bytes) -> None:
    raw = b'{"model":"fast","stream":true,"messages":[' + odd + b"]}"
    facts = CHAT.facts(b"/v1/chat/completions", raw)
    assert facts == Facts("fast", True, wants_usage=False)
    renamed = raw.replace(b'"fast"', b'"gpt"')
    assert CHAT.rewrite(raw, facts, "gpt") == renamed
    asking = b'{"stream_options":{"include_usage":true},' + renamed[1:]
    assert CHAT.rewrite(raw, facts, "gpt", usage=True) == asking


def test_a_lone_surrogate_does_not_make_tools_unreadable() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}, {"function": {"name": "g"}}, {"type": "custom"}]
    raw = body(stream=True, tools=tools).replace(b"Hi", b"\\ud83d")
    assert b"\\ud83d" in raw
    assert CHAT.facts(b"/v1/chat/completions", raw) == Facts("fast", True, wants_usage=False)


@pytest.mark.parametrize("model", [None, "fast"])
def test_a_body_whose_model_stays_is_the_same_object(model: str | None) -> None:
    raw = body()
    assert CHAT.rewrite(raw, CHAT.facts(b"/v1/chat/completions", raw), model) is raw


@pytest.mark.parametrize(
    ("fields", "asking"),
    [
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        (
            {"stream": True, "stream_options": {"include_usage": False, "include_obfuscation": False}},
            {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
        ),
        ({"stream": True, "stream_options": None}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": None, "stream_options": None}, {"stream": True, "stream_options": {"include_usage": True}}),
    ],
)
@pytest.mark.parametrize("model", [None, "gpt"])
def test_a_stream_and_its_usage_are_asked_for_in_place(
    fields: dict[str, Any], asking: dict[str, Any], model: str | None
) -> None:
    raw = body(**fields)
    rewritten = CHAT.rewrite(raw, CHAT.facts(b"", raw), model, usage=True, stream=True)
    assert json.loads(rewritten) == json.loads(body(**asking)) | {"model": model or "fast"}


def test_a_client_that_asks_for_usage_itself_keeps_its_body() -> None:
    raw = body(stream=True, stream_options={"include_usage": True})
    assert CHAT.rewrite(raw, CHAT.facts(b"", raw), None, usage=True, stream=True) is raw


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_random_bytes_are_refused_and_never_raise_otherwise(raw: bytes) -> None:
    for attempt in (raw, b'{"model":"x","a":' + raw + b"}", b'{"model":' + raw + b"}"):
        with suppress(RequestError):
            CHAT.facts(b"/v1/chat/completions", attempt)


@pytest.mark.parametrize("raw", [b'"\\ud800"', b'{"model":"x","tools":"\\ud800"}', b'{"model":"x","n":"\\ud800"}'])
def test_a_lone_surrogate_where_no_text_belongs_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError, match="lone surrogate") as caught:
        CHAT.facts(b"/v1/chat/completions", raw)
    assert caught.value.status == 400


def test_what_can_be_done_with_a_chat_is_said() -> None:
    assert CHAT.asks_for_usage
    assert CHAT.converts


def test_errors_of_our_own_have_openais_shape_and_no_end_marker() -> None:
    told = json.loads(CHAT.error_body(400, "No.", kind="invalid_request_error", code="c", param="n"))
    assert told == {"error": {"message": "No.", "type": "invalid_request_error", "param": "n", "code": "c"}}
    frame = CHAT.error_frame(Failure(FailureClass.TIMEOUT_STALL, "silent for 10 s"))
    assert frame == (
        b'data: {"error":{"message":"silent for 10 s","type":"upstream_error","param":null,"code":"timeout_stall"}}\n\n'
    )


def test_other_endpoints_and_methods_are_passed_through() -> None:
    assert lookup(b"POST", b"/v1/chat/completions?x=1") is CHAT
    for method, path in ((b"GET", b"/v1/chat/completions"), (b"POST", b"/v1/batches"), (b"DELETE", b"/v1/files/f")):
        assert lookup(method, path).name == "http.passthrough"
