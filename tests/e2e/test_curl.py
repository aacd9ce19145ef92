"""curl, an HTTP client that none of us wrote."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.support import GatewayProcess, chat, config, script

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl"),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[LabProcess]:
    with LabProcess(["--name", "primary", "--preset", "fast"]) as lab:
        yield lab


@pytest.fixture(scope="module")
def gateway(lab: LabProcess) -> Iterator[GatewayProcess]:
    with GatewayProcess(config(lab.base_url)) as gateway:
        yield gateway


def curl(*arguments: str, code: int = 0) -> tuple[str, str]:
    """What curl prints, and what it says with -v."""
    done = subprocess.run(["curl", "-v", "-sS", "--max-time", "20", *arguments], capture_output=True, timeout=30)
    said = done.stderr.decode()
    assert done.returncode == code, said
    return done.stdout.decode(), said


CONNECTS = ("-w", "%{stderr}connects: %{num_connects}\n")
"""Has curl say how many connections a transfer opened; the words of its log change from version to version."""


def posted(gateway: GatewayProcess, body: bytes, path: str = "/v1/chat/completions") -> list[str]:
    return ["-H", "content-type: application/json", "--data-binary", body.decode(), gateway.url + path]


def test_a_stream_comes_piece_by_piece(gateway: GatewayProcess) -> None:
    command = ["curl", "-N", "-sS", "-H", f"x-lab-script: {script(ttft_ms=1, gap_ms=1, fault='stall', at=3)}"]
    with subprocess.Popen([*command, *posted(gateway, chat(stream=True))], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(8)]  # four events; the fifth never comes
        assert process.poll() is None
        process.kill()
    assert [json.loads(line[6:])["choices"][0]["delta"] for line in lines[::2]] == [
        {"role": "assistant", "content": ""},
        {"content": "primary"},
        {"content": " A"},
        {"content": " hedge"},
    ]


def test_a_broken_stream_makes_curl_fail(gateway: GatewayProcess) -> None:
    headers = ["-N", "-H", f"x-lab-script: {script(ttft_ms=1, gap_ms=1, fault='cut', at=3)}"]
    out, said = curl(*headers, *posted(gateway, chat(stream=True)), code=18)
    assert "[DONE]" not in out
    assert "transfer closed with outstanding read data remaining" in said


def test_a_large_upload_waits_for_100_continue(gateway: GatewayProcess, tmp_path: Path) -> None:
    body = b'{"model":"other","input":"' + b"x" * 2_000_000 + b'"}'
    (tmp_path / "body").write_bytes(body)
    out, said = curl(
        *("-H", "expect: 100-continue", "--expect100-timeout", "15", "-H", "content-type: application/json"),
        *("--data-binary", f"@{tmp_path / 'body'}", gateway.url + "/v1/files"),
    )
    assert "< HTTP/1.1 100 Continue" in said
    echo = json.loads(out)
    assert (echo["body_bytes"], echo["body_sha256"]) == (len(body), sha256(body).hexdigest())
    assert "expect" not in dict(echo["headers"])


def test_a_body_beyond_the_limit_is_refused_before_it_is_sent(lab: LabProcess, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"x" * 2_000_000)
    with GatewayProcess(config(lab.base_url, server={"limits": {"body_bytes": "1MB"}})) as gateway:
        out, said = curl(
            *("-H", "expect: 100-continue", "--expect100-timeout", "15"),
            *("--data-binary", f"@{tmp_path / 'body'}", gateway.url + "/v1/chat/completions"),
        )
    assert "100 Continue" not in said
    assert "< HTTP/1.1 413 " in said
    assert json.loads(out)["error"]["type"] == "invalid_request_error"


def test_http_1_0_gets_a_whole_answer_and_its_end(gateway: GatewayProcess) -> None:
    out, said = curl("--http1.0", *posted(gateway, chat(max_tokens=3)))
    assert json.loads(out)["choices"][0]["message"]["content"] == "primary A hedge"
    assert re.search(r"(?i)< content-length: \d+", said)
    out, said = curl("--http1.0", *posted(gateway, chat(max_tokens=3, stream=True)))
    assert out.endswith("data: [DONE]\n\n")
    assert "transfer-encoding" not in said.lower()


def test_a_stream_broken_under_http_1_0_makes_curl_fail(gateway: GatewayProcess) -> None:
    headers = ["--http1.0", "-H", f"x-lab-script: {script(ttft_ms=1, gap_ms=1, fault='cut', at=3)}"]
    curl(*headers, *posted(gateway, chat(stream=True)), code=56)  # a reset: the only way to tell it from a whole one


def test_one_connection_carries_one_request_after_another(gateway: GatewayProcess) -> None:
    request = posted(gateway, chat(stream=True, max_tokens=3))
    again = ("--next", "-v", "-sS", *CONNECTS)
    out, said = curl(*CONNECTS, *request, *again, *request, *again, gateway.base_url + "/models")
    assert out.count("data: [DONE]") == 2
    assert re.findall(r"connects: (\d)", said) == ["1", "0", "0"]


def test_a_head_request_ends_without_a_body(gateway: GatewayProcess) -> None:
    models, alive = gateway.base_url + "/models", gateway.url + "/livez"
    out, said = curl("-I", *CONNECTS, models, "--next", "-v", "-sS", *CONNECTS, alive)
    assert re.findall(r"connects: (\d)", said) == ["1", "0"]
    assert out.endswith('{"status":"alive"}')


def test_a_websocket_is_refused_with_what_to_do(gateway: GatewayProcess) -> None:
    asking = ["-H", "Connection: Upgrade", "-H", "Upgrade: websocket"]
    out, said = curl(*asking, gateway.base_url + "/realtime?model=fast")
    assert " 400 " in said
    assert json.loads(out)["error"]["code"] == "unsupported_upgrade"
    assert "Connect to the provider itself" in out
