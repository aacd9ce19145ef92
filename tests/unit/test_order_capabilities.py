"""What requests need, in every protocol's words, and which targets can do it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hedgerow.policy.ask import Ask
from hedgerow.policy.capabilities import capabilities_of, nobody_can
from hedgerow.policy.health import Health
from hedgerow.policy.keys import keys_of
from hedgerow.policy.lineup import Lineup
from hedgerow.policy.plan import Candidate
from hedgerow.policy.quota import Quota
from hedgerow.wire.needs import JSON_SCHEMA, TOOLS, VISION, needs_of, text_tokens

DATA = "data:image/png;base64," + "iVBORw0KGgo" * 200
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}


def user(*parts: Any) -> list[Any]:
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    ("needs", "body"),
    [
        ([], {"messages": user({"type": "text", "text": "an image_url of an image"})}),
        ([], {"messages": [{"role": "user", "content": "image"}], "tools": [], "response_format": {"type": "text"}}),
        ([], {"messages": user(), "response_format": {"type": "json_object"}, "text": {"format": {"type": "text"}}}),
        ([TOOLS], {"tools": [{"type": "function", "function": {"name": "image"}}]}),
        ([TOOLS], {"functions": [{"name": "f"}]}),
        ([VISION], {"messages": user({"type": "image_url", "image_url": {"url": DATA}})}),
        ([VISION], {"input": user({"type": "input_image", "image_url": DATA})}),
        ([VISION], {"input": [{"output": {"type": "computer_screenshot", "image_url": DATA}}]}),
        ([VISION], {"messages": user({"type": "image", "source": {"type": "base64", "data": DATA}})}),
        ([VISION], {"messages": user({"type": "tool_result", "content": [{"type": "image", "source": {}}]})}),
        ([VISION], {"contents": [{"parts": [{"text": "what?"}, {"inlineData": {"mimeType": "image/png"}}]}]}),
        ([VISION], {"contents": {"parts": {"inline_data": {"mime_type": "image/webp", "data": DATA}}}}),
        ([], {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav"}}, {"text": "image"}]}]}),
        ([JSON_SCHEMA], {"response_format": SCHEMA}),
        ([JSON_SCHEMA], {"text": {"format": SCHEMA}}),
        ([JSON_SCHEMA], {"output_format": {"type": "json_schema", "schema": {}}}),
        ([JSON_SCHEMA], {"output_config": {"format": {"type": "json_schema"}}}),
        ([JSON_SCHEMA], {"generationConfig": {"responseSchema": {"type": "OBJECT"}}}),
        ([JSON_SCHEMA], {"generation_config": {"response_json_schema": {}}}),
        ([JSON_SCHEMA, TOOLS], {"tools": [{}], "response_format": SCHEMA, "messages": 7, "text": "?"}),
    ],
)
def test_what_a_request_needs(needs: list[str], body: dict[str, Any]) -> None:
    assert sorted(needs_of(json.dumps(body).encode())) == needs


@pytest.mark.parametrize("body", [b"", b"[]", b"q=image", b'{"messages":"\\ud800', b'{"messages":' + b"[" * 5_000])
def test_of_what_is_no_request_nothing_is_needed(body: bytes) -> None:
    assert needs_of(body) == frozenset()


def test_images_are_no_text() -> None:
    text = json.dumps({"messages": user({"type": "text", "text": "word " * 800})}).encode()
    image = json.dumps({"messages": user({"type": "image_url", "image_url": {"url": DATA}})}).encode()
    assert (text_tokens(text), text_tokens(image) < 50) == (len(text) // 4, True)


CALL = {"type": "tool_use", "name": "f", "input": {"data": DATA, "url": DATA}}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": user({"type": "image_url", "image_url": {"url": DATA, "detail": "low"}})},
        {"messages": user({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}})},
        {"messages": user({"type": "file", "file": {"filename": "x.pdf", "file_data": DATA}})},
        {"messages": user({"type": "video_url", "video_url": {"url": DATA}})},
        {
            "messages": [
                {"role": "assistant", "content": "", "images": [{"type": "image_url", "image_url": {"url": DATA}}]}
            ]
        },
        {"input": user({"type": "input_image", "image_url": DATA}, {"type": "input_file", "file_data": DATA})},
        {"input": [{"type": "image_generation_call", "id": "i", "result": DATA}]},
        {"input": [{"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": DATA}}]},
        {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": DATA}]}]},
        {"messages": user({"type": "document", "source": {"type": "base64", "data": DATA}})},
        {"messages": user({"type": "tool_result", "content": [{"type": "image", "source": {"data": DATA}}]})},
        {
            "messages": user(
                {
                    "type": "document",
                    "source": {"type": "content", "content": [{"type": "image", "source": {"data": DATA}}]},
                }
            )
        },
        {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": DATA}}]}]},
        {"contents": {"parts": {"inline_data": {"mime_type": "image/webp", "data": DATA}}}},
        {"contents": [{"parts": [{"functionResponse": {"parts": [{"inlineData": {"data": DATA}}]}}]}]},
    ],
)
def test_images_sounds_and_files_take_no_tokens_of_text(body: dict[str, Any]) -> None:
    assert text_tokens(json.dumps(body).encode()) < 80
    assert text_tokens(json.dumps(body | {"user": "\ud800"}).encode()) < 80  # which only strict parsers refuse


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": DATA}]},
        {"messages": user({"type": "text", "text": json.dumps({"image_url": {"url": DATA}})})},
        {"messages": [{"role": "tool", "content": DATA}]},
        {"messages": user(CALL)},
        {"messages": user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": DATA}})},
        {"input": DATA},
        {"input": [DATA, DATA]},
        {"input": [{"type": "function_call_output", "output": DATA}]},
        {"system": DATA, "messages": []},
        {"contents": [{"parts": [{"text": DATA}]}]},
    ],
)
def test_text_without_blanks_is_text(body: dict[str, Any]) -> None:
    sent = json.dumps(body).encode()
    assert text_tokens(sent) == len(sent) // 4
    assert text_tokens(sent[:-1]) == len(sent[:-1]) // 4  # and of what is no request all is


def target(name: str, *lacks: str, room: int | None = None, keys: int = 1) -> list[Candidate]:
    return [
        Candidate(name, f"{name}{key}", key=key if keys > 1 else 0, lacks=frozenset(lacks), max_context=room)
        for key in range(1, keys + 1)
    ]


def asked(candidates: list[Candidate], *needs: str, context: int = 0) -> str:
    """Who may be asked, in order."""
    health, quota = Health(), Quota()
    keys, capabilities = keys_of(candidates, health, quota), capabilities_of(candidates)
    assert capabilities is not None
    lineup = Lineup(candidates, health, None, keys=keys, capabilities=capabilities)
    order = lineup.order(Ask("r", True, needs=frozenset(needs), context=context), 0.0)
    return " ".join(candidates[index].account for index in (*order.usable, *order.spare))


BLIND = [*target("a", VISION, TOOLS), *target("b", VISION), *target("c")]


@pytest.mark.parametrize(
    ("needs", "expected"), [([], "a1 b1 c1"), ([TOOLS], "b1 c1"), ([VISION], "c1"), ([JSON_SCHEMA], "a1 b1 c1")]
)
def test_only_those_are_asked_that_can_answer(needs: list[str], expected: str) -> None:
    assert asked(BLIND, *needs) == expected


def test_no_key_of_a_target_that_cannot_answer_is_tried() -> None:
    candidates = [*target("a", VISION, keys=3), *target("b", keys=2)]
    assert asked(candidates, VISION) == "b1 b2"
    assert sorted(asked(candidates).split()) == ["a1", "a2", "a3", "b1", "b2"]


@pytest.mark.parametrize(
    ("context", "expected"),
    [(8_000, "a1 b1 c1"), (8_001, "b1 c1"), (100_001, "c1"), (10**6, "c1")],
)
def test_a_long_request_goes_where_there_is_room(context: int, expected: str) -> None:
    assert asked([*target("a", room=8_000), *target("b", room=100_000), *target("c")], context=context) == expected


def test_with_room_nowhere_the_roomiest_is_to_say_so() -> None:
    assert asked([*target("a", room=8_000), *target("b", room=100_000)], context=200_000) == "b1"
    assert asked([*target("a", room=8_000), *target("b", VISION, room=100_000)], VISION, context=9_000) == "a1"


def test_why_nobody_can() -> None:
    assert nobody_can(BLIND, frozenset({VISION})) is None
    assert nobody_can(BLIND[:2], frozenset({VISION, TOOLS})) == "a has no tools and no vision; b has no vision"
    split = [*target("a", VISION), *target("b", TOOLS)]
    assert nobody_can(split, frozenset({VISION, TOOLS})) == "a has no vision; b has no tools"
    assert capabilities_of(target("a")) is None
