"""TensorZero (Rust): the gateway that its wheel embeds, one model with one OpenAI provider, observability off."""

from pathlib import Path

from bench.install import pip, pip_version
from bench.peer import Installed, Launch, Peer, Setup

_CONFIG = """\
[gateway]
observability.enabled = false

[models.bench]
routing = ["upstream"]

[models.bench.providers.upstream]
type = "openai"
model_name = "bench-upstream"
api_base = "http://127.0.0.1:{upstream}/v1/"
api_key_location = "env::OPENAI_API_KEY"
"""


def _install() -> Installed:
    folder = pip("tensorzero", "tensorzero==2026.6.0", "openai>=2,<3")
    return Installed(version=pip_version(folder, "tensorzero"), program=folder / "python")


def _launch(installed: Installed, setup: Setup) -> Launch:
    config = setup.write("tensorzero.toml", _CONFIG.format(upstream=setup.upstream))
    port_file = setup.work / "port"
    script = str(Path(__file__).with_name("tensorzero_serve.py"))
    env = {"OPENAI_API_KEY": "sk-bench", "PYTHONWARNINGS": "ignore", "RUST_LOG": "error"}
    # -P: this folder, with a tensorzero.py in it, must stay off the import path.
    return Launch(argv=(str(installed.program), "-P", script, config, str(port_file)), env=env, port_file=port_file)


TENSORZERO = Peer(
    name="tensorzero",
    about="Rust; gateway embedded in the wheel, observability off",
    install=_install,
    launch=_launch,
    path="/openai/v1/chat/completions",
    model="tensorzero::model_name::bench",
)
