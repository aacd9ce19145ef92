"""Prompts and answers in the ledger: as they were where it is told to keep them, and not a word of them elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.ledger import read
from hedgerow.ledger.rows import ContentRow
from tests.e2e.support import Config, GatewayProcess, config
from tests.e2e.test_secrets import send
from tests.e2e.upstream import SSE_HEAD, Cut, Received, Upstream, chunk, completion, event, stream, whole

pytestmark = pytest.mark.e2e

MARK = "zqx"
BROKEN = json.dumps({"error": {"message": f"{MARK} broken"}}).encode()


def upstream(received: Received) -> Iterator[bytes]:
    """Does what the prompt says."""
    wish = received.json["messages"][0]["content"].split()[0]
    match wish:
        case "broken" if received.headers["x-target"] == "primary":
            yield whole(BROKEN, status="500 Oops")
        case "cut":
            yield SSE_HEAD + chunk(event({"content": f"{MARK} half"}))
            raise Cut
        case "stream":
            yield stream(event({"role": "assistant"}), event({"content": f"{MARK} "}), event({"content": "é!"}, "stop"))
        case _:
            yield whole(completion(f"{MARK} answer"))


@pytest.fixture
def target() -> Iterator[Upstream]:
    with Upstream(upstream) as target:
        yield target


def settings(target: Upstream, url: str, **ledger: Any) -> Config:
    server = {"ledger": {"url": url, **ledger}, "log_level": "debug", "access_log": True}
    made = config(target.base_url, target.base_url, server=server)
    for name, each in made["targets"].items():
        each["headers"] = {"x-target": name}
    return made


def ask(gateway: GatewayProcess, wish: str, *, name: str = "", more: Any = (), **headers: str) -> bytes:
    """The body that was sent. The request is called by its wish, unless it has a `name`."""
    messages = [{"role": "user", "content": f"{wish} {MARK} ü"}]
    streamed = wish in ("stream", "cut")
    body = json.dumps({"model": "fast", "messages": messages, "stream": streamed, **dict(more)}).encode()
    send(gateway, "POST", "/v1/chat/completions", body=body, x_hedgerow_request_id=name or wish, **headers)
    return body


def kept(url: str) -> dict[tuple[str, int, str], ContentRow]:
    """By the name of the request, the attempt, and whose words they are."""
    with read.ledger(url) as ledger:
        names = {(row.process, row.number): row.request_id for page in ledger.requests() for row in page}
        rows = [row for page in ledger.contents() for row in page]
    return {(names[row.process, row.number], row.attempt, row.part): row for row in rows}


def test_what_was_asked_and_answered_is_kept_as_it_was(url: str, target: Upstream) -> None:
    with GatewayProcess(settings(target, url, content=True)) as gateway:
        sent = {wish: ask(gateway, wish) for wish in ("fine", "stream", "cut", "broken")}
        log = gateway.log
    rows = kept(url)
    answer = completion(f"{MARK} answer")
    words = {key: row.content for key, row in rows.items()}
    document = json.loads(words.pop(("stream", 0, "answer")))
    assert document["choices"][0]["message"]["content"] == f"{MARK} é!"
    assert words == {
        **{(wish, -1, "prompt"): body.decode() for wish, body in sent.items()},
        ("fine", 0, "answer"): answer.decode(),
        ("cut", 0, "answer"): f"{MARK} half",
        ("broken", 0, "unused"): BROKEN.decode(),
        ("broken", 1, "answer"): answer.decode(),
    }
    assert not any(row.truncated for row in rows.values())
    assert rows["fine", 0, "answer"].size == len(answer)
    assert MARK not in log
    assert "PROMPTS AND ANSWERS ARE STORED" in log


def test_what_is_long_is_cut_off_and_marked(url: str, target: Upstream) -> None:
    with GatewayProcess(settings(target, url, content=True, content_bytes="1KiB")) as gateway:
        body = ask(gateway, "fine", more={"user": "x" * 5000})
    rows = kept(url)
    prompt, answer = rows["fine", -1, "prompt"], rows["fine", 0, "answer"]
    assert (prompt.content, prompt.size, prompt.truncated) == (body[:1024].decode(), len(body), True)
    assert not answer.truncated


def test_clients_can_forbid_it(url: str, target: Upstream) -> None:
    with GatewayProcess(settings(target, url, content=True)) as gateway:
        ask(gateway, "fine", name="header", cache_control="no-store")
        ask(gateway, "fine", name="body", more={"store": False})
        ask(gateway, "fine", name="kept")
    assert {name for name, _, _ in kept(url)} == {"kept"}


def test_unless_it_is_told_to_it_keeps_not_a_word(tmp_path: Path, target: Upstream) -> None:
    with GatewayProcess(settings(target, f"sqlite:///{tmp_path}/l.db")) as gateway:
        for wish in ("fine", "stream", "cut", "broken"):
            ask(gateway, wish)
        assert "STORED" not in gateway.log
    assert kept(f"sqlite:///{tmp_path}/l.db") == {}
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"broken" in written
    assert MARK.encode() not in written
