"""What holds for all tests.

They talk to this machine only, so no proxy of the environment may stand between. Properties have no deadline per
example, since a busy machine is no fault; in CI their examples are the same in each run, so that a red run is a change.
What is started in the background of a shell ignores SIGINT, and so does all that it starts: here that is undone, since
hedgerow leaves it as it finds it and tests send it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from hedgerow.lab.process import LabProcess
from tests.e2e.support import Labs

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="module")
def running() -> Iterator[Labs]:
    """A primary and a backup."""
    with LabProcess(["--name", "primary"]) as primary, LabProcess(["--name", "backup"]) as backup:
        yield primary, backup


@pytest.fixture
def labs(running: Labs) -> Labs:
    """The same, with new books."""
    for lab in running:
        lab.reset()
    return running


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each file's tests run in one process; so do all of `tests/cases`, whose cases are run once for all of them."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            cases = "tests/cases/"
            return cases if nodeid.startswith(cases) else super()._split_scope(nodeid)

    return ByFile(config, log)
