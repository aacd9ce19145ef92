"""What holds for a simulated provider in every protocol: its pace, faults, books, and errors in the right shape."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.lab_support import EXACT, Bench, Client, in_lab

MESSAGES = [{"role": "user", "content": "hi"}]


@dataclass(frozen=True)
class Kind:
    """How to ask for an answer in one protocol, how it says its words, and how it ends."""

    path: str
    body: dict[str, Any]
    words: str
    """The words of a stream: what this pattern finds in it, joined."""
    end: bytes
    """In no stream that is broken off."""
    error: tuple[str, ...]
    """Where the status, its name or its code stand in a 429."""
    says: str
    error_keys: frozenset[str] = frozenset({"message", "type", "param", "code"})
    limit: tuple[str, ...] = ("max_tokens",)
    streams_at: str | None = None

    def ask(self, bench: Bench, script: dict[str, Any] | None = None, *, stream: bool = True, **more: Any) -> Client:
        body = {**self.body, **more}
        if self.streams_at is not None:
            return bench.post(self.streams_at if stream else self.path, body, script)
        return bench.post(self.path, {**body, "stream": stream}, script)

    def limited(self, tokens: int) -> dict[str, Any]:
        body: Any = tokens
        for key in reversed(self.limit):
            body = {key: body}
        found: dict[str, Any] = body
        return found

    def spoken(self, client: Client) -> str:
        return "".join(re.findall(self.words, client.text.decode()))


CHAT = Kind(
    "/v1/chat/completions",
    {"model": "m", "messages": MESSAGES},
    r'"content":"([^"]*)"',
    b"[DONE]",
    ("error", "code"),
    "rate_limit_exceeded",
)
COMPLETIONS = Kind(
    "/v1/completions",
    {"model": "m", "prompt": "hi"},
    r'"text":"([^"]*)"',
    b"[DONE]",
    ("error", "code"),
    "rate_limit_exceeded",
)
RESPONSES = Kind(
    "/v1/responses",
    {"model": "m", "input": "hi"},
    r'"delta":"([^"]*)"',
    b"response.completed",
    ("error", "code"),
    "rate_limit_exceeded",
    limit=("max_output_tokens",),
)
MESSAGE = Kind(
    "/v1/messages",
    {"model": "m", "messages": MESSAGES, "max_tokens": 99},
    r'"type":"text_delta","text":"([^"]*)"',
    b"message_stop",
    ("error", "type"),
    "rate_limit_error",
    frozenset({"message", "type"}),
)
GEMINI = Kind(
    "/v1beta/models/m:generateContent",
    {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    r'"text":"([^"]*)"',
    b"finishReason",
    ("error", "status"),
    "RESOURCE_EXHAUSTED",
    frozenset({"message", "code", "status"}),
    ("generationConfig", "maxOutputTokens"),
    streams_at="/v1beta/models/m:streamGenerateContent?alt=sse",
)
GEMINI_ARRAY = replace(GEMINI, streams_at="/v1beta/models/m:streamGenerateContent")
KINDS = {
    "chat": CHAT,
    "completions": COMPLETIONS,
    "responses": RESPONSES,
    "messages": MESSAGE,
    "gemini": GEMINI,
    "gemini-array": GEMINI_ARRAY,
}
all_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@all_kinds
def test_a_stream_opens_without_a_word_and_has_each_word_at_its_time(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert (client.status, client.over, client.over_at) == (200, "end", 1.5)
        assert [at for at, _ in client.writes] == [0.0, 1.0, 1.25, 1.5, 1.5]
        assert not re.search("lab A|A hedge", client.writes[0][1].decode())
        assert kind.spoken(client) == "lab A hedge"
        assert kind.end in client.writes[-1][1]
        [record] = bench.log()
        assert (record["ending"], record["model"], record["tokens"]) == ("completed", "m", 3)
        assert (record["headers_at"], record["first_token_at"], record["closed_at"]) == (0.0, 1.0, 1.5)

    in_lab(lambda bench: kind.ask(bench, EXACT), then=then)


@all_kinds
def test_a_whole_answer_comes_with_its_last_token(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert (client.status, client.over, client.over_at) == (200, "respond", 1.5)
        assert client.answer_headers[b"content-type"] == b"application/json"
        assert client.answer_headers[b"x-lab-provider"] == b"lab"
        assert client.json
        assert b"lab A hedge" in client.text
        assert bench.stats()["tokens_generated"] == 3

    in_lab(lambda bench: kind.ask(bench, EXACT, stream=False), then=then)


@all_kinds
def test_a_stalled_stream_has_shown_its_opening_only_and_the_cancel_is_seen(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert [at for at, _ in client.writes] == [0.0]
        assert "lab" not in kind.spoken(client)
        client.leave()
        [record] = bench.log()
        assert (record["ending"], record["tokens"], record["closed_at"]) == ("cancelled_before_token", 0, 5.0)

    in_lab(lambda bench: kind.ask(bench, {"fault": "stall"}), until=5.0, then=then)


@all_kinds
@pytest.mark.parametrize(("fault", "over"), [("cut", "abort"), ("close", "end")])
def test_a_broken_stream_does_not_end_as_a_whole_one(kind: Kind, fault: str, over: str) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert (client.over, client.over_at) == (over, 1.5)
        assert kind.spoken(client) == "lab A"
        assert kind.end not in client.text
        assert bench.log()[0]["ending"] == "failed"

    in_lab(lambda bench: kind.ask(bench, EXACT | {"fault": fault, "at": 2}), then=then)


@all_kinds
def test_a_client_that_leaves_mid_stream_wastes_what_it_got(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        client.leave()
        stats = bench.stats()
        assert (stats["cancelled_mid_stream"], stats["tokens_wasted"], stats["open"]) == (1, 2, 0)

    in_lab(lambda bench: kind.ask(bench, EXACT), until=1.3, then=then)


@all_kinds
def test_a_refusal_is_worded_in_the_protocol(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert (client.status, client.over_at) == (429, 0.0)
        assert client.answer_headers[b"retry-after"] == b"2"
        error = client.json
        for key in kind.error:
            error = error[key]
        assert error == kind.says
        assert bench.stats()["billed_nano_usd"] == 0

    in_lab(lambda bench: kind.ask(bench, {"status": 429, "retry_after": 2}), then=then)


@all_kinds
def test_what_cannot_be_understood_is_refused_in_the_protocol(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert client.status == 400
        assert "Invalid request body" in client.json["error"]["message"]
        assert set(client.json["error"]) == kind.error_keys
        assert bench.stats()["requests"] == 0

    in_lab(lambda bench: bench.send("POST", kind.path, raw=b"{"), then=then)


@all_kinds
def test_the_clients_limit_ends_the_answer_and_the_answer_says_so(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert bench.log()[0]["tokens"] == 2
        assert re.search(r'"(length|max_tokens|max_output_tokens|MAX_TOKENS)"', client.text.decode())

    in_lab(lambda bench: kind.ask(bench, stream=False, **kind.limited(2)), then=then)


@all_kinds
def test_a_limit_below_one_is_refused(kind: Kind) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert client.status == 400
        assert client.json["error"]["message"] == "The token limit must be at least 1, got 0"

    in_lab(lambda bench: kind.ask(bench, **kind.limited(0)), then=then)


def test_the_limit_of_a_message_is_only_its_upper_bound() -> None:
    def then(bench: Bench, client: Client) -> None:
        assert client.json["stop_reason"] == "end_turn"
        assert client.json["usage"]["output_tokens"] == 40

    in_lab(lambda bench: MESSAGE.ask(bench, stream=False), then=then)


@pytest.mark.parametrize("kind", [COMPLETIONS, RESPONSES, MESSAGE, GEMINI], ids=lambda kind: kind.path)
def test_the_same_prompt_has_the_same_key_at_every_provider(kind: Kind) -> None:
    def key(name: str) -> str:
        found: list[str] = []
        in_lab(lambda bench: kind.ask(bench), then=lambda bench, _: found.append(bench.log()[0]["key"]), name=name)
        return found[0]

    assert key("one") == key("other")
    assert len(key("one")) == 16


def test_an_error_inside_a_stream_has_the_protocols_shape() -> None:
    def last(kind: Kind, script: dict[str, Any]) -> Any:
        found: list[Any] = []
        fault = EXACT | {"fault": "error", "at": 1} | script
        in_lab(lambda bench: kind.ask(bench, fault), then=lambda _, client: found.append(client.frames()[-1]))
        return found[0]

    name, completion = last(COMPLETIONS, {"status": 529})
    assert (name, completion["error"]["type"], completion["error"]["code"]) == (None, "overloaded_error", 529)
    name, response = last(RESPONSES, {"status": 429, "code": "insufficient_quota"})
    assert name == response["type"] == "error"
    assert (response["sequence_number"], response["code"]) == (5, "insufficient_quota")
    name, message = last(MESSAGE, {"status": 529})
    assert (name, message) == (
        "error",
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )
    name, gemini = last(GEMINI, {})
    assert (name, gemini["error"]["code"], gemini["error"]["status"]) == (None, 503, "UNAVAILABLE")


def test_an_array_that_an_error_ends_is_still_json() -> None:
    def then(_: Bench, client: Client) -> None:
        elements = json.loads(client.text)
        assert [set(element) & {"candidates", "error"} for element in elements] == [set(), {"candidates"}, {"error"}]

    in_lab(lambda bench: GEMINI_ARRAY.ask(bench, EXACT | {"fault": "error", "at": 1}), then=then)


def test_a_code_stands_where_the_protocol_keeps_such() -> None:
    def refusal(kind: Kind) -> Any:
        found: list[Any] = []
        script = {"status": 429, "code": "quota", "retry_after": 7.5}
        in_lab(lambda bench: kind.ask(bench, script), then=lambda _, client: found.append(client.json["error"]))
        return found[0]

    assert refusal(RESPONSES)["code"] == "quota"
    assert refusal(MESSAGE)["details"] == {"error_code": "quota"}
    reason, retry = refusal(GEMINI)["details"]
    assert reason["reason"] == "quota"
    assert retry == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}
