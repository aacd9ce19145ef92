"""Streams that break off anywhere and are continued: what the client reads is the text it had, then the rest of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.wire.anthropic_continue import MessageContinuation
from hedgerow.wire.anthropic_messages import AnthropicMessages
from hedgerow.wire.base import Protocol
from hedgerow.wire.chat_continue import ChatContinuation
from hedgerow.wire.continuing import Continuation, Form
from hedgerow.wire.openai_chat import OpenAIChat
from hedgerow.wire.sse import payloads

Pieces = Sequence[str]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\ufffd"), min_size=1, max_size=6)
PIECES = st.lists(TEXT, min_size=1, max_size=6)
ENDS = st.sampled_from([b"\n", b"\r\n"])
ASK = b'{"model":"m","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}'


def chat_event(end: bytes, /, **fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, ensure_ascii=False).encode() + end + end


def chat(pieces: Pieces, name: str = "c1", end: bytes = b"\n", finish: str = "stop") -> bytes:
    """A chat's stream: the role, the pieces, the finish, a usage."""
    head = {"id": name, "object": "chat.completion.chunk", "created": len(name), "model": name}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": each} for each in pieces), {}]
    reasons = [None] * (len(deltas) - 1) + [finish]
    events = [
        chat_event(end, **head, choices=[{"index": 0, "delta": delta, "finish_reason": reason}])
        for delta, reason in zip(deltas, reasons, strict=True)
    ]
    usage = {"prompt_tokens": 100, "completion_tokens": len(pieces), "total_tokens": 100 + len(pieces)}
    return b"".join((*events, chat_event(end, **head, choices=[], usage=usage), b"data: [DONE]" + end + end))


def named(end: bytes, kind: str, /, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, **fields}, ensure_ascii=False).encode()
    return b"event: " + kind.encode() + end + b"data: " + body + end + end


def message(pieces: Pieces, name: str = "m1", end: bytes = b"\n") -> bytes:
    """A message's stream of one text."""
    usage = {"input_tokens": 100, "output_tokens": 1}
    start = {"id": name, "type": "message", "role": "assistant", "model": name, "content": [], "usage": usage}
    block = {"type": "text", "text": ""}
    deltas = (named(end, "content_block_delta", index=0, delta={"type": "text_delta", "text": each}) for each in pieces)
    return b"".join(
        (
            named(end, "message_start", message=start),
            named(end, "content_block_start", index=0, content_block=block),
            named(end, "ping"),
            *deltas,
            named(end, "content_block_stop", index=0),
            named(end, "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": len(pieces)}),
            named(end, "message_stop"),
        )
    )


Write = Callable[..., bytes]
PROTOCOLS: list[tuple[Protocol, Write, Form]] = [
    (OpenAIChat(), chat, Form.FINAL_MESSAGE),
    (OpenAIChat(), chat, Form.PREFIX),
    (OpenAIChat(), chat, Form.PREFIX_ECHO),
    (AnthropicMessages(), message, Form.LAST_MESSAGE),
]


def told(protocol: Protocol, stream: bytes) -> str:
    return protocol.answer_so_far(stream).text


