"""targets.<name>.*: what is written to the upstream; the connections' own keys are in test_connections.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.effects.support import SILENT, SLOW_DOWN, STALLS, STREAM, WHOLE, asked, effect_of, play, sent, settings

MESSAGES = b'{"model":"fast","max_tokens":9,"stream":true,"messages":[]}'


@effect_of("targets.<name>.protocol")
def test_a_request_goes_to_the_targets_that_speak_its_protocol(key: str) -> None:
    assert asked(play(settings({key: "anthropic"}), {})[0]) == [("b", 0.0)]
    both = settings({key: ["openai", "anthropic"]})
    assert asked(play(both, {})[0]) == [("a", 0.0)]
    assert asked(play(both, {}, MESSAGES, path=b"/v1/messages")[0])[0] == ("a", 0.0)
    pools, client = play(settings(), {}, MESSAGES, path=b"/v1/messages")
    assert (asked(pools), client.status) == ([], 400)
    assert b"protocol: [openai, anthropic]" in client.text


@effect_of("targets.<name>.key_header")
@pytest.mark.parametrize(
    ("header", "path", "line"),
    [
        ("auto", b"/v1/chat/completions", b"authorization: Bearer k-1"),
        ("auto", b"/v1/messages", b"x-api-key: k-1"),
        ("api-key", b"/v1/chat/completions", b"api-key: k-1"),
        ("api-key", b"/v1/messages", b"api-key: k-1"),
        ("authorization", b"/v1/messages", b"authorization: Bearer k-1"),
    ],
)
def test_the_key_goes_in_the_header_that_is_asked_for(key: str, header: str, path: bytes, line: bytes) -> None:
    changes = {key: header, "targets.<name>.api_key": "k-1", "targets.<name>.protocol": ["openai", "anthropic"]}
    lines = sent(play(settings(changes), {}, MESSAGES, path=path)[0])[0].split(b"\r\n")
    assert [each for each in lines if b"k-1" in each] == [line]


@effect_of("targets.<name>.stream_usage")
@pytest.mark.parametrize("asks", [True, False])
def test_streams_are_asked_for_their_usage(key: str, asks: bool) -> None:
    _, body = sent(play(settings({key: asks}), {})[0])
    assert (b'"stream_options":{"include_usage":true}' in body) == asks


@effect_of("targets.<name>.base_url")
@pytest.mark.parametrize(
    ("url", "start"),
    [
        ("http://a.example/v1", b"POST /v1/chat/completions HTTP/1.1\r\nhost: a.example\r\n"),
        ("https://z.example:8443/openai/v1", b"POST /openai/v1/chat/completions HTTP/1.1\r\nhost: z.example:8443\r\n"),
    ],
)
def test_requests_go_to_the_base_url(key: str, url: str, start: bytes) -> None:
    head, _ = sent(play(settings({key: url}), {})[0])
    assert head.startswith(start)


@effect_of("targets.<name>.api_key")
@pytest.mark.parametrize(
    ("value", "line"),
    [(None, None), ("k-1", b"authorization: Bearer k-1"), ("passthrough", b"authorization: Bearer mine")],
)
def test_the_key_is_sent(key: str, value: str | None, line: bytes | None) -> None:
    changes = {} if value is None else {key: value}
    pools, _ = play(settings(changes), {}, headers=[(b"authorization", b"Bearer mine")])
    lines = sent(pools)[0].split(b"\r\n")
    assert [each for each in lines if each.startswith(b"authorization")] == ([] if line is None else [line])


@effect_of("targets.<name>.api_key_file")
def test_the_key_in_the_file_is_sent(key: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("k-2\n")
    head, _ = sent(play(settings({key: "secret"}, folder=tmp_path), {})[0])
    assert b"\r\nauthorization: Bearer k-2\r\n" in head


@effect_of("targets.<name>.model")
def test_the_model_replaces_the_clients(key: str) -> None:
    quiet = {"targets.<name>.stream_usage": False}
    assert sent(play(settings(quiet), {})[0])[1] == STREAM
    assert sent(play(settings({key: "m-1", **quiet}), {})[0])[1] == STREAM.replace(b"fast", b"m-1")


@effect_of("targets.<name>.account")
def test_a_limited_account_is_not_asked_again_through_another_target(key: str) -> None:
    other = {"targets.b.account": "one"}
    pools, _ = play(settings(other), {"a": SLOW_DOWN})
    assert [name for name, _ in asked(pools)] == ["a", "b"]
    pools, _ = play(settings({**other, key: "one"}), {"a": SLOW_DOWN})
    assert [name for name, _ in asked(pools)] == ["a", "c"]


@effect_of("targets.<name>.headers")
def test_extra_headers_are_sent_to_this_target_only(key: str) -> None:
    pools, _ = play(settings({key: {"x-team": "blue"}}), {"a": SILENT})
    assert b"\r\nx-team: blue\r\n" in sent(pools, "a")[0]
    assert b"x-team" not in sent(pools, "b")[0]


def test_extra_headers_replace_the_clients() -> None:
    extra = settings({"targets.a.headers": {"Anthropic-Version": "2023-06-01"}})
    client = [(b"anthropic-version", b"1999"), (b"anthropic-beta", b"x: y")]
    pools, _ = play(extra, {"a": SILENT}, headers=client)
    assert sent(pools, "a")[0].count(b"anthropic-version: ") == 1
    assert b"\r\nanthropic-version: 2023-06-01\r\n" in sent(pools, "a")[0]
    assert b"\r\nanthropic-beta: x: y\r\n" in sent(pools, "a")[0]
    assert b"\r\nanthropic-version: 1999\r\n" in sent(pools, "b")[0]


@effect_of("targets.<name>.first_token")
@pytest.mark.parametrize(("own", "seconds"), [(None, 60.0), ("3s", 3.0), ("90s", 90.0)])
def test_a_target_may_have_a_limit_of_its_own(key: str, own: str | None, seconds: float) -> None:
    alone = {key: own, "routes.<name>.hedge.delay": "off"}
    pools, _ = play(settings(alone), {"a": SILENT, "b": SILENT, "c": SILENT})
    assert asked(pools) == [("a", 0.0), ("b", seconds), ("c", seconds + 60.0)]
    pools, client = play(settings(alone), {"a": SILENT, "b": SILENT, "c": SILENT}, WHOLE)
    assert (asked(pools), client.ended_at) == ([("a", 0.0)], 600.0)


LIGHT = {"model": "m-light", "max_tokens": 256, "reasoning.effort": "low", "tool_choice": None}
ASKED = (
    b'{"model": "fast", "stream": true, "reasoning": {"effort":"high", "summary": 1}, "tool_choice": 1, "messages": []}'
)


@effect_of("targets.<name>.override")
def test_requests_to_this_target_only_are_sent_with_its_own_fields(key: str) -> None:
    quiet = {f"targets.{name}.stream_usage": False for name in "ab"}
    changes = {key.replace("<name>", "b"): LIGHT, **quiet}
    pools, client = play(settings(changes), {"a": SILENT}, ASKED)
    assert sent(pools, "a")[1] == ASKED
    assert sent(pools, "b")[1] == (
        b'{"max_tokens":256,"model": "m-light", "stream": true, '
        b'"reasoning": {"effort":"low", "summary": 1}, "messages": []}'
    )
    assert client.answer_headers[b"x-hedgerow-target"] == b"b"
    assert b"m-light" not in client.text


def test_a_route_whose_targets_all_override_alike_sends_all_the_same() -> None:
    changes = {f"targets.{name}.override": {"max_tokens": 9} for name in "abc"}
    pools, _ = play(settings(changes), {"a": SILENT})
    assert sent(pools, "a")[1] == sent(pools, "b")[1]
    assert sent(pools, "b")[1].count(b'"max_tokens":9') == 1
    pools, _ = play(settings({**changes, "targets.a.override": {}}), {"a": SILENT})
    assert b"max_tokens" not in sent(pools, "a")[1]
    assert sent(pools, "b")[1].count(b'"max_tokens":9') == 1


@effect_of("targets.<name>.continues")
@pytest.mark.parametrize(
    ("form", "message", "fields"),
    [
        ("off", None, {}),
        ("last_message", {}, {}),
        ("prefix", {"prefix": True}, {}),
        ("prefix_echo", {"prefix": True}, {}),
        ("continue_final_message", {}, {"continue_final_message": True, "add_generation_prompt": False}),
    ],
)
def test_a_target_is_asked_to_go_on_in_the_form_that_it_knows(
    key: str, form: str, message: dict[str, bool] | None, fields: dict[str, bool]
) -> None:
    changes = {"targets.b.continues": form, "routes.<name>.on_stall": "continue", "routes.<name>.targets": ["a", "b"]}
    body = STREAM.replace(b"[]", b'[{"role":"user","content":"hi"}]')
    pools, _ = play(settings(changes), {"a": STALLS}, body)
    if message is None:
        assert pools["b"].requests == []
        return
    _, asked = sent(pools, "b")
    request = json.loads(asked)
    assert request["messages"][-1] == {"role": "assistant", "content": "hello", **message}
    assert {name: request.get(name) for name in fields} == fields
