"""The configuration of a running gateway changes: no request notices, and a faulty file does no harm."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.raw import Client, ask
from tests.e2e.support import MESSAGES, Config, GatewayProcess, chat, config, script, until

pytestmark = pytest.mark.e2e

Labs = tuple[LabProcess, LabProcess]
TOKEN = "an-admins-own-token"
ADMIN = {"authorization": f"Bearer {TOKEN}"}
RELOADS = 20
AT_ONCE = 6
TEXT = "A hedge is a row of shrubs planted close together; it marks a border, keeps the wind from the"
MIB = 1 << 20


@pytest.fixture(scope="module")
def labs() -> Iterator[Labs]:
    fast = ["--p50-ms", "20", "--p95-ms", "60", "--gap-ms", "4"]
    with LabProcess(["--name", "primary", *fast]) as primary, LabProcess(["--name", "backup", *fast]) as backup:
        yield primary, backup


def settings(labs: Labs, number: int = 0, **server: Any) -> Config:
    """Each number has its own connections, delay, order of targets and names of routes."""
    server = {"admin": {"token": TOKEN}, "reload": "signal", **server}
    made = config(*(lab.base_url for lab in labs), delay=f"{30 + number}ms", server=server)
    for name, each in made["targets"].items():
        kept = name == "backup" and number % 3
        each["connections"] = {"idle_timeout": "1s", "max": 500 if kept else 500 + number}
    if number % 2:
        made["routes"]["fast"]["targets"].reverse()
    made["routes"][f"route-{number}"] = {"targets": ["primary"]}
    return made


async def reload(gateway: GatewayProcess) -> tuple[int, Any]:
    """Status and answer of a reload over the admin API."""
    reply = await ask(gateway.address, "POST", "/admin/api/reload", b"", ADMIN)
    return reply.status, json.loads(bytes(reply.body))


async def routes(gateway: GatewayProcess) -> list[str]:
    """What clients can ask for."""
    reply = await ask(gateway.address, "GET", "/v1/models")
    return [model["id"] for model in json.loads(bytes(reply.body))["data"]]


class Load:
    """Clients of the official SDK that ask until they are told to stop, and never again for the same answer."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client
        self.over = False
        self.texts: Counter[tuple[str, str]] = Counter()

    async def whole(self) -> None:
        while not self.over:
            answer = await self._client.chat.completions.create(model="fast", messages=MESSAGES, max_tokens=20)
            assert answer.choices[0].finish_reason == "length"
            self._note("whole", answer.choices[0].message.content or "")

    async def stream(self) -> None:
        while not self.over:
            answer = await self._client.chat.completions.create(
                model="fast", messages=MESSAGES, max_tokens=20, stream=True
            )
            chunks = [chunk async for chunk in answer]
            assert chunks[-1].choices[0].finish_reason == "length"
            self._note("stream", "".join(chunk.choices[0].delta.content or "" for chunk in chunks))

    def _note(self, kind: str, text: str) -> None:
        _, _, rest = text.partition(" ")  # the first word says who answered
        self.texts[kind, rest] += 1


def test_twenty_reloads_under_load_lose_and_break_nothing(labs: Labs) -> None:
    async def story(gateway: GatewayProcess, numbers: range) -> Counter[tuple[str, str]]:
        async with openai.AsyncOpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client:
            load = Load(client)
            async with asyncio.TaskGroup() as group:
                for index in range(AT_ONCE):
                    group.create_task(load.stream() if index % 2 else load.whole())
                for number in numbers:
                    gateway.rewrite(settings(labs, number))
                    assert await reload(gateway) == (200, {"reloaded": True, "needs_restart": [], "warnings": []})
                    assert f"route-{number}" in await routes(gateway)
                load.over = True
            return load.texts

    def quiet() -> int:
        until(lambda: [lab.stats()["open"] for lab in labs] == [0, 0])
        return gateway.fds()

    with GatewayProcess(settings(labs)) as gateway:
        texts = asyncio.run(story(gateway, range(1, 4)))
        fds, memory = quiet(), gateway.memory()
        texts += asyncio.run(story(gateway, range(4, 4 + RELOADS)))
        until(lambda: quiet() <= fds)
        assert gateway.memory() - memory < 4 * MIB
    assert set(texts) == {("whole", TEXT), ("stream", TEXT)}
    assert min(texts.values()) > 100, texts


