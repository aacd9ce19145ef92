"""Losers that run on: over sockets, with the official SDK, a client of server-sent events, and the examples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import yaml

from hedgerow.lab.process import LabProcess
from hedgerow.lab.protocols.translate import translation
from tests.e2e.support import MESSAGES, GatewayProcess, config, script, until

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).parents[2] / "examples"
Labs = list[LabProcess]
Event = tuple[str, Any]


@pytest.fixture(scope="module")
def running() -> Iterator[Labs]:
    with ExitStack() as stack:
        names = ("primary", "backup", "third")
        yield [stack.enter_context(LabProcess(["--name", name, "--preset", "fast"])) for name in names]


@pytest.fixture
def labs(running: Labs) -> Labs:
    for lab in running:
        lab.reset()
    return running


def racing(labs: Labs, **keep: Any) -> dict[str, Any]:
    settings = config(*(lab.base_url for lab in labs))
    del settings["routes"]["fast"]["hedge"]
    race = {"mode": "race", "width": len(labs)}
    settings["routes"]["fast"] |= {"hedge": race, "losers": "keep", "endpoints": ["/v1/translate"], "keep": keep}
    return settings


def pace(**milliseconds: int) -> dict[str, str]:
    """When each lab has its first token; the next come at once."""
    return {f"x-lab-script-{name}": script(ttft_ms=ms, gap_ms=1, tokens=3) for name, ms in milliseconds.items()}


def events(answer: httpx2.Response) -> Iterator[Event]:
    name = ""
    for line in answer.iter_lines():
        kind, _, rest = line.partition(": ")
        if kind == "event":
            name = rest
        elif kind == "data":
            yield name, json.loads(rest)


@pytest.mark.parametrize("streaming", [True, False])
def test_alternatives_stream_in_after_the_answer(labs: Labs, streaming: bool) -> None:
    with (
        GatewayProcess(racing(labs)) as gateway,
        openai.OpenAI(base_url=gateway.base_url, api_key="sk-mine", max_retries=0) as client,
        httpx2.Client(base_url=gateway.url, headers={"authorization": "Bearer sk-mine"}) as listener,
    ):
        raw = client.chat.completions.with_raw_response.create(
            model="fast",
            messages=MESSAGES,
            stream=streaming,
            extra_headers=pace(primary=400, backup=30, third=200),
        )
        where = raw.headers["x-hedgerow-alternatives"]
        with listener.stream("GET", where, headers={"accept": "text/event-stream"}) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            parsed: Any = raw.parse()
            if streaming:
                text = "".join(chunk.choices[0].delta.content or "" for chunk in parsed if chunk.choices)
            else:
                text = parsed.choices[0].message.content
            assert text.startswith("backup")
            *alternatives, last = events(answer)
        assert [(name, each["text"].split()[0], each["won"]) for name, each in alternatives] == [
            ("alternative", "backup", True),
            ("alternative", "third", False),
            ("alternative", "primary", False),
        ]
        assert last == ("done", {"alternatives": 3, "disagreement": True, "pending": 0})
        assert listener.get(where).json()["pending"] == 0
        assert [lab.stats()["completed"] for lab in labs] == [1, 1, 1]
        assert listener.get(where, headers={"authorization": "Bearer sk-other"}).status_code == 404


def test_a_client_may_stop_to_listen(labs: Labs) -> None:
    with GatewayProcess(racing(labs[:2])) as gateway, httpx2.Client(base_url=gateway.url) as client:
        body = {"text": "hæk", "to": "en"}
        answer = client.post("/v1/translate", json=body, headers=pace(primary=500, backup=10))
        where = answer.headers["x-hedgerow-alternatives"]
        with client.stream("GET", where, headers={"accept": "text/event-stream"}) as listening:
            assert next(events(listening))[0] == "alternative"
        until(lambda: client.get(where).json()["pending"] == 0)
        said = [translation("hæk", "en", name) for name in ("backup", "primary")]
        assert [each["answer"]["translation"] for each in client.get(where).json()["alternatives"]] == said


def test_what_runs_on_is_broken_off_in_time_and_at_the_end(labs: Labs) -> None:
    with GatewayProcess(racing(labs[:2], max_time="200ms")) as gateway, httpx2.Client(base_url=gateway.url) as client:
        client.post("/v1/translate", json={"text": "hus"}, headers=pace(primary=60_000, backup=10))
        until(lambda: labs[0].stats()["cancelled_before_headers"] == 1)
    with GatewayProcess(racing(labs[:2])) as gateway, httpx2.Client(base_url=gateway.url) as client:
        client.post("/v1/translate", json={"text": "hus"}, headers=pace(primary=60_000, backup=10))
        gateway.stop()
        until(lambda: labs[0].stats()["cancelled_before_headers"] == 2)


def run_example(name: str, **environ: str) -> list[str]:
    """What an example prints, run against its own configuration with the labs for its providers."""
    settings = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    settings["server"] = {"listen": "127.0.0.1:0"}
    with GatewayProcess(settings, environ=environ) as gateway:
        code = (EXAMPLES / f"{name}.py").read_text()
        assert "http://127.0.0.1:8080" in code
        done = subprocess.run(
            [sys.executable, "-c", code.replace("http://127.0.0.1:8080", gateway.url)],
            env=os.environ | environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_of_two_models(labs: Labs) -> None:
    labs[0].behave(script={"ttft_ms": 400, "gap_ms": 1, "tokens": 2})
    labs[1].behave(script={"ttft_ms": 30, "gap_ms": 1, "tokens": 2})
    keys = {"OPENAI_API_KEY": "sk-1", "MISTRAL_API_KEY": "sk-2"}
    urls = {"OPENAI_BASE_URL": labs[0].base_url, "MISTRAL_BASE_URL": labs[1].base_url}
    assert run_example("translation", **keys, **urls) == [
        "mistral was first: backup A",
        "mistral: backup A",
        "openai: primary A",
        "They disagree.",
    ]


def test_the_example_of_three_services(labs: Labs) -> None:
    for lab, ms in zip(labs, (300, 30, 600), strict=True):
        lab.behave(script={"ttft_ms": ms})
    urls = {f"{name}_URL": lab.base_url for name, lab in zip(("FIRST", "SECOND", "THIRD"), labs, strict=True)}
    said = [translation("hæk", "en", name) for name in ("backup", "primary", "third")]
    assert said == ["hedge", "hedgerow", "hedge"]
    assert run_example("word_translation", **urls) == [
        "first: hedge from second",
        "hedge: 1 of 3 (second)",
        "hedgerow: 1 of 3 (first)",
        "hedge: 2 of 3 (second, third)",
        "They disagree.",
    ]