def in_pieces(take: Callable[[bytes], bytes], data: bytes, size: int) -> bytes:
    return b"".join(take(data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize(("protocol", "write", "form"), PROTOCOLS)
@given(before=PIECES, after=PIECES, cut=st.integers(0), size=st.integers(1, 80), end=ENDS)
def test_wherever_a_stream_is_cut_the_text_is_what_came_and_then_the_continuation(
    protocol: Protocol, write: Write, form: Form, before: Pieces, after: Pieces, cut: int, size: int, end: bytes
) -> None:
    whole = write(before, end=end)
    cut %= len(whole) + 1
    continuation = protocol.continuation()
    assert continuation is not None
    out = in_pieces(continuation.pass_on, whole[:cut], size)
    assert whole.startswith(out)
    prefix = continuation.prefix
    if prefix is None:
        return
    assert prefix == told(protocol, out)
    asked = continuation.request(ASK, form)
    if asked is None:
        assert form is Form.LAST_MESSAGE
        assert prefix != prefix.rstrip()
        return
    request = json.loads(asked)
    assert request["messages"][-1]["content"] == prefix
    assert request["messages"][:-1] == json.loads(ASK)["messages"]
    continuation.follow(form, usage=True)
    echo = [prefix] if form is Form.PREFIX_ECHO else []
    out += in_pieces(continuation.splice, write([*echo, *after], name="other", end=end), size)
    assert continuation.broken is None
    assert continuation.finished
    assert told(protocol, out) == prefix + "".join(after)
    document = json.loads(protocol.as_document(out))
    assert document["id"] == document["model"] == ("c1" if write is chat else "m1")


@given(before=PIECES, after=PIECES, cut=st.integers(0))
def test_a_spliced_chat_has_one_id_one_role_one_end_and_one_usage(before: Pieces, after: Pieces, cut: int) -> None:
    whole = chat(before)
    continuation = ChatContinuation()
    out = continuation.pass_on(whole[: cut % len(whole)])
    if continuation.prefix is None:
        return
    tokens = continuation.tokens
    continuation.follow(Form.FINAL_MESSAGE, usage=True)
    out += continuation.splice(chat(after, "other"))
    found = payloads(out)
    assert found[-1] == b"[DONE]"
    chunks = [json.loads(each) for each in found[:-1]]
    assert {(each["id"], each["created"], each["model"]) for each in chunks} == {("c1", 2, "c1")}
    choices = [choice for each in chunks for choice in each["choices"]]
    assert sum("role" in choice["delta"] for choice in choices) == 1
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    (usage,) = (each["usage"] for each in chunks if each.get("usage"))
    moved = min(tokens, 100)
    assert usage == {
        "prompt_tokens": 100 - moved,
        "completion_tokens": len(after) + moved,
        "total_tokens": 100 + len(after),
    }


def cut_after(write: Write, *pieces: str) -> tuple[Continuation, bytes]:
    """A stream that broke off when these pieces had come."""
    continuation: Continuation = ChatContinuation() if write is chat else MessageContinuation()
    whole = write([*pieces, "the rest"])
    end = whole.rindex(b"\n\n", 0, whole.index(b"the rest")) + 2
    return continuation, continuation.pass_on(whole[:end])


def test_a_usage_that_nobody_asked_for_is_not_told() -> None:
    continuation, _ = cut_after(chat, "a")
    continuation.follow(Form.FINAL_MESSAGE, usage=False)
    assert b"usage" not in continuation.splice(chat(["b"]))


def test_an_empty_continuation_ends_the_answer() -> None:
    for write, protocol, form in (
        (chat, OpenAIChat(), Form.FINAL_MESSAGE),
        (message, AnthropicMessages(), Form.LAST_MESSAGE),
    ):
        continuation, out = cut_after(write, "a")
        continuation.follow(form, usage=True)
        out += continuation.splice(write([]))
        assert continuation.finished
        document: Any = json.loads(protocol.as_document(out))
        assert told(protocol, out) == "a"
        assert document["id"] in ("c1", "m1")


@pytest.mark.parametrize("echoed", [["b"], ["a"], ["a", "x"], []])
def test_a_target_that_does_not_repeat_what_it_was_to_is_not_believed(echoed: list[str]) -> None:
    continuation, _ = cut_after(chat, "a", "b")
    continuation.follow(Form.PREFIX_ECHO, usage=True)
    assert continuation.splice(chat(echoed)).count(b'"content":"') == 0
    assert continuation.broken is not None


CHUNK = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


@pytest.mark.parametrize(
    "choice",
    [
        {"index": 1, "delta": {"content": "x"}},
        {"index": 0, "delta": {"content": "x"}, "logprobs": {"content": []}},
        {"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"name": "f"}}]}},
        {"index": 0, "delta": {"reasoning_content": "hm"}},
        {"index": 0, "delta": {"refusal": "no"}},
        {"index": 0, "delta": {"content": [{"type": "text", "text": "x"}]}},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
        {"index": 0, "delta": {"content": chr(0xD83D)}},
        {"index": 0, "delta": {"content": "\ufffd"}},
    ],
)
def test_what_is_not_plain_text_is_not_continued(choice: dict[str, Any]) -> None:
    continuation, _ = cut_after(chat, "a")
    continuation.pass_on(b"data: " + json.dumps({**CHUNK, "choices": [choice]}).encode() + b"\n\n")
    assert continuation.prefix is None
    assert continuation.request(ASK, Form.FINAL_MESSAGE) is None


def test_halves_of_a_character_in_two_events_are_one() -> None:
    continuation = ChatContinuation()
    for half in ("\ud83d", "\ude00"):
        choice = {"index": 0, "delta": {"content": half}}
        continuation.pass_on(b"data: " + json.dumps({**CHUNK, "choices": [choice]}).encode() + b"\n\n")
    assert continuation.prefix == "\U0001f600"


def test_bytes_that_are_no_text_cannot_be_repeated() -> None:
    continuation = ChatContinuation()
    continuation.pass_on(b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n')
    assert continuation.prefix is None


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"guided_json": {}, "structured_outputs": {"regex": "a+"}},
        {"messages": []},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so"}]},
    ],
)
def test_a_request_that_binds_its_answer_from_the_start_is_not_continued(fields: dict[str, Any]) -> None:
    continuation, _ = cut_after(chat, "a")
    assert continuation.request(ASK, Form.FINAL_MESSAGE) is not None
    assert continuation.request(json.dumps({**json.loads(ASK), **fields}).encode(), Form.FINAL_MESSAGE) is None


@pytest.mark.parametrize(
    ("form", "own", "message_own"),
    [
        (Form.FINAL_MESSAGE, {"continue_final_message": True, "add_generation_prompt": False}, {}),
        (Form.PREFIX, {}, {"prefix": True}),
        (Form.PREFIX_ECHO, {}, {"prefix": True}),
        (Form.LAST_MESSAGE, {}, {}),
    ],
)
def test_each_form_asks_in_its_own_words_and_changes_nothing_else(
    form: Form, own: dict[str, Any], message_own: dict[str, Any]
) -> None:
    body = b'{ "messages" : [ {"role":"user","content":"\xc3\xa9"} ] , "max_tokens":7, "model":"m","stop":["."]}'
    continuation, _ = cut_after(chat, "a", "b", "c")
    asked = continuation.request(body, form)
    assert asked is not None
    before = json.loads(body)
    assert json.loads(asked) == {
        **before,
        **own,
        "max_tokens": 4,
        "messages": [*before["messages"], {"role": "assistant", "content": "abc", **message_own}],
    }
    assert b'"content":"\xc3\xa9"' in asked


def test_there_is_always_a_token_left_to_ask_for() -> None:
    continuation, _ = cut_after(chat, *"abcdef")
    asked = continuation.request(ASK.replace(b'"max_tokens":50', b'"max_completion_tokens":3'), Form.PREFIX)
    assert asked is not None
    assert json.loads(asked)["max_completion_tokens"] == 1


@pytest.mark.parametrize("write", [chat, message])
def test_the_report_of_an_error_is_held_back_with_all_that_follows(write: Write) -> None:
    continuation, out = cut_after(write, "a")
    report = b'event: error\ndata: {"type":"error","error":{"message":"overloaded"}}\n\n'
    assert continuation.pass_on(report + write(["more"])) == b""
    assert b"overloaded" in continuation.unsaid
    assert b"overloaded" not in out
    assert continuation.prefix == "a"


@pytest.mark.parametrize(
    ("field", "value"), [("thinking", {"type": "enabled", "budget_tokens": 1024}), ("thinking", {"type": "adaptive"})]
)
def test_a_claude_that_thinks_is_not_continued(field: str, value: object) -> None:
    continuation, _ = cut_after(message, "a")
    assert continuation.request(ASK, Form.LAST_MESSAGE) is not None
    assert continuation.request(ASK, Form.FINAL_MESSAGE) is None
    assert continuation.request(json.dumps({**json.loads(ASK), field: value}).encode(), Form.LAST_MESSAGE) is None


def test_a_messages_tool_use_comes_after_the_text_that_was_begun() -> None:
    continuation, out = cut_after(message, "a")
    continuation.follow(Form.LAST_MESSAGE, usage=True)
    tool = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    out += continuation.splice(
        named(b"\n", "message_start", message={"id": "other"})
        + named(b"\n", "content_block_start", index=0, content_block=tool)
        + named(b"\n", "content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{}"})
        + named(b"\n", "content_block_stop", index=0)
        + named(b"\n", "message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5})
        + named(b"\n", "message_stop")
    )
    document = json.loads(AnthropicMessages().as_document(out))
    assert [block["type"] for block in document["content"]] == ["text", "tool_use"]
    assert document["content"][0]["text"] == "a"
    assert document["usage"]["output_tokens"] == 6
