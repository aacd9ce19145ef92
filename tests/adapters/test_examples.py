"""The agents of examples/agents run, and their ten chained calls end sooner with hedging than without.

Each needs its framework. Those too heavy for every `make setup-dev`, or at odds with the SDKs here, are skipped, and
say so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "agents"
NEEDS = {
    "langchain_agent.py": "langchain_openai",
    "litellm_agent.py": "litellm",
    "llama_index_agent.py": "llama_index",
    "openai_agents_agent.py": "agents",
    "pydantic_ai_agent.py": "pydantic_ai",
}


def test_every_example_is_run() -> None:
    assert sorted(NEEDS) == sorted(path.name for path in FOLDER.glob("*.py") if path.name != "measure.py")


@pytest.mark.e2e
@pytest.mark.parametrize("name", NEEDS)
def test_ten_chained_calls_end_sooner(name: str) -> None:
    if find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: examples/agents/{name} was NOT run")
    said = subprocess.run(
        [sys.executable, FOLDER / name, "16"],
        env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "dummy"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    found = re.findall(r"(?m)^(\w+ calls?, \w+) +(\d+) +(\d+) +(\d+)$", said.stdout)
    rows = {name: list(map(int, times)) for name, *times in found}
    assert list(rows) == ["one call, without", "one call, hedged", "ten calls, without", "ten calls, hedged"]
    extra = re.search(r"extra calls: (\d+) of 160", said.stdout)
    assert extra is not None
    assert 0 < int(extra[1]) <= 40
    assert sum(rows["ten calls, hedged"]) < sum(rows["ten calls, without"]), said.stdout
