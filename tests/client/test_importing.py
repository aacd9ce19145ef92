"""What importing hedgerow costs who only hedges: little, and no package but the one that is declared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import hedgerow

LOOK = """
import json, sys, time
began = time.process_time()
{code}
took = time.process_time() - began
print(json.dumps([took, sorted(sys.modules)]))
"""


def importing(code: str) -> tuple[float, list[str]]:
    """Seconds of CPU, the least of some runs, and all modules that are there then."""
    runs = []
    for _ in range(5):
        command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n" + LOOK.format(code=code)]
        runs.append(json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout))
    return min(took for took, _ in runs), runs[0][1]


def others(modules: list[str]) -> set[str]:
    """Packages that are neither Python's nor ours."""
    tops = {each.partition(".")[0] for each in modules}
    return (
        {each for each in tops if not each.startswith("_")}
        - set(sys.stdlib_module_names)
        - {"hedgerow", "sitecustomize"}
    )


def test_importing_hedgerow_takes_less_than_sixty_milliseconds_and_nothing_else() -> None:
    took, modules = importing("import hedgerow")
    assert took < 0.060
    assert others(modules) == set()


def test_hedging_imports_little_more_than_asyncio_and_msgspec() -> None:
    """A count, which is the same on every machine: a module of ours is some 0.3 ms where its bytecode is kept."""
    _, before = importing("import asyncio, msgspec")
    _, after = importing("import asyncio, msgspec; from hedgerow import Hedger, hedge, hedged, race")
    more = set(after) - set(before)
    assert {each.partition(".")[0].lstrip("_") for each in more} <= {
        "array", "bisect", "blake2", "copy", "hashlib", "hedgerow", "random", "sha2", "sha512", "zlib",
    }  # fmt: skip
    assert len([each for each in more if each.startswith("hedgerow")]) <= 100


def test_hedging_needs_msgspec_only_and_nothing_of_the_gateway() -> None:
    _, modules = importing("from hedgerow import Hedger, hedge, hedge_sync, hedged, hedged_completion")
    assert others(modules) <= {"msgspec", "typing_extensions"}  # which msgspec takes where it is there
    ours = {each.split(".")[1] for each in modules if each.startswith("hedgerow.")}
    assert ours.isdisjoint({"gateway", "http", "config", "cli", "lab", "ledger", "telemetry"})
    assert "hedgerow.wire.protocols" not in modules


def test_every_public_name_is_there() -> None:
    for name in hedgerow.__all__:
        assert getattr(hedgerow, name).__name__ == name
    assert set(hedgerow.__all__) <= set(dir(hedgerow))
    assert not hasattr(hedgerow, "nothing")


def test_all_that_can_be_imported_comes_by_a_star() -> None:
    _, modules = importing("from hedgerow import *; assert hedge and http_client")
    assert "hedgerow.transports.clients" in modules
    without = "import sys; sys.modules['httptools'] = None; from hedgerow import *; assert hedge and 'Hedger' in dir()"
    _, modules = importing(f"{without}; assert 'http_client' not in dir()")
    assert "hedgerow.transports.clients" not in modules


def test_type_checkers_are_shown_every_public_name() -> None:
    shown = (Path(__file__).parents[1] / "typing" / "public_api.py").read_text()
    assert [name for name in hedgerow.__all__ if len(re.findall(rf"\b{name}\b", shown)) < 2] == []
