"""hedgerow itself: two targets, model rewritten, hedging on with the delay out of reach, everything else as shipped."""

import platform
import subprocess
import sys
from pathlib import Path

import hedgerow
from bench.install import PEERS_HOME, pip_into
from bench.peer import Installed, Launch, Peer, Setup

_CONFIG = """\
targets:
  first: {{protocol: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: sk-bench-1, model: bench-upstream}}
  second: {{protocol: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: sk-bench-2, model: bench-upstream}}
routes:
  bench: {{targets: [first, second], hedge: {{delay: 60s}}, timeouts: {{first_token: 90s, stall: 90s, total: 600s}}}}
server: {{listen: "127.0.0.1:{port}"}}
"""


_ROOT = Path(__file__).parents[2]
_DISTRIBUTION = Path("/usr/bin/python3")


def _interpreter() -> tuple[Path, str]:
    """The distribution's Python where it is new enough, as most users run it; else our own.

    Distributions build theirs with profile-guided optimisation; one built from source by a version manager usually is
    not, and costs a tenth more in each call.
    """
    ask = "import platform, sys; print(int(sys.version_info >= (3, 11)), platform.python_version())"
    if _DISTRIBUTION.exists():
        asked = subprocess.run([_DISTRIBUTION, "-c", ask], capture_output=True, text=True, check=False)
        fit, _, version = asked.stdout.strip().partition(" ")
        if fit == "1":
            return _DISTRIBUTION, f"the distribution's CPython {version}"
    return Path(sys.executable), f"CPython {platform.python_version()}"


def _install() -> Installed:
    """The working tree, with its locked requirements for the interpreter that runs it."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    python, about = _interpreter()
    if python != Path(sys.executable):
        pip_into("hedgerow", python, _ROOT / "requirements" / "run.txt")
    commit = asked.stdout.strip()
    version = f"{hedgerow.__version__} ({commit})" if commit else hedgerow.__version__
    return Installed(version=f"{version}, {about}", program=python)


def _launch(installed: Installed, setup: Setup) -> Launch:
    config = setup.write("hedgerow.yaml", _CONFIG.format(port=setup.port, upstream=setup.upstream))
    env = {}
    if installed.program != Path(sys.executable):
        env["PYTHONPATH"] = f"{PEERS_HOME / 'hedgerow' / 'site'}:{_ROOT / 'src'}"
    return Launch(argv=(str(installed.program), "-m", "hedgerow", "serve", "--config", config), env=env)


HEDGEROW = Peer(
    name="hedgerow", about="two targets, hedging on (delay 60 s), model rewritten", install=_install, launch=_launch
)
