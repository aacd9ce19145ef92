"""Embeddings: one for each input, in JSON that is complete; nothing is rewritten but the model."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import RequestError
from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Facts, Verdict
from hedgerow.wire.openai_embeddings import OpenAIEmbeddings

EMBEDDINGS = OpenAIEmbeddings()
TARGET = b"/v1/embeddings"
JSON: Headers = [(b"content-type", b"application/json")]
TWO = {"object": "embedding", "index": 0, "embedding": "AACAPwAAAEA="}


def facts(given: Any) -> Facts:
    return EMBEDDINGS.facts(TARGET, json.dumps({"model": "emb", "input": given}).encode())


def judge(body: bytes, inputs: int | None = 1) -> tuple[Verdict, Usage | None]:
    """As the gateway does: nothing is decided before the end."""
    scanner = EMBEDDINGS.scanner(Facts("emb", False, inputs=inputs), JSON)
    assert scanner.sign is None
    verdict = scanner.eof(body)
    return verdict, scanner.ending(True).usage


def answer(*items: Any, **more: Any) -> bytes:
    tokens = {"prompt_tokens": 2, "total_tokens": 2}
    return json.dumps({"object": "list", "data": items, "model": "b", "usage": tokens} | more).encode()


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("two colours", 1),
        ("", 1),
        (["a", "b", "c"], 3),
        ([1, 2, 3], 1),
        ([[1, 2], [3]], 2),
        ([{"text": "a"}, {"image": "b"}], 2),
        ([], 0),
        (None, None),
        ({"text": "a"}, None),
    ],
)
def test_the_inputs_are_counted(given: Any, inputs: int | None) -> None:
    assert facts(given) == Facts("emb", False, inputs=inputs)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"model":1}', b'{"model":"a","model":"b","input":"x"}'])
def test_a_request_that_cannot_be_routed_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        EMBEDDINGS.facts(TARGET, body)
    assert refused.value.status == 400


def test_nothing_but_the_model_is_rewritten() -> None:
    body = b'{"model": "emb",  "input":"\\ud83d","encoding_format":"base64", "dimensions":2}'
    told = EMBEDDINGS.facts(TARGET, body)
    assert EMBEDDINGS.rewrite(body, told, None) is body
    assert EMBEDDINGS.rewrite(body, told, "other", usage=True, stream=True) == body.replace(b'"emb"', b'"other"')


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (answer(TWO), 1),
        (answer(TWO), None),
        (answer(TWO, TWO), 2),
        (answer({"embedding": [1.0, -0.5]}), 1),
        (answer({"embedding": [float("nan")]}), 1),
        (answer(TWO, error=None), 1),
        (json.dumps(json.loads(answer(TWO)), indent=2).encode(), 1),
    ],
)
def test_one_embedding_for_each_input_is_accepted_and_its_usage_read(body: bytes, inputs: int | None) -> None:
    assert judge(body, inputs) == (ACCEPTED, Usage(2, 0))


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        ({"total_tokens": 7}, Usage(7, 0)),
        ({"prompt_tokens": 5, "total_tokens": 7}, Usage(5, 0)),
        ({}, None),
        ({"prompt_tokens": "many"}, None),
        (None, None),
    ],
)
def test_usage_is_what_the_prompt_took(tokens: Any, usage: Usage | None) -> None:
    assert judge(answer(TWO, usage=tokens)) == (ACCEPTED, usage)


@pytest.mark.parametrize(
    ("body", "inputs", "why"),
    [
        (b"", 1, "the answer has no body"),
        (b"<html>", 1, "an HTML page instead of JSON"),
        (b"[]", 1, "the body is not JSON"),
        (answer(TWO)[:-1], 1, "the body is not whole JSON"),
        (b"{}", 1, "JSON that is no list of embeddings"),
        (b'{"data":1}', 1, "JSON that is no list of embeddings"),
        (answer(TWO), 2, "1 embeddings for 2 inputs"),
        (answer(TWO, TWO), 1, "2 embeddings for 1 inputs"),
        (answer(TWO, {"embedding": []}), 2, "1 embeddings for 2 inputs"),
        (answer(TWO, {"index": 1}), None, "1 embeddings for 2 inputs"),
    ],
)
def test_what_is_no_adequate_answer_is_broken(body: bytes, inputs: int | None, why: str) -> None:
    assert judge(body, inputs)[0] == Failure(FailureClass.PROTOCOL, why)


@pytest.mark.parametrize(
    "body", [answer(), answer({"embedding": []}), answer({"embedding": ""}), answer({"embedding": None}), answer(1)[:0]]
)
def test_an_answer_without_embeddings_is_empty(body: bytes) -> None:
    verdict = judge(body or b'{"data":null}')[0]
    assert verdict == Failure(
        FailureClass.EMPTY, "a whole answer with nothing in it", 200, JSON, body or b'{"data":null}'
    )


def test_an_error_with_status_200_is_the_error_it_stands_for() -> None:
    verdict = judge(b'{"error":{"message":"x","code":"insufficient_quota"}}')[0]
    assert isinstance(verdict, Failure)
    assert (verdict.kind, verdict.status) == (FailureClass.QUOTA_EXHAUSTED, 429)


def test_megabytes_of_numbers_are_not_made_objects() -> None:
    body = answer(*({"embedding": [number / 7 for number in range(1536)]} for _ in range(100)))
    scanner = EMBEDDINGS.scanner(Facts("emb", False, inputs=100), JSON)
    tracemalloc.start()
    verdict = scanner.eof(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert verdict is ACCEPTED
    assert len(body) > 2_000_000
    assert peak < 64 * 1024


@given(st.binary(max_size=80) | st.from_regex(rb'\{"(data|error)":[\[\]{}0-9",a-z:]*', fullmatch=True))
def test_random_bytes_never_raise(body: bytes) -> None:
    assert isinstance(judge(body)[0], Failure) or judge(body)[0] is ACCEPTED
    with suppress(RequestError):
        EMBEDDINGS.facts(TARGET, body)
