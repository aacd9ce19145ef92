"""Targets that are asked for less, or one after the other: over sockets, with the official SDK and the lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.support import MESSAGES, GatewayProcess, config, script, until

pytestmark = pytest.mark.e2e

Labs = tuple[LabProcess, LabProcess]


@pytest.fixture(scope="module")
def running() -> Iterator[Labs]:
    with (
        LabProcess(["--name", "primary", "--preset", "fast"]) as primary,
        LabProcess(["--name", "backup", "--preset", "fast"]) as backup,
    ):
        yield primary, backup


@pytest.fixture
def labs(running: Labs) -> Labs:
    for lab in running:
        lab.reset()
    return running


def client_of(gateway: GatewayProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_chain_lets_go_of_a_target_before_it_asks_the_next(labs: Labs, streaming: bool) -> None:
    settings = config(labs[0].base_url, labs[1].base_url)
    del settings["routes"]["fast"]["hedge"]
    settings["routes"]["fast"] |= {"hedge": {"mode": "chain"}, "timeouts": {"first_token": "5s"}}
    settings["targets"]["primary"]["first_token"] = "200ms"
    hangs = {"x-lab-script-primary": script(fault="hang")}
    with GatewayProcess(settings) as gateway, client_of(gateway) as client:
        raw = client.chat.completions.with_raw_response.create(
            model="fast", messages=MESSAGES, max_tokens=2, stream=streaming, extra_headers=hangs
        )
        answer: Any = raw.parse()
        chunks = list(answer) if streaming else [answer]
        marks = [raw.headers[f"x-hedgerow-{name}"] for name in ("target", "attempts", "hedged")]
        assert marks == ["backup", "2", "false"]
        assert chunks[0].choices
        until(lambda: labs[0].stats()["cancelled_before_headers"] == 1)
        assert [lab.stats()["requests"] for lab in labs] == [1, 1]


@pytest.mark.parametrize("streaming", [True, False])
def test_a_heavy_model_that_stalls_is_backed_by_a_light_one(labs: Labs, streaming: bool) -> None:
    settings = config(labs[0].base_url, labs[1].base_url, delay="100ms")
    settings["targets"]["primary"]["model"] = "m-heavy"
    settings["targets"]["backup"]["override"] = {"model": "m-light", "max_tokens": 2, "max_completion_tokens": None}
    stalls = {"x-lab-script-primary": script(fault="hang")}

    def ask(client: openai.OpenAI, **headers: str) -> tuple[str, str, str]:
        raw = client.chat.completions.with_raw_response.create(
            model="fast", messages=MESSAGES, max_completion_tokens=4, stream=streaming, extra_headers=headers
        )
        answer: Any = raw.parse()
        if not streaming:
            return raw.headers["x-hedgerow-target"], answer.model, answer.choices[0].message.content or ""
        chunks = list(answer)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        return raw.headers["x-hedgerow-target"], chunks[0].model, text

    with GatewayProcess(settings) as gateway, client_of(gateway) as client:
        assert ask(client, **stalls) == ("backup", "m-light", "backup A")
        assert ask(client, **{"x-lab-script": script(ttft_ms=1)}) == ("primary", "m-heavy", "primary A hedge is")
