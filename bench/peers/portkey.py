"""Portkey (Node): the open-source gateway with its log page off. The pins of hono are what makes its streaming work."""

import json
import shutil
from pathlib import Path

from bench.install import CannotInstall, npm
from bench.peer import Installed, Launch, Peer, Setup

_PACKAGE = "@portkey-ai/gateway"


def _install() -> Installed:
    if not shutil.which("node"):
        raise CannotInstall("node is not on this machine")
    home = npm("portkey", _PACKAGE, "1.15.2", {"@hono/node-server": "1.13.5", "hono": "4.9.7"})
    package = home / "node_modules" / _PACKAGE
    version = json.loads((package / "package.json").read_text())["version"]
    return Installed(version=version, program=package / "build" / "start-server.js")


def _launch(installed: Installed, setup: Setup) -> Launch:
    return Launch(
        argv=("node", str(Path(installed.program)), f"--port={setup.port}", "--headless"),
        env={"NODE_ENV": "production"},
    )


PORTKEY = Peer(
    name="portkey",
    about="Node; headless",
    install=_install,
    launch=_launch,
    headers=lambda setup: {
        "authorization": "Bearer sk-bench",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"http://127.0.0.1:{setup.upstream}/v1",
    },
    slow=True,
)
