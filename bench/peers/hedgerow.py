"""hedgerow itself: two targets, model rewritten, hedging on with the delay out of reach, everything else as shipped."""

import subprocess
import sys
from pathlib import Path

import hedgerow
from bench.peer import Installed, Launch, Peer, Setup

_CONFIG = """\
targets:
  first: {{protocol: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: sk-bench-1, model: bench-upstream}}
  second: {{protocol: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: sk-bench-2, model: bench-upstream}}
routes:
  bench: {{targets: [first, second], hedge: {{delay: 60s}}, timeouts: {{first_token: 90s, stall: 90s, total: 600s}}}}
server: {{listen: "127.0.0.1:{port}"}}
"""


def _install() -> Installed:
    """The working tree; nothing to install."""
    root = Path(__file__).parents[2]
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=False
    )
    commit = asked.stdout.strip()
    return Installed(
        version=f"{hedgerow.__version__} ({commit})" if commit else hedgerow.__version__, program=Path(sys.executable)
    )


def _launch(installed: Installed, setup: Setup) -> Launch:
    config = setup.write("hedgerow.yaml", _CONFIG.format(port=setup.port, upstream=setup.upstream))
    return Launch(argv=(str(installed.program), "-m", "hedgerow", "serve", "--config", config))


HEDGEROW = Peer(
    name="hedgerow", about="two targets, hedging on (delay 60 s), model rewritten", install=_install, launch=_launch
)
