"""A stream and the one answer it amounts to: the same words, thoughts, calls, reasons and tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import FailureClass
from hedgerow.wire.base import ACCEPTED, Accepted
from tests.unit.gemini_support import EVENTS, GEMINI, OVERLOADED, answer, chunk, event, failed, of, run, usage

CALL = {"functionCall": {"name": "look", "args": {"q": "x"}}}
SIGNED = {"text": "", "thoughtSignature": "c2ln"}


def document(*chunks: dict[str, Any]) -> Any:
    return json.loads(GEMINI.as_document(b"".join(map(event, chunks))))


def test_pieces_of_text_become_one_and_the_last_report_counts() -> None:
    told = document(
        answer([{"text": ""}], usageMetadata=usage(10, 0), responseId="r"),
        answer([{"text": "Red "}], usageMetadata=usage(9, 1)),
        answer([{"text": "and blue"}], usageMetadata=usage(9, 3)),
        answer([{"text": ""}], "STOP", usageMetadata=usage(9, 4)),
    )
    assert told == answer([{"text": "Red and blue"}], "STOP", usageMetadata=usage(9, 4)) | {"responseId": "r"}


def test_thoughts_calls_and_signed_parts_stay_apart_and_in_order() -> None:
    told = document(
        answer([{"text": "wei", "thought": True}]),
        answer([{"text": "ghing", "thought": True}, {"text": "I "}]),
        answer([{"text": "look."}, CALL, {"text": "So"}]),
        answer([SIGNED, {"text": "!"}], "STOP"),
    )
    assert told["candidates"][0]["content"] == {
        "parts": [
            {"text": "weighing", "thought": True},
            {"text": "I look."},
            CALL,
            {"text": "So"},
            SIGNED,
            {"text": "!"},
        ],
        "role": "model",
    }


def test_candidates_are_told_apart_by_their_index() -> None:
    told = document(
        answer([{"text": "b1 "}], index=1),
        answer([{"text": "a1"}], "STOP", index=0),
        answer([{"text": "b2"}], "MAX_TOKENS", index=1),
    )
    texts = [(one["index"], one["content"]["parts"], one["finishReason"]) for one in told["candidates"]]
    assert texts == [(0, [{"text": "a1"}], "STOP"), (1, [{"text": "b1 b2"}], "MAX_TOKENS")]


def test_lists_that_every_chunk_continues_are_joined() -> None:
    def citing(text: str, uri: str, finish: str | None = None) -> dict[str, Any]:
        one = answer([{"text": text}], finish)
        one["candidates"][0]["citationMetadata"] = {"citationSources": [{"uri": uri}]}
        one["candidates"][0]["logprobsResult"] = {"chosenCandidates": [{"token": text}]}
        return one

    (told,) = document(citing("a", "u1"), citing("b", "u2", "STOP"))["candidates"]
    assert told["citationMetadata"] == {"citationSources": [{"uri": "u1"}, {"uri": "u2"}]}
    assert told["logprobsResult"] == {"chosenCandidates": [{"token": "a"}, {"token": "b"}]}


def test_a_refused_prompt_needs_no_finish_reason() -> None:
    refused = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage(9, 0)}
    assert document(refused) == refused


def test_an_array_amounts_to_the_same() -> None:
    chunks = [answer([{"text": "Red "}]), answer([{"text": "blue"}], "STOP")]
    array = json.dumps(chunks, indent=2).encode()
    assert json.loads(GEMINI.as_document(array)) == document(*chunks)
    assert GEMINI.as_document(GEMINI.as_stream(array)) == GEMINI.as_document(array)


def test_a_lone_surrogate_survives() -> None:
    stream = b'data: {"candidates":[{"content":{"parts":[{"text":"\\ud83d"}]},"finishReason":"STOP"}]}\n\n'
    (candidate,) = json.loads(GEMINI.as_document(stream))["candidates"]
    assert candidate["content"]["parts"] == [{"text": "\ud83d"}]


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"[]",
        b"data: {\n\n",
        b"data: 1\n\n",
        b'data: {"candidates":1}\n\n',
        b'data: {"candidates":[{"content":{"parts":1},"finishReason":"STOP"}]}\n\n',
        chunk("Red"),
        chunk("Red", "STOP") + OVERLOADED,
        chunk("Red", "STOP") + event({"error": {"code": 503}}),
        event(answer([{"text": "a"}], "STOP", index=0)) + event(answer([{"text": "b"}], index=1)),
        event(answer([{"functionCall": {"name": "f", "willContinue": True}}], "STOP")),
        event(answer([{"functionCall": {"partialArgs": [{"jsonPath": "$.q", "stringValue": "x"}]}}], "STOP")),
        OVERLOADED,
    ],
)
def test_what_is_not_whole_or_not_clear_amounts_to_nothing(stream: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        GEMINI.as_document(stream)


@pytest.mark.parametrize("body", [b"", b"{}", b"[", b"[]", OVERLOADED, json.dumps(answer([{"text": "a"}])).encode()])
def test_what_is_no_whole_answer_is_no_stream(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        GEMINI.as_stream(body)


@pytest.mark.parametrize("shape", ["object", "array"])
def test_a_document_instead_of_a_stream_is_delivered_as_the_stream(shape: str) -> None:
    chunks = [answer([{"text": "Red "}]), answer([{"text": "blue\u2028"}], "STOP", usageMetadata=usage(9, 4))]
    whole = document(*chunks)
    body = json.dumps(whole if shape == "object" else chunks, indent=2, ensure_ascii=False).encode()
    verdict, _, ending = run(body)
    assert isinstance(verdict, Accepted)
    assert verdict.instead is not None
    assert (of(ending).failure, of(ending).usage) == (None, run(event(chunks[1]))[2].usage)  # type: ignore[union-attr]
    again, _, ending = run(verdict.instead)
    assert (again, of(ending).failure) == (ACCEPTED, None)
    assert json.loads(GEMINI.as_document(verdict.instead)) == whole


def test_an_empty_document_is_delivered_as_a_stream_too_when_nobody_has_better() -> None:
    empty = answer([{"text": ""}], "STOP")
    failure = failed(run(json.dumps(empty).encode())[0])
    assert failure.kind is FailureClass.EMPTY
    assert failure.headers is not None
    assert failure.headers[0] == (b"content-type", b"text/event-stream; charset=utf-8")
    assert failure.body is not None
    assert document(empty) == json.loads(GEMINI.as_document(failure.body))


TEXT = st.text(max_size=6)
PARTS = st.one_of(
    st.fixed_dictionaries({"text": TEXT}),
    st.fixed_dictionaries({"text": TEXT, "thought": st.just(True)}),
    st.fixed_dictionaries({"text": TEXT, "thoughtSignature": st.just("c2ln")}),
    st.builds(lambda name, args: {"functionCall": {"name": name, "args": args}}, TEXT, st.dictionaries(TEXT, TEXT)),
    st.just({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
)


def said(chunks: list[Any], thought: bool) -> str:
    parts = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
    return "".join(part.get("text", "") for part in parts if bool(part.get("thought")) is thought)


def rest(chunks: list[Any]) -> list[Any]:
    parts = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
    return [part for part in parts if not part.keys() <= {"text", "thought"}]


@given(st.lists(st.lists(PARTS, max_size=3), min_size=1, max_size=6))
def test_nothing_is_lost_or_invented_on_the_way(said_in: list[list[dict[str, Any]]]) -> None:
    chunks = [answer(parts, usageMetadata=usage(9, number)) for number, parts in enumerate(said_in)]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    whole = document(*chunks)
    assert said([whole], False) == said(chunks, False)
    assert said([whole], True) == said(chunks, True)
    assert rest([whole]) == rest(chunks)
    assert whole["usageMetadata"] == usage(9, len(chunks) - 1)
    encoded = json.dumps(whole, indent=1, ensure_ascii=False).encode()
    assert json.loads(GEMINI.as_document(GEMINI.as_stream(encoded))) == whole


@given(st.binary(max_size=80) | st.from_regex(rb'\{"candidates":[\[\]{}0-9",a-z:]*', fullmatch=True))
def test_random_bytes_raise_value_errors_only(body: bytes) -> None:
    for convert in (GEMINI.as_document, GEMINI.as_stream):
        for document in (body, b"data: " + body, b"[" + body + b"]"):
            try:
                convert(document)
            except ValueError:
                continue


def test_the_facts_of_the_stream_that_is_asked_for_instead() -> None:
    assert GEMINI.converts
    assert GEMINI.retarget(b"/v1beta/models/g:generateContent", EVENTS, None, stream=True).endswith(b"?alt=sse")
