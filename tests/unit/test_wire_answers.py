"""What gates see of answers, protocol by protocol, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hedgerow.answer import Answer, Finish
from hedgerow.wire import JSON_ENDPOINT, PROTOCOLS, lookup
from hedgerow.wire.base import Protocol
from tests.unit import anthropic_support as a
from tests.unit import chat_support as c
from tests.unit import gemini_support as g
from tests.unit import responses_support as r

CHAT = lookup(b"POST", b"/v1/chat/completions")
TEXT = lookup(b"POST", b"/v1/completions")
RESPONSES = lookup(b"POST", b"/v1/responses")
MESSAGES = lookup(b"POST", b"/v1/messages")
GEMINI = lookup(b"POST", b"/v1beta/models/g:generateContent")
EMBEDDINGS = lookup(b"POST", b"/v1/embeddings")
STOP, LENGTH, CALLS, FILTER = Finish.STOP, Finish.LENGTH, Finish.TOOL_CALLS, Finish.CONTENT_FILTER
REFUSAL, OTHER = Finish.REFUSAL, Finish.OTHER
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

BESIDE = {
    "prompt_tokens": 12,
    "completion_tokens": 4,
    "total_tokens": 19,
    "completion_tokens_details": {"reasoning_tokens": 3},
}
"""As xAI has it: reasoning is not in the completion."""


def chat(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}).encode()


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        (chat({"content": "Red"}), Answer("Red", STOP)),
        (chat({"content": "Red"}, "length"), Answer("Red", LENGTH)),
        (chat({"content": "Red", "reasoning_content": "hm"}), Answer("Red", STOP)),
        (chat({"content": None, "tool_calls": [CALL]}, "tool_calls"), Answer("", CALLS, tool_calls=True)),
        (chat({"content": None, "tool_calls": [CALL]}, "stop"), Answer("", CALLS, tool_calls=True)),
        (chat({"function_call": {"name": "f"}}, "function_call"), Answer("", CALLS, tool_calls=True)),
        (chat({"content": "Re", "tool_calls": []}, "content_filter"), Answer("Re", FILTER)),
        (chat({"content": None, "refusal": "I can't."}), Answer("", REFUSAL, "I can't.")),
        (chat({"content": "Well", "refusal": "I can't."}), Answer("Well", STOP, "I can't.")),
        (chat({"content": "", "refusal": ""}), Answer("", STOP)),
        (chat({"content": "Red"}, "eos_token"), Answer("Red", OTHER)),
        (chat({"content": "Red"}, None), Answer("Red", OTHER)),
        (chat({"content": [{"type": "thinking"}, {"type": "text", "text": "Red"}]}), Answer("Red", STOP)),
        (chat({"content": None, "audio": {"data": "A", "transcript": "Red"}}), Answer("Red", STOP, media=True)),
        (chat({"content": "", "images": [{}]}), Answer("", STOP, media=True)),
        (chat({"content": "Red"}, usage=c.TOKENS), Answer("Red", STOP, output_tokens=1)),
        (chat({"content": "Red"}, usage={"completion_tokens": 4}), Answer("Red", STOP, output_tokens=4)),
        (chat({"content": "Red"}, usage=BESIDE), Answer("Red", STOP, output_tokens=4)),
        (b"\xef\xbb\xbf" + chat({"content": "Red"}), Answer("Red", STOP)),
        (b'{"choices":[{"message":{"content":"\\ud83d"},"finish_reason":"stop"}]}', Answer("\ufffd", STOP)),
    ],
)
def test_a_chat(document: bytes, answer: Answer) -> None:
    assert CHAT.answer(document) == answer


def test_every_choice_is_an_answer_and_tokens_that_they_share_are_nobodys() -> None:
    choices = [
        {"index": 1, "message": {"content": "b"}, "finish_reason": "length"},
        {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"},
    ]
    whole = json.dumps({"choices": choices, "usage": c.TOKENS}).encode()
    assert CHAT.answer(whole) == Answer("a", STOP, others=(Answer("b", LENGTH),))


def test_a_text_completion() -> None:
    choice = {"index": 0, "text": "Red", "finish_reason": "length"}
    whole = json.dumps({"choices": [choice], "usage": {"completion_tokens": 2}}).encode()
    assert TEXT.answer(whole) == Answer("Red", LENGTH, output_tokens=2)
    streamed = c.stream([{"choices": [{"text": "Re"}]}, {"choices": [{"text": "d", "finish_reason": "length"}]}])
    assert TEXT.answer_so_far(streamed) == Answer("Red", LENGTH)


REFUSED = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r.FINAL, Answer("Red and blue", STOP, output_tokens=2)),
        (r.response("completed", [r.message("Red ", "and blue")]), Answer("Red and blue", STOP)),
        (r.response("completed", [r.reasoning("hm"), r.message("Red")]), Answer("Red", STOP)),
        (r.response("completed", [r.call()]), Answer("", CALLS, tool_calls=True)),
        (r.response("completed", [REFUSED]), Answer("", REFUSAL, "No.")),
        (r.response("completed", [{"type": "image_generation_call"}]), Answer("", STOP, media=True)),
        (r.response("completed", [], usage=r.usage(1, 9, reasoning=7)), Answer("", STOP, output_tokens=2)),
        (r.response("incomplete", [], incomplete_details={"reason": "max_output_tokens"}), Answer("", LENGTH)),
        (r.response("incomplete", [], incomplete_details={"reason": "content_filter"}), Answer("", FILTER)),
        (r.response("incomplete", [], incomplete_details={"reason": "steered"}), Answer("", OTHER)),
        (r.response("failed", []), Answer("", OTHER)),
    ],
)
def test_a_response(response: dict[str, Any], answer: Answer) -> None:
    assert RESPONSES.answer(json.dumps(response).encode()) == answer


def message(content: list[dict[str, Any]], reason: str | None = "end_turn", **more: Any) -> bytes:
    return json.dumps({"type": "message", "content": content, "stop_reason": reason, **more}).encode()


SAID = {"type": "text", "text": "Red"}


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        (message([SAID]), Answer("Red", STOP)),
        (message([SAID, {"type": "thinking", "thinking": "hm"}, SAID]), Answer("RedRed", STOP)),
        (message([SAID], "stop_sequence"), Answer("Red", STOP)),
        (message([SAID], "max_tokens"), Answer("Red", LENGTH)),
        (message([SAID], "model_context_window_exceeded"), Answer("Red", LENGTH)),
        (message([{"type": "tool_use"}], "tool_use"), Answer("", CALLS, tool_calls=True)),
        (message([{"type": "server_tool_use"}, SAID]), Answer("Red", STOP)),
        (message([SAID], "pause_turn"), Answer("Red", OTHER)),
        (message([SAID], None), Answer("Red", OTHER)),
        (message([SAID], "refusal"), Answer("Red", REFUSAL, "")),
        (message([], "refusal", stop_details={"explanation": "bio"}), Answer("", REFUSAL, "bio")),
        (message([], "end_turn", stop_details={"explanation": "?"}), Answer("", STOP)),
        (message([SAID], usage={"output_tokens": 4}), Answer("Red", STOP, output_tokens=4)),
    ],
)
def test_a_message(document: bytes, answer: Answer) -> None:
    assert MESSAGES.answer(document) == answer


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        (g.answer([{"text": "Red"}], "STOP"), Answer("Red", STOP)),
        (g.answer([{"text": "hm", "thought": True}, {"text": "Re"}, {"text": "d"}], "STOP"), Answer("Red", STOP)),
        (g.answer([{"text": "Red"}], "MAX_TOKENS"), Answer("Red", LENGTH)),
        (g.answer([{"functionCall": {"name": "f"}}], "STOP"), Answer("", CALLS, tool_calls=True)),
        (g.answer([{"inlineData": {}}], "STOP"), Answer("", STOP, media=True)),
        (g.answer([{"text": "R", "thoughtSignature": "s"}], "STOP"), Answer("R", STOP)),
        (g.answer(None, "SAFETY"), Answer("", FILTER)),
        (g.answer(None, "IMAGE_SAFETY"), Answer("", FILTER)),
        (g.answer(None, "MALFORMED_FUNCTION_CALL"), Answer("", OTHER)),
        (g.answer([{"text": "Red"}]), Answer("Red", OTHER)),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, Answer("", FILTER)),
        (g.answer([{"text": "Red"}], "STOP", usageMetadata=g.usage(9, 4)), Answer("Red", STOP, output_tokens=4)),
    ],
)
def test_an_answer_of_gemini(document: dict[str, Any], answer: Answer) -> None:
    assert GEMINI.answer(json.dumps(document).encode()) == answer


def test_the_body_is_the_text_of_endpoints_without_one() -> None:
    body = '{"data":[{"embedding":[1.0]}], "ü": 1}'.encode()
    assert EMBEDDINGS.answer(body) == JSON_ENDPOINT.answer(b"\xef\xbb\xbf" + body) == Answer(body.decode())
    assert JSON_ENDPOINT.answer(b"\xff\xfb\x90") == Answer("")
    assert JSON_ENDPOINT.answer_so_far(body[:-6]) == Answer('{"data":[{"embedding":[1.0]}], "', complete=False)
    assert JSON_ENDPOINT.answer_so_far(b"\xff\xfb\x90abc") == Answer("", complete=False)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("document", [b"", b"null", b"[]", b"3", b'"x"', b"{}", b"[" * 100_000, b'{"a":' * 100_000])
def test_strange_documents_hold_no_text_that_a_model_said(protocol: Protocol, document: bytes) -> None:
    answer = protocol.answer(document)
    assert answer.complete
    assert answer.text in ("", document.decode())
    protocol.answer_so_far(document)


class TestTheStartOfAStream:
    @pytest.mark.parametrize(
        ("protocol", "pieces", "answer"),
        [
            (CHAT, [c.stream([c.piece({"content": "Re"})], b"")], Answer("Re")),
            (CHAT, [c.stream([c.piece({"content": "Red"}, "stop")], b"")], Answer("Red", STOP)),
            (CHAT, [c.stream([c.piece({"refusal": "I ca"})], b"")], Answer("", None, "I ca")),
            (CHAT, [c.stream([c.piece(c.call(0, id="x"))], b"")], Answer("", tool_calls=True)),
            (CHAT, [c.stream([c.piece({"content": "Re"})], b'data: {"choices":[{"delta":{"con')], Answer("Re")),
            (CHAT, [c.stream([c.piece({"content": "Re"})], b'data: {"error":{"message":"x"}}\n\n')], Answer("Re")),
            (RESPONSES, [r.OPENING, r.RED], Answer("Red ")),
            (RESPONSES, [r.OPENING, r.delta("No", "response.refusal.delta")], Answer("", None, "No")),
            (RESPONSES, [r.CREATED, r.added(r.call())], Answer("", tool_calls=True)),
            (MESSAGES, [a.START, a.THINKING, a.HM], Answer("")),
            (MESSAGES, [a.START, a.TEXT, a.RED], Answer("Red")),
            (MESSAGES, [a.START, a.TEXT, a.RED, a.BLOCK_END, a.stopped("refusal")], Answer("Red", REFUSAL, "")),
            (MESSAGES, [a.START, a.block("tool_use", id="t", name="f", input={})], Answer("", tool_calls=True)),
            (GEMINI, [g.RED, g.BLUE], Answer("Red and blue")),
            (GEMINI, [b'[{"candidates":[{"content":{"parts":[{"text":"Red"}]}}]},\r\n{"cand'], Answer("Red")),
        ],
    )
    def test_it_is_not_complete(self, protocol: Protocol, pieces: list[bytes], answer: Answer) -> None:
        found = protocol.answer_so_far(b"".join(pieces))
        assert not found.complete
        assert (found.text, found.finish, found.refusal, found.tool_calls) == (
            answer.text,
            answer.finish,
            answer.refusal,
            answer.tool_calls,
        )

    def test_characters_are_counted_as_they_come(self) -> None:
        for protocol, pieces in (
            (CHAT, [c.stream([c.piece({"content": "Rüd "})], b""), c.stream([c.piece({"content": "and blu"})])]),
            (MESSAGES, [a.START, a.TEXT, a.delta("text_delta", text="Rüd and blu"), a.BLOCK_END, a.STOP, a.END]),
            (RESPONSES, [r.OPENING, r.delta("Rüd"), r.delta(" and blu")]),
            (GEMINI, [g.chunk("Rüd "), g.chunk("and blu")]),
            (JSON_ENDPOINT, ["Rü".encode()[:2], "Rü".encode()[2:] + b"d and blu"]),
        ):
            reading = protocol.reading()
            for piece in pieces:
                reading.feed(piece)
            assert (reading.chars, len(reading.answer().text)) == (11, 11), protocol.name

    def test_a_response_is_what_its_last_event_says_not_the_deltas(self) -> None:
        reading = RESPONSES.reading()
        for piece in (r.OPENING, r.delta("Rad "), r.ITEM_DONE, r.COMPLETED):
            reading.feed(piece)
        assert reading.answer() == Answer("Red and blue", STOP, output_tokens=2)
        assert reading.chars == 12

    def test_more_of_gemini_may_follow_a_finish(self) -> None:
        reading = GEMINI.reading()
        reading.feed(g.chunk("Red", "STOP"))
        assert reading.answer() == Answer("Red", STOP)
        reading.feed(g.chunk("", "STOP", usageMetadata=g.usage(9, 4)))
        assert reading.answer() == Answer("Red", STOP, output_tokens=4)
