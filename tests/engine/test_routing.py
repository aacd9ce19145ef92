"""Which targets a request goes to by its protocol, what is changed on the way, and what the client is given."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from hedgerow.config import Settings
from hedgerow.events import Headers
from hedgerow.gateway import answers
from hedgerow.gateway.target import Target
from tests.effects.support import QUICK, STREAM, WHOLE, Pools, asked, play, sent, settings, token
from tests.engine.scripted import JSON, Answer, RecordingExchange

ANTHROPIC: Headers = [(b"anthropic-version", b"2023-06-01")]
CLAUDE = b'{"model":"claude","max_tokens":9,"messages":[]}'
DONE = b"data: [DONE]\n\n"


def mixed(**changes: object) -> Settings:
    """A route per family: `fast` speaks OpenAI's API, `claude` Anthropic's, `gem` Gemini's."""
    base: dict[str, Any] = {
        "targets": {
            "a": {"base_url": "http://a.example/v1", "api_key": "k-a"},
            "c": {"base_url": "http://c.example/v1", "api_key": "k-c", "protocol": "anthropic"},
            "g": {"base_url": "http://g.example/v1beta", "api_key": "k-g", "protocol": "gemini"},
        },
        "routes": {"fast": {"targets": ["a"]}, "claude": {"targets": ["c"]}, "gem": {"targets": ["g", "g"]}},
    }
    return settings(changes, base=base)


def get(path: bytes, headers: Headers | None = None) -> tuple[Pools, RecordingExchange]:
    return play(mixed(), {}, b"", path=path, headers=headers, method=b"GET")


def error(client: RecordingExchange) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(client.text)["error"]
    return told


def test_models_are_listed_in_the_shape_that_the_client_reads() -> None:
    shown = json.loads(get(b"/v1/models")[1].text)
    assert (shown["object"], [each["id"] for each in shown["data"]]) == ("list", ["fast", "claude", "gem"])
    shown = json.loads(get(b"/v1/models", ANTHROPIC)[1].text)
    assert (shown["first_id"], shown["last_id"], shown["has_more"]) == ("fast", "gem", False)
    assert {each["type"] for each in shown["data"]} == {"model"}
    google: list[tuple[bytes, Headers]] = [
        (b"/v1beta/models?pageSize=9", []),
        (b"/v1/models", [(b"x-goog-api-key", b"k")]),
    ]
    for path, headers in google:
        shown = json.loads(get(path, headers)[1].text)
        assert [each["name"] for each in shown["models"]] == ["models/fast", "models/claude", "models/gem"]
    assert json.loads(get(b"/v1beta/models/gem")[1].text)["name"] == "models/gem"
    one = json.loads(get(b"/v1/models/claude", ANTHROPIC)[1].text)
    assert (one["type"], one["id"], one["display_name"]) == ("model", "claude", "claude")
    none = get(b"/v1/models/nope", ANTHROPIC)[1]
    assert (none.status, json.loads(none.text)["type"]) == (404, "error")


@pytest.mark.parametrize(
    ("path", "status"),
    [(b"/v1/models/gpt-9", 200), (b"/v1/models/gpt-", 200), (b"/v1/models/gem", 404), (b"/v1/models/", 404)],
)
def test_a_model_is_there_where_a_pattern_serves_it(path: bytes, status: int) -> None:
    base = {"routes": {"gpt-*": {"targets": ["a"]}}, "targets": {"a": {"base_url": "http://a.example/v1"}}}
    pools, client = play(settings(base=base), {}, b"", path=path, method=b"GET")
    assert (asked(pools), client.status) == ([], status)
    if status == 200:
        assert json.loads(client.text)["id"] == path.decode().rpartition("/")[2]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        (b"POST", b"/v1/v1/messages", ANTHROPIC),
        (b"POST", b"/v1/v1/chat/completions", []),
        (b"GET", b"/v1/v1/models?limit=9", []),
        (b"POST", b"/v1beta/v1beta/models/gem:generateContent", []),
        (b"POST", b"/v1/v1beta/models/gem:streamGenerateContent?alt=sse", []),
    ],
)
def test_a_version_that_is_in_the_path_twice_is_told_with_what_to_do(
    method: bytes, path: bytes, headers: Headers
) -> None:
    pools, client = play(mixed(), {}, CLAUDE, path=path, headers=headers, method=method)
    first, version = path.partition(b"?")[0].decode(), path.decode().split("/")[1]
    assert (asked(pools), client.status) == ([], 404)
    assert error(client)["message"] == (
        f"There is nothing at '{first}': the API's version is there twice. This client adds it to its base URL, which "
        f"is then http://<this host>, without /{version}."
    )


