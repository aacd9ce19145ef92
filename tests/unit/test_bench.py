"""The benchmark's arithmetic, and that its load generator counts wrong answers."""

import os
import shutil
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.driver import SOURCES, LoadGenerator, Result, Run, build
from bench.goals import GOALS, verdicts
from bench.install import CannotInstall, run
from bench.peer import Installed, Launch, Peer, Setup
from bench.peers import ALL
from bench.plan import JSON_64, Plan
from bench.process import Wrong, free_port, started
from bench.record import Candidate, Figure, figure, ratio

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator needs a C compiler")

CORE = min(os.sched_getaffinity(0))

_OK = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
_JSON = Run(JSON_64, "json", 2, duration=0.1, warm=0.05)
_STREAM = Run("stream", "sse", 2, duration=0.1, warm=0.05, chunks=3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("loadgen"))


@pytest.fixture
def load(program: Path) -> Iterator[LoadGenerator]:
    generator = LoadGenerator(
        program, core=CORE, upstream_port=free_port(), path="/v1/chat/completions", model="bench", headers={}
    )
    with generator:
        yield generator


def _against(load: LoadGenerator, run: Run, answer: bytes) -> Result:
    """Measures a server that always gives the same answer and then closes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        result = load.measure(run, port=server.server_address[1], spin=False)
        server.shutdown()
    return result


def test_the_load_generator_compiles_without_a_warning() -> None:
    flags = "-O2 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsyntax-only"
    run(["cc", *flags.split(), *map(str, sorted(SOURCES.glob("*.c")))], cwd=SOURCES)


def test_the_mock_upstream_answers_json_rightly(load: LoadGenerator) -> None:
    result = load.measure(_JSON, port=load.upstream_port, spin=False)
    assert (float(result["requests"]) > 0, result["errors"]) == (True, 0)


@pytest.mark.parametrize("window", [0, 1, 2])
def test_the_mock_upstream_streams_rightly(load: LoadGenerator, window: int) -> None:
    plan = Run("stream", "sse", 2, duration=0.1, warm=0.05, chunks=3, window=window)
    result = load.measure(plan, port=load.upstream_port, spin=False)
    assert (float(result["chunks"]) > 0, result["errors"]) == (True, 0)


def test_paced_streams_stay_open(load: LoadGenerator) -> None:
    plan = Run("paced", "sse", 5, duration=0.1, warm=0.05, chunks=1000, interval=0.01)
    assert load.measure(plan, port=load.upstream_port, spin=False)["open_streams"] == 5


@pytest.mark.parametrize(
    ("run", "answer", "counter"),
    [
        (_JSON, b"HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno", "bad_status"),
        (_JSON, _OK % (9, b"@1234~end"), "bad_body"),
        (_JSON, b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n@", "cut"),
        (_JSON, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot hex\r\n", "bad_body"),
        (_STREAM, _OK % (14, b"data: [DONE]\n\n"), "bad_body"),
        (_STREAM, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:", "cut"),
    ],
)
def test_the_load_generator_counts_a_wrong_answer(load: LoadGenerator, run: Run, answer: bytes, counter: str) -> None:
    result = _against(load, run, answer)
    assert float(result[counter]) > 0
    assert result["errors"] == result[counter]


def test_a_refused_connection_is_counted(load: LoadGenerator) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        result = load.measure(_JSON, port=bound.getsockname()[1], spin=False)
    assert float(result["connect_failed"]) > 0


def _start(script: str, tmp_path: Path) -> str:
    """Why a candidate that is this Python script does not take part."""

    def launch(installed: Installed, setup: Setup) -> Launch:
        return Launch(argv=(sys.executable, "-c", script, str(setup.port)))

    installed = Installed(version="1", program=Path(sys.executable))
    peer = Peer(name="script", about="", install=lambda: installed, launch=launch)
    setup = Setup(port=free_port(), upstream=1, work=tmp_path / "work")
    with pytest.raises(Wrong) as caught, started(peer, installed, setup, core=CORE):
        pytest.fail("a wrong candidate was measured")
    return str(caught.value)


def test_a_candidate_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    script = "print('starting', flush=True); raise SystemExit('no such option')"
    assert _start(script, tmp_path) == "ended with status 1: no such option"


def test_a_candidate_that_answers_something_else_is_not_measured(tmp_path: Path) -> None:
    script = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
    assert _start(script, tmp_path) == "its JSON answer is not the upstream's"


def test_a_failed_install_gives_the_last_line_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(CannotInstall, match=r"^sh: no space left$"):
        run(["sh", "-c", "echo compiling; echo no space left >&2; exit 3"], cwd=tmp_path)
    with pytest.raises(CannotInstall, match=r"^no-such-program is not on this machine$"):
        run(["no-such-program"], cwd=tmp_path)


def test_figures_are_medians_with_their_spread() -> None:
    assert figure({0: 3.0, 1: 1.0, 2: 2.0}) == Figure(mid=2.0, low=1.0, high=3.0)
    assert figure({}) is None


def test_ratios_are_taken_within_a_round() -> None:
    assert ratio({0: 10.0, 1: 100.0}, {0: 5.0, 1: 50.0, 2: 1.0}) == Figure(mid=2.0, low=2.0, high=2.0)


def test_runs_disturbed_by_other_programs_are_named() -> None:
    candidate = Candidate("nginx", "")
    candidate.add(JSON_64, 0, {"others_util": 0.05})
    assert candidate.disturbed() == ""
    candidate.add(JSON_64, 1, {"others_util": 0.84})
    assert candidate.disturbed() == "1 of 2 runs, at worst 0.84 cores"


def test_every_other_round_runs_backwards_and_slow_peers_stop_early() -> None:
    plan = Plan(peers=ALL, rounds=3, slow_rounds=1, duration=1.0)
    assert list(plan.turn(0)) == list(ALL)
    assert list(plan.turn(1)) == [peer for peer in reversed(ALL) if not peer.slow]


def test_a_goal_without_its_peer_is_not_measured_and_never_ok() -> None:
    assert {verdict.word for verdict in verdicts({})} == {"not measured"}


def test_a_goal_is_short_below_its_bound_and_ok_at_it() -> None:
    def candidates(ours: float) -> dict[str, Candidate]:
        mine, envoy = Candidate("hedgerow", ""), Candidate("envoy", "")
        mine.add(JSON_64, 0, {"rps": ours})
        envoy.add(JSON_64, 0, {"rps": 100.0})
        return {"hedgerow": mine, "envoy": envoy}

    assert GOALS[0].bound == 1.5
    assert verdicts(candidates(150.0))[0].word == "ok"
    assert verdicts(candidates(149.0))[0].word == "short"
