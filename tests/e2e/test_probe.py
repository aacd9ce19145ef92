"""`hedgerow probe` as a process, against labs and servers that stop what is cancelled, and such that do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.engine_server import Engine
from tests.e2e.support import INHERITED, until

pytestmark = pytest.mark.e2e

LAB = ("--p50-ms", "400", "--p95-ms", "450", "--gap-ms", "8", "--jitter", "0")
"""Slow enough that one pause of a busy machine does not make its pace look ten times as slow."""
PHASES = ["before_headers", "before_first_token", "mid_stream", "whole_answer"]
TOKENS = 200
AT_ONCE = 4
"""Probes; each needs the processor for half a second and takes several."""


class Probe:
    """Runs the command in a folder with this configuration."""

    def __init__(self, folder: Path, targets: Mapping[str, Mapping[str, Any]], **server: Any) -> None:
        self.folder = folder
        settings = {"targets": targets, "routes": {"fast": {"targets": list(targets)}}, "server": server}
        (folder / "hedgerow.yaml").write_text(json.dumps(settings))

    def __call__(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return subprocess.run(
            [sys.executable, "-P", "-m", "hedgerow", "probe", *arguments],
            cwd=self.folder,
            env=inherited | {"HOME": str(self.folder), "COLUMNS": "140"} | environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def found(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """What it prints as JSON."""
        ran = self(*arguments, "--yes", "--format", "json", "--tokens", str(TOKENS))
        assert ran.returncode == code, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found


def levels(result: Mapping[str, Any]) -> list[tuple[str, str, bool | None]]:
    return [(each["phase"], each["level"], each["stopped"]) for each in result["findings"]]


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "gemini"])
def test_a_lab_that_honours_cancels_is_confirmed_in_every_phase(tmp_path: Path, protocol: str) -> None:
    with LabProcess(LAB) as lab:
        base = lab.url + ("/v1beta" if protocol == "gemini" else "/v1")
        target = {"base_url": base, "protocol": protocol, "model": "lab-small", "api_key": "sk-lab"}
        result = Probe(tmp_path, {"a": target}).found("a")["a"]
        stats = lab.stats()
    assert levels(result) == [(phase, "confirmed", True) for phase in PHASES]
    assert (result["witness"], result["protocol"]) == ("the lab's log", protocol)
    assert (result["streams_stop"], result["whole_answers_stop"]) == (True, True)
    assert result["billed_on_cancel"] == {"stream": "generated", "whole": "generated"}
    assert [each["tokens_after"] for each in result["findings"]] == [0] * 4
    assert all(each["closed_after"] >= 0 and each["noticed_after"] >= 0 for each in result["findings"])
    assert (stats["requests"], stats["completed"], stats["ran_on"]) == (5, 1, 0)
    assert stats["cancelled_mid_stream"] == 1
    assert stats["cancelled_before_headers"] + stats["cancelled_before_token"] == 3


def test_a_lab_that_does_not_is_found_out_in_every_phase(tmp_path: Path) -> None:
    with LabProcess([*LAB, "--ignore-cancel"]) as lab:
        probe = Probe(tmp_path, {"a": {"base_url": lab.base_url, "model": "lab-small"}})
        result = probe.found("a", code=3)["a"]
        stats = lab.stats()
    assert levels(result) == [(phase, "confirmed", False) for phase in PHASES]
    assert result["billed_on_cancel"] == {"stream": "full", "whole": "full"}
    assert sum(each["tokens_after"] for each in result["findings"]) == stats["tokens_after_cancel"]
    assert stats["tokens_after_cancel"] > 0.8 * 4 * TOKENS
    kept = json.loads((tmp_path / "hedgerow.probes.json").read_text())
    assert levels(kept["targets"]["a"]) == levels(result)


WITNESSES = {
    "vllm": "vLLM's /metrics",
    "sglang": "SGLang's /metrics",
    "llamacpp": "llama.cpp's /metrics",
    "slots": "llama.cpp's /slots",
}


@dataclass
class Scene:
    """A probe of a server of its own, which has played once `ran` is there."""

    engine: Engine
    target: Mapping[str, Any] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    ran: subprocess.CompletedProcess[str] = field(init=False)
    kept: str = field(init=False)
    """What the store holds after it."""

    def play(self, folder: Path) -> Scene:
        with self.engine:
            probe = Probe(folder, {"a": {"base_url": self.engine.url + "/v1", "model": "m", **self.target}})
            asked = ("a", "--yes", "--format", "json", "--tokens", str(TOKENS), *self.arguments)
            self.ran = probe(*asked, **self.environ)
            until(lambda: not any(work.busy for work in self.engine.works))
        self.kept = (folder / "hedgerow.probes.json").read_text()
        return self

    def found(self, code: int = 0) -> dict[str, Any]:
        assert self.ran.returncode == code, self.ran.stderr
        found: dict[str, Any] = json.loads(self.ran.stdout)["a"]
        return found


Scenes = Mapping[tuple[str, bool], Future[Scene]]


@pytest.fixture(scope="module", autouse=True)
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    """By what is probed, and whether that stops. Played beside the tests: a probe mostly waits."""
    them = {("others' work", True): Scene(Engine("vllm", others=2))}
    for stops in (True, False):
        for kind in WITNESSES:
            them[kind, stops] = Scene(Engine(kind, honours=stops))
        proxy = Engine("openrouter", honours=stops)
        target = {"base_url": "http://openrouter.ai/api/v1", "proxy": proxy.url}
        them["openrouter", stops] = Scene(proxy, target)
    them["newer", True] = Scene(Engine("vllm", newer=True))
    passed = {"model": None, "api_key": "passthrough"}
    asked = ("--model", "m", "--key-env", "KEY")
    them["client's key", True] = Scene(Engine("vllm", key="sk-right"), passed, asked, {"KEY": "sk-right"})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(scene.play, tmp_path_factory.mktemp("probe")) for name, scene in them.items()}


@pytest.mark.parametrize("honours", [True, False])
@pytest.mark.parametrize("kind", WITNESSES)
def test_a_server_with_gauges_tells_whether_it_stops(scenes: Scenes, kind: str, honours: bool) -> None:
    scene = scenes[kind, honours].result()
    result = scene.found(code=0 if honours else 3)
    made = [work.made for work in scene.engine.works]
    assert result["witness"] == WITNESSES[kind]
    assert levels(result) == [(phase, "confirmed", honours) for phase in PHASES]
    assert made[0] == 16
    assert [each == TOKENS for each in made[1:]] == [not honours] * 4


def test_a_server_that_works_for_others_cannot_tell(scenes: Scenes) -> None:
    result = scenes["others' work", True].result().found()
    assert levels(result) == [(phase, "closed", None) for phase in PHASES]
    assert {each["note"] for each in result["findings"]} == {"it works on 2 requests of others"}
    assert (result["streams_stop"], result["billed_on_cancel"]) == (None, {})


@pytest.mark.parametrize("honours", [True, False])
def test_openrouter_is_asked_what_it_charges(scenes: Scenes, honours: bool) -> None:
    """Its name is reached through a proxy, which the server plays as well."""
    scene = scenes["openrouter", honours].result()
    result = scene.found(code=0 if honours else 3)
    assert set(scene.engine.paths) == {"/api/v1/generation"}
    assert result["witness"] == "OpenRouter's /generation"
    assert levels(result) == [
        ("before_headers", "closed", None),
        ("before_first_token", "confirmed", honours),
        ("mid_stream", "confirmed", honours),
        ("whole_answer", "closed", None),
    ]
    charged = scene.engine.works[3].made
    assert result["findings"][2]["note"] == f"{charged} tokens charged, $0.000420 by Nebius"


def test_nobody_upstream_can_tell_and_only_our_end_is_known_to_be_closed(tmp_path: Path) -> None:
    with Engine("silent") as engine:
        ran = Probe(tmp_path, {"a": {"base_url": engine.url + "/v1", "model": "m"}})("a", "--yes", "--tokens", "200")
        assert {"/lab/stats", "/metrics", "/slots"} == set(engine.paths)
    assert ran.returncode == 0
    assert ran.stdout.count("closed") >= 4
    assert "what a loser costs stays an estimate" in ran.stdout
    assert "first token after" in ran.stderr


def test_a_model_that_takes_another_limit_is_asked_with_that(scenes: Scenes) -> None:
    result = scenes["newer", True].result().found()
    assert levels(result) == [(phase, "confirmed", True) for phase in PHASES]


def test_several_calls_a_phase_and_all_targets(tmp_path: Path) -> None:
    with LabProcess(LAB) as one, LabProcess([*LAB, "--ignore-cancel"]) as other:
        targets = {"a": {"base_url": one.base_url, "model": "m"}, "b": {"base_url": other.base_url, "model": "m"}}
        found = Probe(tmp_path, targets).found("--all", "--calls", "2", code=3)
    assert [each["streams_stop"] for each in found.values()] == [True, False]
    assert [each["phase"] for each in found["a"]["findings"]] == [phase for phase in PHASES for _ in range(2)]


def test_what_is_sent_and_costs_is_said_first_and_nothing_is_sent_without_a_yes(tmp_path: Path) -> None:
    with LabProcess(LAB) as lab:
        target = {"base_url": lab.base_url, "model": "m", "price": {"input": 1, "output": 10}}
        ran = Probe(tmp_path, {"a": target})("a")
        assert lab.stats()["requests"] == 0
    assert ran.returncode == 2
    assert "1 call of at most 16 tokens, and 4 that are cancelled, of at most 400" in ran.stderr
    assert "1616 tokens of answer at most" in ran.stderr
    assert "$0.01636 at most" in ran.stderr
    assert "--yes" in ran.stderr


def test_a_refused_key_and_a_closed_port_are_told_plainly_and_without_the_key(tmp_path: Path) -> None:
    with socket.socket() as nobody, Engine("vllm", key="sk-right") as engine:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        targets = {
            "refused": {"base_url": engine.url + "/v1", "model": "m", "api_key": "sk-wrong"},
            "closed": {"base_url": f"http://127.0.0.1:{port}/v1", "model": "m"},
        }
        ran = Probe(tmp_path, targets)("--all", "--yes")
    assert ran.returncode == 1
    assert "target refused: upstream_auth: " in ran.stderr
    assert "check the target's api_key" in ran.stderr
    assert f"target closed: cannot connect to 127.0.0.1:{port}: TCP: " in ran.stderr
    assert "sk-" not in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "hedgerow.probes.json").exists()


@pytest.mark.parametrize(
    ("target", "arguments", "said"),
    [
        ({"model": "m"}, ("b",), "there is no target b; the targets are a"),
        ({"model": "m"}, (), "name one target, or all of them"),
        ({"model": "m"}, ("a", "--all"), "name one target, or all of them"),
        ({}, ("a",), "takes the client's model: name one with --model"),
        ({"model": "m", "api_key": "passthrough"}, ("a",), "name a variable that holds one with --key-env"),
        ({"model": "m", "protocol": "http"}, ("a",), "has no chat to probe"),
        ({"model": "m"}, ("a", "--format", "xml"), "is not table or json"),
    ],
)
def test_what_cannot_be_probed_is_said(tmp_path: Path, target: dict[str, Any], arguments: Any, said: str) -> None:
    probe = Probe(tmp_path, {"a": {"base_url": "http://127.0.0.1:9/v1", **target}})
    if target.get("protocol") == "http":
        settings = json.loads((tmp_path / "hedgerow.yaml").read_text())
        settings["routes"]["fast"]["endpoints"] = ["/v1/x"]
        (tmp_path / "hedgerow.yaml").write_text(json.dumps(settings))
    ran = probe(*arguments, "--yes")
    assert ran.returncode == 2
    assert said in " ".join(ran.stderr.replace("│", " ").split())


def test_the_clients_key_is_taken_from_the_environment(scenes: Scenes) -> None:
    scene = scenes["client's key", True].result()
    assert scene.found()["streams_stop"] is True
    assert "sk-right" not in scene.ran.stdout + scene.ran.stderr + scene.kept