def test_an_endpoint_with_the_version_twice_can_be_listed() -> None:
    listed = mixed(
        **{
            "targets.h": {"base_url": "http://h.example/v1", "protocol": "http"},
            "routes.w": {"targets": ["h"], "endpoints": ["/v1/v1/translate"]},
        }
    )
    pools, _ = play(listed, {"h": Answer([(0.0, b"{}")], headers=JSON)}, b"{}", path=b"/v1/v1/translate")
    assert [name for name, _ in asked(pools)] == ["h"]


@pytest.mark.parametrize("path", [b"/v1/hedgerow", b"/v1/hedgerow?x=1", b"/v1/hedgerow/", b"/v1/hedgerow/x"])
@pytest.mark.parametrize("method", [b"GET", b"POST", b"DELETE"])
def test_nothing_at_or_below_our_own_path_goes_to_a_provider(path: bytes, method: bytes) -> None:
    pools, client = play(mixed(), {}, b"{}", path=path, method=method)
    assert (asked(pools), client.status) == ([], 404)


@pytest.mark.parametrize(
    ("path", "headers", "target"),
    [
        (b"/v1/files", [], "a"),
        (b"/v1/files", ANTHROPIC, "c"),
        (b"/v1/messages/batches", [], "c"),
        (b"/v1/messages/count_tokens", [], "c"),
        (b"/v1beta/files", [], "g"),
    ],
)
def test_what_is_passed_through_goes_to_who_speaks_the_clients_api(path: bytes, headers: Headers, target: str) -> None:
    pools, _ = play(
        mixed(), {name: Answer([(0.0, b"{}")], headers=JSON) for name in "acg"}, b"{}", path=path, headers=headers
    )
    assert [name for name, _ in asked(pools)] == [target]


def test_a_route_that_does_not_speak_the_protocol_is_told_with_what_to_do() -> None:
    pools, client = play(mixed(), {}, CLAUDE.replace(b"claude", b"fast"), path=b"/v1/messages")
    assert (asked(pools), client.status, error(client)["type"]) == ([], 400, "invalid_request_error")
    assert error(client)["message"] == (
        "No target of route 'fast' speaks the anthropic API; what they speak is openai. If one of them does, say so in "
        "the config, as in protocol: [openai, anthropic]."
    )


def test_a_key_for_an_api_that_nobody_speaks_goes_nowhere() -> None:
    for body in (CLAUDE, b"{}"):
        pools, client = play(settings(), {}, body.replace(b"claude", b"fast"), path=b"/v1/messages/count_tokens")
        assert (asked(pools), client.status, error(client)["type"]) == ([], 400, "invalid_request_error")


def test_what_is_passed_through_takes_the_model_of_a_pattern_s_target_too() -> None:
    base = {
        "routes": {"gpt-*": {"targets": ["a"]}},
        "targets": {"a": {"base_url": "http://a.example/v1", "model": "m"}},
    }
    pools, _ = play(settings(base=base), {}, b'{"model":"gpt-9"}', path=b"/v1/images/edits")
    assert sent(pools)[1] == b'{"model":"m"}'


