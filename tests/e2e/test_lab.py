"""The lab as a process: official clients believe it, and its books are right about real connections."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from hedgerow.lab.control import LabDied
from hedgerow.lab.process import LabProcess

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def running() -> Iterator[LabProcess]:
    with LabProcess(["--name", "primary", "--preset", "fast"]) as lab:
        yield lab


@pytest.fixture
def lab(running: LabProcess) -> LabProcess:
    running.reset()
    return running


@pytest.fixture
def client(lab: LabProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=lab.base_url, api_key="sk-lab", max_retries=0) as client:
        yield client


MESSAGES: Any = [{"role": "user", "content": "Say hedge."}]


def scripted(**script: Any) -> dict[str, str]:
    return {"x-lab-script": json.dumps(script)}


def until(true: Callable[[], bool]) -> None:
    """Wait for what must become true; fails after ten seconds."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "did not happen within 10 s"
        time.sleep(0.005)


def test_the_sdk_reads_a_stream_with_its_usage(client: openai.OpenAI, lab: LabProcess) -> None:
    stream = client.chat.completions.create(
        model="m", messages=MESSAGES, max_tokens=5, stream=True, stream_options={"include_usage": True}, user="u"
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "primary A hedge is a"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices] == [None] * 6 + ["length"]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5
    [record] = lab.log(key="u")
    assert record["ending"] == "completed"
    assert record["first_token_at"] - record["started_at"] >= record["ttft"] - 0.002


def test_the_sdk_reads_a_whole_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=3)
    assert answer.choices[0].message.content == "primary A hedge"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


def test_the_sdk_lists_the_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["lab-small", "lab-large"]


def test_the_sdk_sees_a_rate_limit_and_when_to_come_back(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as raised:
        client.chat.completions.create(
            model="m", messages=MESSAGES, extra_headers=scripted(status=429, retry_after=7.5)
        )
    assert raised.value.response.headers["retry-after"] == "8"
    assert raised.value.response.headers["retry-after-ms"] == "7500"
    assert raised.value.code == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
def test_the_sdk_knows_each_status(client: openai.OpenAI, status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        client.chat.completions.create(model="m", messages=MESSAGES, extra_headers=scripted(status=status))


@pytest.mark.parametrize("at", [0, 2])
def test_the_sdk_raises_at_an_error_frame_before_or_after_the_first_token(client: openai.OpenAI, at: int) -> None:
    stream = client.chat.completions.create(
        model="m", messages=MESSAGES, stream=True, extra_headers=scripted(fault="error", at=at)
    )
    words: list[str | None] = []
    contents = (chunk.choices[0].delta.content for chunk in stream)
    with pytest.raises(openai.APIError, match="overloaded"):
        words.extend(contents)
    assert words == ["", "primary", " A"][: at + 1]


def test_the_sdk_sees_a_cut_stream_break(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="m", messages=MESSAGES, stream=True, extra_headers=scripted(fault="cut", at=2)
    )
    with pytest.raises(openai.APIConnectionError):
        list(stream)


def test_a_closed_stream_is_a_cancel_whose_tokens_are_wasted(client: openai.OpenAI, lab: LabProcess) -> None:
    stream = client.chat.completions.create(
        model="m",
        messages=MESSAGES,
        stream=True,
        extra_headers=scripted(ttft_ms=1, gap_ms=1, tokens=50, fault="stall", at=3),
    )
    for chunk in stream:
        if chunk.choices[0].delta.content == " hedge":
            break
    stream.close()
    until(lambda: lab.stats()["open"] == 0)
    stats = lab.stats()
    assert (stats["cancelled_mid_stream"], stats["tokens_wasted"], stats["tokens_generated"]) == (1, 3, 3)


def test_a_client_that_hangs_up_before_the_first_byte_is_seen(lab: LabProcess) -> None:
    body = b'{"model":"m","messages":[],"user":"gone"}'
    head = (
        b'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-lab-script: {"fault":"hang"}\r\ncontent-length: %d\r\n\r\n'
    )
    address = ("127.0.0.1", int(lab.url.rpartition(":")[2]))
    with socket.create_connection(address) as connection:
        connection.sendall(head % len(body) + body)
        until(lambda: lab.stats()["open"] == 1)
    until(lambda: lab.stats()["cancelled_before_headers"] == 1)
    assert lab.log(key="gone")[0]["ending"] == "cancelled_before_headers"


def test_the_labs_clock_can_be_compared_with_ours(lab: LabProcess) -> None:
    before = time.monotonic()
    clock = lab.stats()["clock"]
    assert before - 0.005 <= clock <= time.monotonic()


def test_behaviour_set_from_outside_holds_until_reset(lab: LabProcess, client: openai.OpenAI) -> None:
    lab.behave(fault="503:1")
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="m", messages=MESSAGES)
    lab.reset(seed=9)
    assert client.chat.completions.create(model="m", messages=MESSAGES).choices
    assert lab.stats()["seed"] == 9


def test_what_the_control_api_refuses_is_raised_with_its_reason(lab: LabProcess) -> None:
    with pytest.raises(ValueError, match=r"answered 400: .*'boom:1' is not STATUS:PROBABILITY"):
        lab.behave(fault="boom:1")


def test_other_paths_are_echoed(client: openai.OpenAI) -> None:
    echo = client.post("/batches", cast_to=dict, body={"a": 1})
    assert echo["target"] == "/v1/batches"
    assert dict(echo["headers"])["authorization"].startswith("sha256:")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0_even_under_load(number: signal.Signals) -> None:
    with LabProcess() as lab, socket.create_connection(("127.0.0.1", int(lab.url.rpartition(":")[2]))) as connection:
        connection.sendall(b"GET /lab/stats HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        lab.send_signal(number)
        assert lab.stop() == 0


def test_a_lab_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(LabDied, match=r"did not start \(exit code 2\)[\s\S]*no 'opnai'; there are fast"):
        LabProcess(["--preset", "opnai"])
    with pytest.raises(LabDied, match=r"exit code 2[\s\S]*gone\.csv: cannot be read"):
        LabProcess(["--latencies", str(tmp_path / "gone.csv")])


def test_a_taken_port_is_said_so(lab: LabProcess) -> None:
    with pytest.raises(LabDied, match=r"exit code 1[\s\S]*cannot listen"):
        LabProcess(["--port", lab.url.rpartition(":")[2]])


def test_a_lab_that_died_is_reported_when_asked() -> None:
    with LabProcess() as lab:
        lab.kill()
        with pytest.raises(LabDied, match=r"does not answer: ConnectionRefusedError"):
            lab.stats()
