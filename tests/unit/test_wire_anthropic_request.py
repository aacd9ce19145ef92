"""What an Anthropic request says about itself, the edits in its body, and errors of our own."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import RequestError
from hedgerow.events import Failure
from hedgerow.events import FailureClass as Kind
from hedgerow.wire.base import Facts
from hedgerow.wire.failures import classify
from tests.unit.anthropic_support import MESSAGES, RED, START, TEXT, final_message

TARGET = b"/v1/messages"


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "fast", "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()


def tool(kind: str) -> dict[str, Any]:
    return {"tools": [{"name": "look", "input_schema": {}}, {"type": kind, "name": "x"}]}


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, Facts("fast", False)),
        ({"stream": True, "max_tokens": 5}, Facts("fast", True, None, 5)),
        ({"stream": None, "tools": None, "mcp_servers": [], "container": None}, Facts("fast", False)),
        ({"unknown": {"deep": [1]}, "temperature": "warm", "thinking": {"type": "adaptive"}}, Facts("fast", False)),
        ({"metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"}}, Facts("fast", False)),
        *[
            (tool(kind), Facts("fast", False))
            for kind in (
                "custom",
                "bash_20241022",
                "bash_20250124",
                "text_editor_20250728",
                "memory_20250818",
            )
        ],
        *[
            (tool(kind), f"hosted tool {kind!r}")
            for kind in (
                "web_search_20250305",
                "web_search_20260318",
                "web_fetch_20260318",
                "code_execution_20260521",
                "bash_code_execution_20260521",
                "computer_20251124",
                "computer_toolset_20260801",
                "browser_toolset_20260801",
                "tool_search_tool_bm25_20251119",
                "advisor_20260301",
                "mcp_toolset",
                "of_tomorrow",
                "memory_20250818\nforged line",
            )
        ],
        ({"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}, "mcp_servers"),
        ({"container": "container_1"}, "container"),
        ({"container": {"skills": []}}, "container"),
        ({"thread": {"type": "create"}}, "thread"),
        ({"fallback_credit_token": "t"}, "fallback_credit_token"),
        (
            {"system": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {}}}]},
            "a tool defined in the messages",
        ),
    ],
)
def test_the_facts_of_a_request(fields: dict[str, Any], facts: Facts | str) -> None:
    expected = facts if isinstance(facts, Facts) else Facts("fast", False, facts)
    assert MESSAGES.facts(TARGET, body(**fields)) == expected


def test_warming_the_prompt_cache_is_not_done_twice() -> None:
    facts = MESSAGES.facts(TARGET, body(max_tokens=0))
    assert facts == Facts("fast", False, "max_tokens 0 (writes the prompt cache)", 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[1]",
        b"{}",
        b'{"model":null}',
        b'{"model":"x","stream":"yes"}',
        b'{"model":"x","max_tokens":"5"}',
        b'{"model":"x","tools":[{"type":1}]}',
        b'{"model":"cheap","model":"expensive"}',
    ],
)
def test_a_bad_request_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        MESSAGES.facts(TARGET, raw)
    assert caught.value.status == 400


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_random_bytes_are_refused_and_never_raise_otherwise(raw: bytes) -> None:
    for attempt in (raw, b'{"model":"x","a":' + raw + b"}", b'{"tools":' + raw + b"}"):
        with suppress(RequestError):
            MESSAGES.facts(TARGET, attempt)


@pytest.mark.parametrize(
    ("model", "stream", "changed"),
    [
        ("c-p", False, b'{"max_tokens":1e1, "model":"c-p","stream":false,"messages":[{"model":"fast"}]}'),
        ("c-p", True, b'{"max_tokens":1e1, "model":"c-p","stream":true,"messages":[{"model":"fast"}]}'),
        (None, True, b'{"max_tokens":1e1, "model":"fast","stream":true,"messages":[{"model":"fast"}]}'),
        ("fast", True, b'{"max_tokens":1e1, "model":"fast","stream":true,"messages":[{"model":"fast"}]}'),
    ],
)
def test_model_and_stream_are_set_and_not_one_other_byte(model: str | None, stream: bool, changed: bytes) -> None:
    raw = b'{"max_tokens":1e1, "model":"fast","stream":false,"messages":[{"model":"fast"}]}'
    assert MESSAGES.rewrite(raw, MESSAGES.facts(TARGET, raw), model, stream=stream) == changed


@pytest.mark.parametrize("model", [None, "fast"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_body_in_which_nothing_changes_is_the_same_object(model: str | None, stream: bool) -> None:
    raw = body(stream=stream)
    assert MESSAGES.rewrite(raw, MESSAGES.facts(TARGET, raw), model, stream=stream) is raw


@pytest.mark.parametrize(
    ("status", "told", "kind"),
    [
        (429, {"type": "rate_limit_error", "message": "slow"}, Kind.RATE_LIMITED),
        (
            429,
            {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}},
            Kind.QUOTA_EXHAUSTED,
        ),
        (
            429,
            {"type": "rate_limit_error", "details": {"error_code": "contract_spend_limit_reached"}},
            Kind.QUOTA_EXHAUSTED,
        ),
        (
            429,
            {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}},
            Kind.RATE_LIMITED,
        ),
        (429, {"type": "rate_limit_error", "details": ["x"]}, Kind.RATE_LIMITED),
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            },
            Kind.QUOTA_EXHAUSTED,
        ),
        (
            400,
            {"type": "invalid_request_error", "message": "So: Your credit balance is too low"},
            Kind.FATAL_REQUEST,
        ),
        (529, {"type": "overloaded_error", "message": "Overloaded"}, Kind.OVERLOADED),
        (500, {"type": "api_error", "message": "Overloaded"}, Kind.OVERLOADED),
        (504, {"type": "timeout_error", "message": "late"}, Kind.SERVER_ERROR),
    ],
)
def test_an_error_answer_has_its_class(status: int, told: dict[str, Any], kind: Kind) -> None:
    answer = json.dumps({"type": "error", "error": told, "request_id": "req_1"}).encode()
    assert classify(status, [], answer).kind is kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (409, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (502, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_of_our_own_have_anthropics_shape(status: int, kind: str) -> None:
    told = json.loads(MESSAGES.error_body(status, "No.", kind="server_error", code="c", param="n"))
    assert told == {"type": "error", "error": {"type": kind, "message": "No."}}


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(Kind.TIMEOUT_STALL, "silent"), "timeout_error"),
        (Failure(Kind.TIMEOUT_TOTAL, "late"), "timeout_error"),
        (Failure(Kind.PROTOCOL, "cut"), "api_error"),
        (Failure(Kind.CONNECT, "gone"), "api_error"),
        (Failure(Kind.OVERLOADED, "busy", 503), "overloaded_error"),
        (Failure(Kind.RATE_LIMITED, "slow", 503), "rate_limit_error"),
        (Failure(Kind.QUOTA_EXHAUSTED, "broke", 402), "billing_error"),
        (Failure(Kind.FATAL_REQUEST, "bad", 400), "invalid_request_error"),
    ],
)
def test_a_stream_that_broke_looks_broken_to_the_official_sdk(failure: Failure, kind: str) -> None:
    frame = MESSAGES.error_frame(failure)
    with pytest.raises(anthropic.APIStatusError) as caught:
        final_message(START + TEXT + RED + frame)
    assert caught.value.body == {"type": "error", "error": {"type": kind, "message": failure.message}}
    assert frame.startswith(b"event: error\ndata: ")
    assert b"message_stop" not in frame