def test_a_stream_and_a_waiting_request_outlive_the_reload_that_removes_their_route(labs: Labs) -> None:
    async def story(gateway: GatewayProcess) -> None:
        stream, waiting = [await Client.connect(gateway.address) for _ in range(2)]
        slow = {"x-lab-script": script(ttft_ms=5, gap_ms=100, tokens=20)}
        stream.send("POST", "/v1/chat/completions", chat(stream=True), slow)
        late = {"x-lab-script-primary": script(fault="hang"), "x-lab-script-backup": script(ttft_ms=1500, tokens=2)}
        waiting.send("POST", "/v1/chat/completions", chat(), late)
        begun = await stream.head()
        other = config("http://127.0.0.1:9/v1", server={"admin": {"token": TOKEN}})
        other["routes"] = {"other": {"targets": ["primary"]}}
        gateway.rewrite(other)
        assert (await reload(gateway))[0] == 200
        assert await routes(gateway) == ["other"]
        await stream.body(begun)
        assert begun.body.endswith(b"data: [DONE]\n\n")
        answered = await waiting.head()
        await waiting.body(answered)
        assert (answered.status, answered.target, answered.whole) == (200, "backup", True)
        assert (await stream.chat(chat())).status == 404  # on the same connection
        for client in (stream, waiting):
            client.leave()

    with GatewayProcess(settings(labs)) as gateway:
        asyncio.run(story(gateway))
        until(lambda: [lab.stats()["open"] for lab in labs] == [0, 0])


def test_a_faulty_file_keeps_the_old_one_and_says_why(labs: Labs) -> None:
    with GatewayProcess(settings(labs)) as gateway:
        faulty = settings(labs, 1)
        faulty["routes"]["fast"]["hedge"]["budget"] = "110%"
        faulty["routes"]["fast"]["targest"] = []
        gateway.rewrite(faulty)
        status, told = asyncio.run(reload(gateway))
        assert status == 422
        budget, unknown = sorted(told["error"]["problems"])
        assert "routes.fast.hedge.budget: got '110%'; expected a percentage between 0.1% and 100%" in budget
        assert "routes.fast.targest: unknown key; did you mean 'targets'?" in unknown
        assert all(str(gateway.file) in problem for problem in (budget, unknown))
        until(lambda: all(problem in gateway.log for problem in (budget, unknown)))  # which a thread writes
        gateway.rewrite("targets: [")
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: gateway.log.count("nothing was changed") == 2)
        assert asyncio.run(routes(gateway)) == ["fast", "route-0"]
        gateway.file.unlink()
        assert "there is no such file" in asyncio.run(reload(gateway))[1]["error"]["message"]
        gateway.rewrite(settings(labs, 2))
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: asyncio.run(routes(gateway)) == ["fast", "route-2"])


def test_what_needs_a_restart_is_said_and_the_rest_is_applied(labs: Labs) -> None:
    with GatewayProcess(settings(labs)) as gateway:
        limits = {"header_bytes": "8KiB"}
        gateway.rewrite(settings(labs, 1, listen="127.0.0.1:1", limits=limits, log_level="warning"))
        status, told = asyncio.run(reload(gateway))
        assert (status, told["needs_restart"]) == (200, ["server.listen", "server.limits.header_bytes"])
        until(lambda: "server.listen is not applied" in gateway.log)  # which a thread writes
        assert "reload: done" not in gateway.log
        assert asyncio.run(routes(gateway)) == ["fast", "route-1"]


def test_the_environment_and_the_address_are_those_of_the_start(labs: Labs) -> None:
    made = settings(labs)
    made["server"]["admin"]["token"] = "${ADMIN_TOKEN}"
    with GatewayProcess(made, environ={"ADMIN_TOKEN": TOKEN}, listen="127.0.0.1:0") as gateway:
        made["routes"]["more"] = {"targets": ["primary"]}
        made["server"]["listen"] = "127.0.0.1:1"  # the command line has said otherwise
        gateway.rewrite(made)
        assert asyncio.run(reload(gateway)) == (200, {"reloaded": True, "needs_restart": [], "warnings": []})
        assert "more" in asyncio.run(routes(gateway))


def test_without_a_file_a_reload_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "hedgerow", "serve", "--listen", "127.0.0.1:0", "--json-ready"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OPENAI_API_KEY": "sk-any"}
    log = tmp_path / "stderr"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: there is no file to reload" in log.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_who_closes_the_terminal_ends_the_gateway(labs: Labs, tmp_path: Path) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps(settings(labs)))
    ours, theirs = os.openpty()

    def take_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    command = [sys.executable, "-P", "-m", "hedgerow", "serve", "--config", str(file), "--json-ready"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=take_the_terminal
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 20)[0]
        url = json.loads(process.stdout.readline())["url"]
        process.send_signal(signal.SIGHUP)  # the terminal is still there: a reload
        host, port = url.removeprefix("http://").split(":")
        assert asyncio.run(ask((host, int(port)), "GET", "/livez")).status == 200
        os.close(ours)
        assert process.wait(20) == 0
