"""LiteLLM proxy (Python): one worker, no database, local price map, telemetry off; the settings that help it."""

from bench.install import pip, pip_version
from bench.peer import Installed, Launch, Peer, Setup

_KEY = "sk-bench-0f4c1f4be8a94f2f9a3a0c6b"  # LiteLLM refuses to start with a weak one
_CONFIG = """\
model_list:
  - model_name: bench
    litellm_params:
      model: openai/bench-upstream
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: sk-bench
litellm_settings: {{telemetry: false, set_verbose: false}}
general_settings: {{master_key: {key}, cancel_on_disconnect: true}}
"""


def _install() -> Installed:
    folder = pip("litellm", "litellm[proxy]==1.108.7")
    return Installed(version=pip_version(folder, "litellm"), program=folder / "litellm")


def _launch(installed: Installed, setup: Setup) -> Launch:
    config = setup.write("litellm.yaml", _CONFIG.format(upstream=setup.upstream, key=_KEY))
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": _KEY, "LITELLM_LOG": "ERROR"}
    where = ("--host", "127.0.0.1", "--port", str(setup.port), "--num_workers", "1")
    return Launch(argv=(str(installed.program), "--config", config, *where), env=env)


LITELLM = Peer(
    name="litellm",
    about="Python; one worker, no database",
    install=_install,
    launch=_launch,
    headers=lambda setup: {"authorization": f"Bearer {_KEY}"},
    slow=True,
)
