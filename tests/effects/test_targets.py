"""targets.<name>.*: what is written to the upstream; the connections' own keys are in test_connections.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.errors import ConfigError
from tests.effects.support import SILENT, SLOW_DOWN, STREAM, asked, effect_of, play, sent, settings


@effect_of("targets.<name>.protocol")
def test_only_the_protocol_that_is_spoken_is_taken(key: str) -> None:
    head, _ = sent(play(settings({key: "openai"}), {})[0])
    assert head.startswith(b"POST /v1/chat/completions ")
    with pytest.raises(ConfigError, match="protocol"):
        settings({key: "anthropic"})


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
    assert sent(play(settings(), {})[0])[1] == STREAM
    assert sent(play(settings({key: "m-1"}), {})[0])[1] == STREAM.replace(b"fast", b"m-1")


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
