"""What a simulated provider answers in one piece only: embeddings, reranking, moderations, token counts, models."""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from typing import Any

import pytest

from hedgerow.lab.protocols.translate import translation
from tests.unit.lab_support import Client, in_lab


def answered(path: str, body: dict[str, Any], script: dict[str, Any] | None = None, **options: Any) -> Client:
    found: list[Client] = []
    in_lab(lambda bench: bench.post(path, body, script), then=lambda _, client: found.append(client), **options)
    return found[0]


def vectors(given: Any, **more: Any) -> list[Any]:
    answer = answered("/v1/embeddings", {"model": "m", "input": given, **more}).json
    assert [one["index"] for one in answer["data"]] == list(range(len(answer["data"])))
    return [one["embedding"] for one in answer["data"]]


def test_a_vector_depends_on_model_and_input_alone() -> None:
    [one, other, again] = vectors(["a", "b", "a"])
    assert one == again != other
    assert vectors("a") == [one]
    assert vectors("a", model="n") != [one]
    body = {"model": "m", "input": "a"}
    elsewhere = answered("/v1/embeddings", body, name="backup", seed=9).json
    assert elsewhere["data"][0]["embedding"] == one
    assert len(one) == 256
    assert math.hypot(*one) == pytest.approx(1)


def test_floats_and_base64_are_the_same_numbers() -> None:
    [floats] = vectors("a", dimensions=5, encoding_format="float")
    [packed] = vectors("a", dimensions=5, encoding_format="base64")
    assert struct.unpack("<5f", b64decode(packed)) == tuple(floats)


@pytest.mark.parametrize(
    ("given", "inputs"), [("a", 1), (["a"], 1), (["a", "b", "c"], 3), ([1, 2, 3], 1), ([[1, 2], [3]], 2)]
)
def test_there_is_a_vector_for_each_input(given: Any, inputs: int) -> None:
    assert len(vectors(given, dimensions=1)) == inputs


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"input": []}, "Between 1 and 2048 inputs, got 0"),
        ({"input": ["a"] * 2049}, "Between 1 and 2048 inputs, got 2049"),
        ({"input": {}}, "Invalid request body"),
        ({"dimensions": 0}, "Between 1 and 4096, got 0"),
        ({"encoding_format": "int8"}, "float or base64, got 'int8'"),
    ],
)
def test_what_embeddings_cannot_do_is_said_so(more: dict[str, Any], said: str) -> None:
    client = answered("/v1/embeddings", {"model": "m", "input": "a", **more})
    assert client.status == 400
    assert said in client.json["error"]["message"]


WHOLE: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"model": "m", "input": "hi"},
    "/v1/rerank": {"model": "m", "query": "hi", "documents": ["hi"]},
    "/v1/moderations": {"model": "m", "input": "hi"},
    "/v1/translate": {"text": "hus"},
    "/v1/messages/count_tokens": {"model": "m", "messages": []},
}


@pytest.mark.parametrize("path", WHOLE)
def test_an_answer_without_tokens_takes_the_time_to_a_first_one(path: str) -> None:
    client = answered(path, WHOLE[path], {"ttft_ms": 700, "tokens": 5})
    assert (client.status, client.over, client.over_at) == (200, "respond", 0.7)


@pytest.mark.parametrize("path", WHOLE)
def test_only_what_costs_is_billed_and_it_is_the_input(path: str) -> None:
    stats: list[Any] = []
    in_lab(lambda bench: bench.post(path, WHOLE[path]), then=lambda bench, _: stats.append(bench.stats()))
    assert (stats[0]["completed"], stats[0]["tokens_generated"]) == (1, 0)
    free = path.endswith(("moderations", "count_tokens"))
    assert (stats[0]["billed_nano_usd"] == 0) is free


@pytest.mark.parametrize("path", WHOLE)
def test_a_client_that_leaves_before_it_is_seen(path: str) -> None:
    def then(bench: Any, client: Client) -> None:
        client.leave()
        assert bench.stats()["cancelled_before_headers"] == 1

    in_lab(lambda bench: bench.post(path, WHOLE[path], {"fault": "hang"}), until=1.0, then=then)


def test_a_translation_is_the_provider_s_own() -> None:
    said = [translation("Hæk ", "en", speaker) for speaker in ("first", "first", "second", "alpha")]
    assert said[0] == said[1]
    assert set(said) == {"hedge", "hedgerow"}
    assert answered("/v1/translate", {"text": "vind"}).json == {"translation": "wind"}
    assert answered("/v1/translate", {"text": "vind", "to": "fr"}).json == {"translation": "vind (fr)"}
    assert answered("/v1/translate", {"text": " "}).status == 400


def test_reranking_puts_what_shares_words_first() -> None:
    documents: list[Any] = ["a blue sky", {"text": "The red fox"}, "red", "red"]
    body = {"model": "m", "query": "red fox", "documents": documents}
    results = answered("/v1/rerank", body).json["results"]
    assert [result["index"] for result in results] == [1, 2, 3, 0]
    assert [result["relevance_score"] for result in results] == [2 / 3, 0.5, 0.5, 0.0]
    assert len(answered("/v1/rerank", body | {"top_n": 2}).json["results"]) == 2
    assert answered("/v1/rerank", body | {"documents": []}).status == 400


@pytest.mark.parametrize(("given", "results"), [("a", 1), (["a", "b"], 2), ([{"type": "text", "text": "a"}], 1)])
def test_there_is_a_verdict_for_each_text(given: Any, results: int) -> None:
    answer = answered("/v1/moderations", {"input": given}).json
    assert [verdict["flagged"] for verdict in answer["results"]] == [False] * results
    assert answer["model"] == "omni-moderation-latest"


def test_tokens_are_counted_as_messages_would_be() -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "system": "Be brief."}
    counted = answered("/v1/messages/count_tokens", asked).json
    assert answered("/v1/messages", asked | {"max_tokens": 1}).json["usage"]["input_tokens"] == counted["input_tokens"]


@pytest.mark.parametrize(
    ("path", "headers", "where", "shape"),
    [
        ("/v1/models", {}, "data", {"id": "one", "object": "model", "created": 1764500000, "owned_by": "lab"}),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, "data", None),
        ("/v1/models", {"x-goog-api-key": "k"}, "models", None),
        ("/v1beta/models?pageSize=9", {}, "models", None),
    ],
)
def test_the_models_are_listed_in_each_familys_shape(
    path: str, headers: dict[str, str], where: str, shape: dict[str, Any] | None
) -> None:
    def then(_: Any, client: Client) -> None:
        listed = client.json[where]
        assert [model.get("id", model.get("name")) for model in listed] in (
            ["one", "two"],
            ["models/one", "models/two"],
        )
        assert shape in (None, listed[0])

    in_lab(lambda bench: bench.send("GET", path, headers=headers), then=then, models=("one", "two"))


def test_anthropics_list_says_its_ends() -> None:
    def then(_: Any, client: Client) -> None:
        page = client.json
        assert (page["first_id"], page["last_id"], page["has_more"]) == ("one", "two", False)
        assert page["data"][0]["created_at"] == "2025-11-30T10:53:20Z"

    headers = {"anthropic-version": "2023-06-01"}
    in_lab(lambda bench: bench.send("GET", "/v1/models", headers=headers), then=then, models=("one", "two"))
