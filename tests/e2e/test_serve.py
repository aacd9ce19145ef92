"""`hedgerow serve` as a process: what it becomes, what others can see of it, what it weighs, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.descriptors import opened
from tests.e2e.support import GatewayProcess, chat, config
from tests.e2e.upstream import LAST_CHUNK, SSE_HEAD, Received, Upstream, chunk, event

pytestmark = pytest.mark.e2e
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

PROVIDER_KEY, HEADER, CLIENT_KEY, PROXY = "sk-of-provider", "header-secret", "key-of-client", "proxy-secret"
SCRIPT = str(Path(sys.executable).parent / "hedgerow")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a configuration full of secrets."""
    settings = config("http://127.0.0.1:9/v1", server={"api_keys": [CLIENT_KEY]})
    settings["targets"]["primary"] |= {
        "api_key": PROVIDER_KEY,
        "headers": {"x-more": HEADER},
        "proxy": f"http://me:{PROXY}@127.0.0.1:9",
    }
    (tmp_path / "hedgerow.yaml").write_text(json.dumps(settings))
    return tmp_path


@contextmanager
def serving(folder: Path, *command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`command` in `folder` once it is ready, and its URL."""
    process = subprocess.Popen(
        [*command, "serve", "--json-ready"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            ready = json.loads(line)
            assert ready["pid"] == process.pid
            yield process, ready["url"]
        finally:
            process.kill()


def models(url: str, key: str) -> list[str]:
    request = urllib.request.Request(f"{url}/v1/models", headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request) as response:
        return [model["id"] for model in json.load(response)["data"]]


@pytest.mark.parametrize("command", [(SCRIPT,), (sys.executable, "-P", "-m", "hedgerow")], ids=["script", "module"])
def test_modules_in_the_working_folder_are_not_imported(folder: Path, command: tuple[str, ...]) -> None:
    for name in ("ssl", "asyncio", "hedgerow", "msgspec", "uvloop"):
        (folder / f"{name}.py").write_text(f"raise SystemExit('imported {name}.py of the working folder')")
    with serving(folder, *command) as (_, url):
        assert models(url, CLIENT_KEY) == ["fast"]


@linux
def test_nobody_else_can_read_a_key_of_the_configuration(folder: Path) -> None:
    with serving(folder, SCRIPT) as (process, url):
        assert models(url, CLIENT_KEY) == ["fast"]
        proc = Path(f"/proc/{process.pid}")
        seen = (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
        assert b"serve\0--json-ready" in seen
        assert [key for key in (PROVIDER_KEY, HEADER, CLIENT_KEY, PROXY) if key.encode() in seen] == []
        assert not [each for each in opened(process.pid) if "memfd" in each]


def test_it_says_on_stderr_what_it_serves_and_ends_well_on_sigterm(folder: Path) -> None:
    with serving(folder, SCRIPT) as (process, url):
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=20)[1]
        assert process.returncode == 0
        assert f"hedgerow serves {url}/v1\n" in said
        assert f"curl -N {url}/v1/chat/completions" in said


@linux
def test_a_serving_process_is_small() -> None:
    with GatewayProcess(config("http://127.0.0.1:9/v1")) as gateway:
        # 29 MB on CPython 3.11; what reads the configuration would add 13.
        assert gateway.memory() < 36e6


@linux
def test_open_streams_keep_nothing_of_their_requests() -> None:
    over = threading.Event()

    def answer(_: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"content": "Hi"}))
        over.wait(20)
        yield chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    body = chat(stream=True, padding="x" * 400_000)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with Upstream(answer) as upstream:
        settings = config(upstream.base_url)
        settings["targets"]["primary"]["model"] = "another"  # so that the body is copied
        with GatewayProcess(settings) as gateway, ExitStack() as clients:
            clients.callback(over.set)
            before = gateway.memory()
            for _ in range(50):
                client = clients.enter_context(socket.create_connection(gateway.address))
                client.sendall(head + body)
                assert client.recv(15, socket.MSG_WAITALL) == b"HTTP/1.1 200 OK"
            # 20 MB came in; a body or two may still lie about.
            assert gateway.memory() - before < 8e6


def refused(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, "serve"], cwd=folder, capture_output=True, text=True, check=False, timeout=20)


def test_an_address_in_use_is_named_and_code_1(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = {"listen": f"127.0.0.1:{port}"}
        (folder / "hedgerow.yaml").write_text(json.dumps(config("http://127.0.0.1:9/v1", server=server)))
        done = refused(folder)
    assert done.returncode == 1
    assert f"127.0.0.1', {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_only_the_serving_process_can_find_wrong_is_bad_configuration_all_the_same(folder: Path) -> None:
    settings = config("https://a.example/v1")
    (folder / "ca.pem").write_text("no certificate")
    settings["targets"]["primary"]["tls"] = {"ca_file": "ca.pem"}
    (folder / "hedgerow.yaml").write_text(json.dumps(settings))
    done = refused(folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hedgerow: targets.primary.tls.ca_file: ca.pem holds no certificate in PEM format\n"
