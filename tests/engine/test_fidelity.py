"""What must not be lost, doubled or led astray on the way between a client and its targets."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from hedgerow.events import Headers, RequestFinished
from hedgerow.gateway.delivery import Collecting
from tests.effects.support import SILENT, STALLS, WHOLE, asked, gateway, play, settings
from tests.engine.scripted import Answer, RecordingExchange, World
from tests.engine.scripted import play as stage
from tests.engine.test_routing import AS_STREAM, CLAUDE, DONE, GEMINI, GENERATE, error, mixed


def test_every_attempt_is_sent_the_same_body() -> None:
    pools, _ = play(settings(), {"a": SILENT})
    first, second = (pools[name].requests[0][2] for name in "ab")
    assert first == second
    assert second.count(b'"stream_options"') == 1


@pytest.mark.parametrize("query", [b"?key=sk-1%0A", b"?key=sk%20-1", b"?%6Bey=sk-1", b"?$key=sk-1", b"?key=&key=sk-1"])
def test_a_key_in_the_query_never_goes_on_as_one(query: bytes) -> None:
    heads = [head for _, head, _ in play(mixed(), {}, GEMINI, path=GENERATE + query)[0]["g"].requests]
    assert [head.split(b"\r\n")[0] for head in heads] == [b"POST /v1beta/models/gem:generateContent HTTP/1.1"] * 2


def test_a_line_end_behind_a_key_in_the_query_is_not_part_of_it() -> None:
    locked = mixed(**{"server.api_keys": ["mine"]})
    assert asked(play(locked, {}, GEMINI, path=GENERATE + b"?key=mine%0A")[0])[0] == ("g", 0.0)


def test_a_clients_keys_for_other_apis_are_not_sent_to_this_one() -> None:
    keys: Headers = [(b"x-api-key", b"k-1"), (b"api-key", b"k-2"), (b"x-goog-api-key", b"k-3")]
    for target, path, own in (("c", b"/v1/messages", keys[0]), ("g", GENERATE, keys[2])):
        passing = mixed(**{f"targets.{target}.api_key": "passthrough"})
        pools, _ = play(passing, {}, CLAUDE, path=path, headers=keys)
        lines = pools[target].requests[0][1].split(b"\r\n")
        assert [line for line in lines if b"k-" in line] == [b"%b: %b" % own]


@pytest.mark.parametrize("up", [b"..", b"%2e%2e", b".%2E", b"..;", b"x%2f..%5cx"])
def test_no_path_leads_out_of_a_base_url(up: bytes) -> None:
    for path in (b"/v1beta/%b/models/gem:generateContent", b"/v1beta/models/%b/gem:generateContent"):
        pools, client = play(mixed(**{"routes.*": {"targets": ["g"]}}), {}, GEMINI, path=path % up)
        assert (asked(pools), client.status) == ([], 400)


@pytest.mark.parametrize(
    ("path", "arrives"),
    [
        (b"/v1beta1/projects/p/models/gem:generateContent", b"/v1beta/projects/p/models/gem:generateContent"),
        (b"http://here/v1beta/models/gem:generateContent", b"/v1beta/models/gem:generateContent"),
        (b"/v1/models/gem:embedContent?key=sk-1", b"/v1beta/models/gem:embedContent"),
    ],
)
def test_geminis_paths_are_known_in_every_spelling(path: bytes, arrives: bytes) -> None:
    pools, _ = play(mixed(), {}, GEMINI, path=path)
    assert (pools["a"].requests, pools["g"].requests[0][1].split()[1]) == ([], arrives)


@pytest.mark.parametrize("method", [b"GET", b"DELETE"])
def test_a_fine_tuned_model_of_openai_is_openais(method: bytes) -> None:
    pools, client = play(mixed(), {}, b"", path=b"/v1/models/ft:gpt:me::1", method=method)
    assert ([name for name, _ in asked(pools)], client.status) == ((["a"], 200) if method == b"DELETE" else ([], 404))


def test_legacy_completions_are_openais_below_their_path_too() -> None:
    assert asked(play(mixed(), {}, b"", path=b"/v1/completions/c-1", method=b"GET")[0]) == [("a", 0.0)]
    assert asked(play(mixed(), {}, b"{}", path=b"/v1/complete")[0]) == [("c", 0.0)]


def test_an_error_of_ours_at_a_path_of_geminis_has_geminis_shape() -> None:
    _, client = play(mixed(**{"server.api_keys": ["mine"]}), {}, b"{}", path=b"/v1beta/files")
    assert (client.status, error(client)["code"], error(client)["status"]) == (401, 401, "UNAUTHENTICATED")


@pytest.mark.parametrize("nothing", [DONE, b'data: {"choices":[]}\n\n' + DONE])
def test_a_collected_stream_of_nothing_is_an_error(nothing: bytes) -> None:
    _, client = play(settings(AS_STREAM), dict.fromkeys("abc", Answer([(0.1, nothing)])), WHOLE)
    assert (client.status, client.outcome, error(client)["code"]) == (502, "whole", "empty")


def test_an_error_page_says_when_to_come_back() -> None:
    headers: Headers = [(b"content-type", b"text/html"), (b"retry-after", b"7")]
    page = Answer([(0.0, b"<html>busy</html>")], status=503, headers=headers)
    _, client = play(settings(), dict.fromkeys("abc", page), WHOLE)
    assert (client.status, client.answer_headers[b"retry-after"]) == (503, b"7")
    assert client.answer_headers[b"content-type"] == b"application/json"


@pytest.mark.parametrize(("left_out", "outcome"), [(0, "whole"), (4, "broken")])
def test_a_compressed_stream_that_is_cut_short_looks_broken(left_out: int, outcome: str) -> None:
    packed = gzip.compress(b"RIFF")
    headers: Headers = [(b"content-type", b"audio/wav"), (b"content-encoding", b"gzip")]
    sound = Answer([(0.1, packed[: len(packed) - left_out])], headers=headers)
    speaking = settings({"routes.<name>.endpoints": ["/v1/audio/speech"]})
    body = b'{"model":"fast","stream_format":"sse"}'
    _, client = play(speaking, {"a": sound}, body, path=b"/v1/audio/speech")
    assert (client.text, client.outcome) == (b"RIFF", outcome)


@pytest.mark.parametrize("leaves", [True, False])
def test_what_a_broken_off_answer_has_used_is_told_of_its_request(leaves: bool) -> None:
    async def story(world: World) -> None:
        client = world.request()
        await asyncio.sleep(1)
        if leaves:
            client.leave()

    world = stage({"a": STALLS}, story)
    (finished,) = world.of(RequestFinished)
    assert (finished.usage.output_tokens, finished.usage.source) == (1, "estimated")


def test_a_document_is_collected_in_little_more_than_its_bytes() -> None:
    whole = b"ab" * 100_000
    exchange = RecordingExchange.__new__(RecordingExchange)  # nothing is answered here
    collecting = Collecting(exchange, len(whole), lambda _failure: None)
    tracemalloc.start()
    for at in range(0, len(whole), 2):
        collecting.write(whole[at : at + 2])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1.5 * len(whole)


def test_the_event_log_is_written_behind_an_asgi_server_too(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    told = settings(
        {"server.event_log": str(log)},
        base={"targets": {"a": {"base_url": "http://127.0.0.1:1/v1"}}, "routes": {"fast": {"targets": ["a"]}}},
    )

    async def main() -> int:
        async with gateway(told) as ask:
            return (await ask())[0]

    assert asyncio.run(main()) == 502
    events = [json.loads(line)["event"] for line in log.read_bytes().splitlines()]
    assert events == ["request_started", "attempt_launched", "attempt_ended", "request_finished", "request_billed"]