def test_a_gemini_path_that_is_passed_through_goes_to_the_route_of_its_model() -> None:
    other = {"base_url": "http://h.example/v1beta", "protocol": "gemini", "model": "gemini-2"}
    two = mixed(**{"targets.h": other, "routes.hem": {"targets": ["h"]}})
    pools, _ = play(two, {}, b"{}", path=b"/v1beta/models/hem:countTokens?x=1")
    assert [name for name, _ in asked(pools)] == ["h"]
    assert pools["h"].requests[0][1].startswith(b"POST /v1beta/models/gemini-2:countTokens?x=1 HTTP/1.1\r\n")


def fault(*_: object, **__: object) -> bytes:
    raise RuntimeError


@pytest.mark.parametrize("part", ["commit", "failure"])
def test_a_fault_of_our_own_ends_the_request(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "marks", fault)
    script = QUICK if part == "commit" else Answer([(0.0, b"{}")], status=400, headers=JSON)
    pools, client = play(settings(), {"a": script}, STREAM)
    assert (client.outcome, client.status, [name for name, _ in asked(pools)]) == ("whole", 500, ["a"])


@pytest.mark.parametrize("part", ["primary", "hedge"])
def test_a_fault_as_an_attempt_is_launched_ends_the_request(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send, sends = Target.send, []

    def faulty(self: Target, *arguments: Any, **more: Any) -> Any:
        sends.append(self.name)
        return fault() if len(sends) == (1 if part == "primary" else 2) else send(self, *arguments, **more)

    monkeypatch.setattr(Target, "send", faulty)
    pools, client = play(settings(), {"a": Answer(end="hang")}, STREAM)
    assert (client.outcome, client.status) == ("whole", 500)
    assert client.ended_at == (0.0 if part == "primary" else 2.0)
    assert len(pools["a"].cancelled_at) == (part == "hedge")


@pytest.mark.parametrize("path", [b"/v1/realtime?model=fast", b"/v1/responses"])
def test_websockets_are_refused_with_what_to_do(path: bytes) -> None:
    pools, client = get(path, [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")])
    assert (asked(pools), client.status, error(client)["code"]) == ([], 400, "unsupported_upgrade")
    assert error(client)["message"].endswith("Connect to the provider itself.")


def test_other_upgrades_are_ignored() -> None:
    pools, client = play(mixed(), {}, STREAM, headers=[(b"connection", b"Upgrade"), (b"upgrade", b"h2c")])
    assert (client.status, b"upgrade" in sent(pools)[0].lower()) == (200, False)


GEMINI = b'{"contents":[]}'
GENERATE = b"/v1beta/models/gem:generateContent"


@pytest.mark.parametrize(
    ("query", "left"),
    [(b"?key=sk-1", b""), (b"?alt=json&key=sk-1", b"?alt=json"), (b"?key=sk-1&alt=json", b"?alt=json")],
)
def test_a_key_in_the_query_is_the_clients_key_and_goes_no_further(query: bytes, left: bytes) -> None:
    passing = {"targets.g.api_key": "passthrough", "targets.g.model": "gemini-x"}
    pools, _ = play(mixed(**passing), {}, GEMINI, path=GENERATE + query)
    head = pools["g"].requests[0][1]
    assert head.startswith(b"POST /v1beta/models/gemini-x:generateContent" + left + b" HTTP/1.1\r\n")
    assert [line for line in head.split(b"\r\n") if b"sk-1" in line] == [b"x-goog-api-key: sk-1"]
    head = play(mixed(), {}, GEMINI, path=GENERATE + query)[0]["g"].requests[0][1]
    assert (b"sk-1" in head, b"\r\nx-goog-api-key: k-g\r\n" in head) == (False, True)


def test_the_key_in_the_query_opens_the_gateway() -> None:
    locked = mixed(**{"server.api_keys": ["mine"]})
    assert play(locked, {}, GEMINI, path=GENERATE + b"?key=yours")[1].status == 401
    assert asked(play(locked, {}, GEMINI, path=GENERATE + b"?key=mine")[0])[0] == ("g", 0.0)


@pytest.mark.parametrize(
    ("sent_as", "arrives"),
    [
        ((b"x-api-key", b"sk-1"), b"x-api-key: sk-1"),
        ((b"authorization", b"Bearer sk-1"), b"authorization: Bearer sk-1"),
    ],
)
def test_an_anthropic_clients_own_key_is_sent_on_as_it_came(sent_as: tuple[bytes, bytes], arrives: bytes) -> None:
    passing = mixed(**{"targets.c.api_key": "passthrough"})
    pools, _ = play(passing, {}, CLAUDE, path=b"/v1/messages", headers=[sent_as])
    lines = pools["c"].requests[0][1].split(b"\r\n")
    assert [line for line in lines if b"sk-1" in line] == [arrives]


def compressed(data: bytes, coding: bytes) -> bytes:
    return gzip.compress(data) if coding == b"gzip" else zlib.compress(data)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_a_compressed_stream_is_decoded_as_it_comes(coding: bytes) -> None:
    packer = zlib.compressobj(wbits=31 if coding == b"gzip" else 15)
    pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in (token("one"), token("two"), DONE)]
    headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", coding)]
    chunks = [(0.5, piece) for piece in pieces]
    _, client = play(settings(), {"a": Answer([*chunks, (0.0, packer.flush())], headers=headers)}, STREAM)
    assert [(at, piece) for at, piece in client.pieces if piece] == [
        (0.5, token("one")),
        (1.0, token("two")),
        (1.5, DONE),
    ]
    assert (client.outcome, b"content-encoding" in client.answer_headers) == ("whole", False)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_a_compressed_error_is_read_and_handed_on_plain(coding: bytes) -> None:
    said = b'{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}'
    told = Answer([(0.0, compressed(said, coding))], status=400, headers=[*JSON, (b"content-encoding", coding)])
    pools, client = play(settings(), {"a": told}, WHOLE)
    assert ([name for name, _ in asked(pools)], client.status, client.text) == (["a"], 400, said)
    assert b"content-encoding" not in client.answer_headers


def test_what_cannot_be_decoded_is_a_broken_answer() -> None:
    headers = [*JSON, (b"content-encoding", b"gzip")]
    short = Answer([(0.0, gzip.compress(b"{}")[:-4])], headers=headers)
    corrupt = Answer([(0.0, b"\x1f\x8b\x08\x00 no gzip at all")], headers=headers)
    for broken in (short, corrupt):
        pools, client = play(settings(), {"a": broken, "b": broken, "c": broken}, WHOLE)
        assert ([name for name, _ in asked(pools)], client.status) == (["a", "b", "c"], 502)
        assert error(client)["code"] == "protocol"


def test_a_stream_that_cannot_be_decoded_any_further_looks_broken() -> None:
    packer = zlib.compressobj(wbits=31)
    start = packer.compress(token("one")) + packer.flush(zlib.Z_SYNC_FLUSH)
    headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")]
    _, client = play(
        settings(), {"a": Answer([(0.5, start), (0.5, b"\xff" * 50)], headers=headers, end="hang")}, STREAM
    )
    assert (client.outcome, client.text.startswith(token("one")), DONE in client.text) == ("broken", True, False)
    assert client.ended_at == 1.0


def test_an_error_page_becomes_an_error_in_json() -> None:
    page = Answer([(0.0, b"<html>413</html>")], status=413, headers=[(b"content-type", b"text/html")])
    _, client = play(settings(), {"a": page}, WHOLE)
    assert (client.status, client.answer_headers[b"content-type"]) == (413, b"application/json")
    assert error(client)["type"] == "invalid_request_error"


def test_a_request_that_may_have_taken_effect_says_so_when_it_times_out() -> None:
    late = Answer([(0.0, b"{}")], headers=JSON, head_after=9.0)
    _, client = play(settings({"routes.<name>.timeouts.total": "5s"}), {"a": late}, b"{}", path=b"/v1/batches")
    assert client.status == 504
    assert error(client)["message"].endswith("is not known: look before you send it again")


def test_usage_that_the_client_did_not_ask_for_is_asked_for_and_hidden() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\n'
    answer = Answer([(0.1, token("hi")), (0.1, usage + DONE)])
    pools, client = play(settings(), {"a": answer}, STREAM)
    assert json.loads(sent(pools)[1])["stream_options"] == {"include_usage": True}
    assert client.text == token("hi") + DONE
    asking = STREAM.replace(b'"stream":true', b'"stream":true,"stream_options":{"include_usage":true}')
    pools, client = play(settings(), {"a": answer}, asking)
    assert (sent(pools)[1], client.text) == (asking, token("hi") + usage + DONE)


def test_a_stream_with_its_usage_in_the_first_piece_is_hidden_too() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\n'
    _, client = play(settings(), {"a": Answer([(0.1, token("hi") + usage + DONE)])}, STREAM)
    assert client.text == token("hi") + DONE


AS_STREAM = {"routes.<name>.nonstream_as_stream": True}


def test_a_collected_stream_that_breaks_is_an_error_and_no_half_answer() -> None:
    _, client = play(settings(AS_STREAM), {"a": Answer([(0.1, token("hi"))])}, WHOLE)
    assert (client.status, client.outcome, error(client)["code"]) == (502, "whole", "protocol")


def test_a_collected_stream_that_reports_an_error_hands_that_on() -> None:
    said = b'{"error":{"message":"lost","type":"server_error","param":null,"code":503}}'
    _, client = play(settings(AS_STREAM), {"a": Answer([(0.1, token("hi")), (0.1, b"data: %b\n\n" % said)])}, WHOLE)
    assert (client.status, client.text) == (503, said)


def test_a_collected_stream_has_the_limit_of_a_whole_answer() -> None:
    small = settings({**AS_STREAM, "server.limits.answer_bytes": "1KiB"})
    _, client = play(small, {"a": Answer([(0.1, token("x" * 300))] * 10)}, WHOLE)
    assert (client.status, error(client)["code"]) == (502, "protocol")
    assert "limits.answer_bytes" in error(client)["message"]


def test_a_document_in_place_of_the_stream_that_was_to_be_collected_is_handed_on() -> None:
    whole = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'
    _, client = play(settings(AS_STREAM), {"a": Answer([(0.1, whole)], headers=JSON)}, WHOLE)
    assert (client.status, client.text) == (200, whole)


def test_a_listed_endpoint_is_found_by_its_path_or_the_model_of_a_route_that_lists_it() -> None:
    both = {
        "a": {"targets": ["a"], "endpoints": ["/v2/translate"]},
        "b": {"targets": ["b"], "endpoints": ["/v2/translate"]},
    }
    translating = settings({"routes": both})
    for body, target in ((b'{"text":"hi"}', "a"), (b'{"model":"b"}', "b"), (b'{"model":"nmt"}', "a"), (b"q=hi", "a")):
        pools, _ = play(
            translating, dict.fromkeys("ab", Answer([(0.0, b"{}")], headers=JSON)), body, path=b"/v2/translate"
        )
        assert [name for name, _ in asked(pools)] == [target]
        assert pools[target].requests[0][1].startswith(b"POST /v1/v2/translate ")


def test_streams_say_that_they_are_not_to_be_buffered() -> None:
    _, client = play(settings(), {"a": QUICK}, STREAM)
    assert (client.answer_headers[b"cache-control"], client.answer_headers[b"x-accel-buffering"]) == (
        b"no-cache",
        b"no",
    )
    own = Answer(QUICK.chunks, headers=[(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")])
    _, client = play(settings(), {"a": own}, STREAM)
    assert client.answer_headers[b"cache-control"] == b"no-store"
