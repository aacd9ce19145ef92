"""vllm-router (Rust): round robin over one worker, retries and circuit breaker as shipped, limits out of the way."""

from bench.install import pip, pip_version
from bench.peer import Installed, Launch, Peer, Setup


def _install() -> Installed:
    folder = pip("vllm-router", "vllm-router==0.1.17")
    return Installed(version=pip_version(folder, "vllm-router"), program=folder / "vllm-router")


def _launch(installed: Installed, setup: Setup) -> Launch:
    where = ("--host", "127.0.0.1", "--port", str(setup.port), "--prometheus-port", str(setup.port + 1))
    how = ("--policy", "round_robin", "--log-level", "error", "--max-concurrent-requests", "100000")
    return Launch(argv=(str(installed.program), "--worker-urls", f"http://127.0.0.1:{setup.upstream}", *where, *how))


VLLM_ROUTER = Peer(name="vllm-router", about="Rust; round robin", install=_install, launch=_launch)
