"""Mid-stream rescue over sockets: real clients read one well-formed stream, whoever went on with it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.support import MESSAGES, GatewayProcess, config, until
from tests.e2e.upstream import LAST_CHUNK, SSE_HEAD, Answer, Cut, Received, Upstream, chunk
from tests.unit.test_wire_continuing import chat, message

pytestmark = pytest.mark.e2e

PIECES = ["Eine Hecke ", "säumt 🌿", " den"]
REST = [" Weg", " 小径."]


def breaking(whole: bytes, at: int, how: str, stay: threading.Event) -> Answer:
    """Sends so many bytes of a stream; then it is silent, or its connection is reset or ends in good order."""

    def answer(_: Received) -> Iterable[bytes]:
        yield SSE_HEAD + chunk(whole[:at])
        if how == "stall":
            stay.wait(20)
        elif how == "end":
            yield LAST_CHUNK
            return
        time.sleep(0.05)  # let what was sent arrive: a reset overtakes it
        raise Cut

    return answer


def going_on(write: Any) -> Answer:
    """Goes on as it is asked to, and echoes nothing."""
    return lambda _: (SSE_HEAD + chunk(write(REST, "other")) + LAST_CHUNK,)


@contextmanager
def scene(first: Answer, second: Answer, log: Path, **target: Any) -> Iterator[tuple[GatewayProcess, Upstream]]:
    """A gateway before a target that breaks off and one that goes on."""
    with Upstream(first) as primary, Upstream(second) as backup:
        settings = config(
            primary.base_url,
            backup.base_url,
            server={"event_log": str(log)},
            on_stall="continue",
            timeouts={"stall": "300ms"},
        )
        settings["targets"]["backup"] |= {"continues": "last_message"}
        for each in settings["targets"].values():
            each |= target
        with GatewayProcess(settings) as gateway:
            yield gateway, backup


def rescued(log: Path) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, log.read_text().splitlines()) if each["event"] == "answer_rescued"]


@pytest.mark.parametrize("how", ["stall", "reset", "end"])
def test_the_openai_sdk_reads_one_answer(how: str, tmp_path: Path) -> None:
    stay, log, whole = threading.Event(), tmp_path / "events", chat(PIECES)
    first = breaking(whole, whole.index(b" den") + 2, how, stay)
    with (
        scene(first, going_on(chat), log) as (gateway, backup),
        openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client,
    ):
        answer = client.chat.completions.create(
            model="fast", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(answer)
        stay.set()
        until(lambda: len(rescued(log)) == 1)
        asked = backup.requests[0].json["messages"]
    choices = [choice for each in chunks for choice in each.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "".join([*PIECES[:2], *REST])
    assert asked == [*MESSAGES, {"role": "assistant", "content": "".join(PIECES[:2])}]
    assert {each.id for each in chunks} == {"c1"}
    assert [choice.delta.role for choice in choices if choice.delta.role] == ["assistant"]
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    (usage,) = (each.usage for each in chunks if each.usage)
    assert usage.completion_tokens == len(REST) + 4  # 19 characters in two events are some 4 tokens
    assert usage.total_tokens == 100 + len(REST)
    assert rescued(log)[0]["chars"] == len("".join(PIECES[:2]))


def test_the_openai_sdks_own_reader_of_streams_puts_one_completion_together(tmp_path: Path) -> None:
    stay, whole = threading.Event(), chat(PIECES)
    first = breaking(whole, whole.index(b" den"), "reset", stay)
    with (
        scene(first, going_on(chat), tmp_path / "events") as (gateway, _),
        openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client,
        client.chat.completions.stream(model="fast", messages=MESSAGES) as stream,
    ):
        completion = stream.get_final_completion()
    assert completion.choices[0].message.content == "".join([*PIECES[:2], *REST])
    assert completion.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("how", ["stall", "reset"])
def test_the_anthropic_sdk_reads_one_message(how: str, tmp_path: Path) -> None:
    stay, whole = threading.Event(), message(PIECES)
    first = breaking(whole, whole.index(b" den"), how, stay)
    with (
        scene(first, going_on(message), tmp_path / "events", protocol="anthropic") as (gateway, backup),
        anthropic.Anthropic(base_url=gateway.url, api_key="any", max_retries=0) as client,
        client.messages.stream(model="fast", max_tokens=50, messages=MESSAGES) as stream,
    ):
        final = stream.get_final_message()
        stay.set()
        asked = backup.requests[0].json
    (block,) = final.content
    assert block.type == "text"
    assert block.text == "".join([*PIECES[:2], *REST])
    assert (final.id, final.stop_reason, final.usage.output_tokens) == ("m1", "end_turn", len(REST) + 4)
    assert asked["messages"][-1] == {"role": "assistant", "content": "".join(PIECES[:2])}
    assert asked["max_tokens"] == 46


def test_where_nobody_goes_on_the_client_is_told(tmp_path: Path) -> None:
    stay, whole = threading.Event(), chat(PIECES)
    first = breaking(whole, whole.index(b" den"), "reset", stay)
    with (
        scene(first, breaking(b"", 0, "reset", stay), tmp_path / "events") as (gateway, _),
        openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client,
    ):
        words: list[str] = []
        answer = client.chat.completions.create(model="fast", messages=MESSAGES, stream=True)
        contents = (choice.delta.content or "" for each in answer for choice in each.choices)
        with pytest.raises(openai.APIError):
            words.extend(contents)
        assert "".join(words) == "".join(PIECES[:2])
