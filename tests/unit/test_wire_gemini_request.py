"""What a Gemini request says of itself: model and stream flag in its path, the rest in its body."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import RequestError
from hedgerow.wire.base import Facts
from hedgerow.wire.gemini import GeminiFacts
from tests.unit.gemini_support import GEMINI

TARGET = b"/v1beta/models/g:generateContent"
GOOGLE = "https://generativelanguage.googleapis.com"
CONTENTS = [{"role": "user", "parts": [{"text": "Name two colours."}]}]


def facts(target: bytes = TARGET, **fields: Any) -> Facts:
    return GEMINI.facts(target, json.dumps({"contents": CONTENTS, **fields}).encode())


@pytest.mark.parametrize(
    ("target", "model", "stream", "array"),
    [
        (TARGET, "g", False, False),
        (b"/v1/models/g-2.5-flash:generateContent?key=k", "g-2.5-flash", False, False),
        (b"/v1alpha/models/g:streamGenerateContent?alt=sse", "g", True, False),
        (b"/v1beta/models/g:streamGenerateContent?key=k&alt=SSE", "g", True, False),
        (b"/v1beta/models/g:streamGenerateContent?%24alt=sse", "g", True, False),
        (b"/v1beta/models/g:streamGenerateContent", "g", True, True),
        (b"/v1beta/models/g:streamGenerateContent?alt=json&x=alt=sse", "g", True, True),
        (b"/v1beta/models/a%2Fb%20c:generateContent", "a/b c", False, False),
        (b"/v1beta/models/a/b:generateContent", "a/b", False, False),
        (b"/v1beta/models/llama3:8b:generateContent", "llama3:8b", False, False),
        (b"/v1beta/tunedModels/t-1:generateContent", "tunedModels/t-1", False, False),
        (b"/v1/projects/p/locations/l/publishers/google/models/g:generateContent", "g", False, False),
    ],
)
def test_the_path_names_model_and_form(target: bytes, model: str, stream: bool, array: bool) -> None:
    assert facts(target) == GeminiFacts(model, stream, array=array)


@pytest.mark.parametrize(
    "target",
    [
        b"/v1beta/models/:generateContent",
        b"/v1beta/models/g:countTokens",
        b"/v1beta/models/../files:generateContent",
        b"/v1beta/models/a%2F..%2Fb:generateContent",
        b"/v1beta/models/a//b:generateContent",
        b"/v1beta/models/%ff:generateContent",
        b"/v1beta/models/g:streamGenerateContent?alt=proto",
    ],
)
def test_a_path_without_a_usable_model_is_refused(target: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        facts(target)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"tools":"odd"}', b'{"generationConfig":[]}', b'{"model":"a","model":"b"}']
)
def test_a_body_that_cannot_be_understood_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        GEMINI.facts(TARGET, body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tools": [{"functionDeclarations": [{"name": "f", "description": "d"}]}]}, None),
        ({"tools": [{"function_declarations": [{"name": "f"}]}, {}]}, None),
        ({"tools": {"function_declarations": [{"name": "f"}]}}, None),
        ({"tools": [{"functionDeclarations": [], "googleSearch": None}]}, None),
        ({"tools": [], "cachedContent": "", "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, None),
        *(
            ({"tools": [{"functionDeclarations": []}, {name: {}}]}, f"hosted tool '{name}'")
            for name in (
                *("googleSearch", "google_search", "googleSearchRetrieval", "codeExecution", "urlContext"),
                *("googleMaps", "fileSearch", "computerUse", "enterpriseWebSearch", "retrieval", "whateverComes"),
            )
        ),
        ({"tools": [{"mcpServers": [{"name": "m"}]}]}, "hosted tool 'mcpServers'"),
        ({"tools": {"code_execution": {}}}, "hosted tool 'code_execution'"),
        ({"tools": [{"x\nforged é": {}}]}, r"hosted tool 'x\nforged \xe9'"),
        ({"cachedContent": "cachedContents/1"}, "cachedContent"),
        ({"cached_content": "cachedContents/1"}, "cachedContent"),
        ({"continuationToken": "dG9r"}, "continuationToken"),
        ({"generationOutputConfig": {"outputUriPrefix": "gs://b/"}}, "generationOutputConfig"),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "https://youtu.be/x"}}]}]}, None),
        ({"contents": [{"parts": [{"text": '"fileUri": "files/a"'}]}]}, None),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "files/a"}}]}]}, "an uploaded file"),
        (
            {"contents": [{"parts": [{"file_data": {"file_uri": f"{GOOGLE}/v1beta/files/a"}}]}]},
            "an uploaded file",
        ),
    ],
)
def test_what_must_not_be_asked_twice_on_a_mere_delay(fields: dict[str, Any], why: str | None) -> None:
    assert facts(**fields).forbids_hedge == why


@pytest.mark.parametrize(
    ("config", "needs", "limit"),
    [
        ({}, (), None),
        ({"candidateCount": 1, "responseModalities": ["TEXT", "IMAGE"], "maxOutputTokens": 5}, (), 5),
        ({"candidateCount": 2}, ("n",), None),
        ({"candidate_count": "2", "max_output_tokens": 7}, ("n",), 7),
        ({"responseModalities": ["AUDIO"]}, ("audio",), None),
        ({"response_modalities": ["Text", "Audio"], "candidateCount": 3}, ("n", "audio"), None),
    ],
)
@pytest.mark.parametrize("spelling", ["generationConfig", "generation_config"])
def test_what_the_route_must_allow(
    spelling: str, config: dict[str, Any], needs: tuple[str, ...], limit: int | None
) -> None:
    told = GEMINI.facts(TARGET, json.dumps({"contents": CONTENTS, spelling: config}).encode())
    assert (told.needs, told.max_output_tokens) == (needs, limit)


def test_a_lone_surrogate_is_no_reason_to_refuse() -> None:
    body = b'{"contents":[{"parts":[{"text":"\\ud83d"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}'
    assert GEMINI.facts(TARGET, body) == GeminiFacts("g", False)


def test_the_body_is_never_touched() -> None:
    body = b'{ "model" : "models/g", "contents": [] }'
    told = GEMINI.facts(TARGET, body)
    assert GEMINI.rewrite(body, told, "other", usage=True, stream=True) is body


@pytest.mark.parametrize(
    ("target", "model", "stream", "sent"),
    [
        (TARGET, None, False, TARGET),
        (TARGET, "g", False, TARGET),
        (b"/v1beta/models/%67:generateContent", "g", False, b"/v1beta/models/%67:generateContent"),
        (TARGET, "g-2.5", False, b"/v1beta/models/g-2.5:generateContent"),
        (TARGET, "models/h", False, b"/v1beta/models/h:generateContent"),
        (TARGET, "tunedModels/t", False, b"/v1beta/tunedModels/t:generateContent"),
        (b"/v1beta/tunedModels/t:generateContent", "g", False, b"/v1beta/models/g:generateContent"),
        (TARGET, "a/b c?é", False, b"/v1beta/models/a%2Fb%20c%3F%C3%A9:generateContent"),
        (TARGET + b"?key=k", "h", False, b"/v1beta/models/h:generateContent?key=k"),
        (TARGET, None, True, b"/v1beta/models/g:streamGenerateContent?alt=sse"),
        (TARGET + b"?alt=json&key=k", "h", True, b"/v1beta/models/h:streamGenerateContent?key=k&alt=sse"),
        (b"/v1/models/g:streamGenerateContent", None, True, b"/v1/models/g:streamGenerateContent"),
        (b"/v1/models/g:streamGenerateContent?alt=sse", "h", True, b"/v1/models/h:streamGenerateContent?alt=sse"),
    ],
)
def test_the_path_that_a_target_is_asked_for(target: bytes, model: str | None, stream: bool, sent: bytes) -> None:
    assert GEMINI.retarget(target, facts(target), model, stream=stream) == sent


@given(
    st.text(min_size=1, max_size=20).filter(
        lambda name: ".." not in name and not any(part in ("", ".") for part in name.split("/"))
    )
)
def test_a_model_comes_back_out_of_the_path_it_was_put_in(model: str) -> None:
    with suppress(UnicodeEncodeError):
        sent = GEMINI.retarget(TARGET, facts(), model)
        assert facts(sent).model == model.removeprefix("models/")


@given(
    st.binary(max_size=40),
    st.binary(max_size=120) | st.recursive(st.none() | st.text(), st.lists).map(str).map(str.encode),
)
def test_random_requests_are_understood_or_refused(tail: bytes, body: bytes) -> None:
    with suppress(RequestError):
        GEMINI.facts(b"/v1beta/models/" + tail, body)
    with suppress(RequestError):
        GEMINI.facts(TARGET, b'{"tools":' + body + b"}")
