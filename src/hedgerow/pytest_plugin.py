"""Fixtures for pytest, which finds them by itself. Whatever they need is imported by the tests that ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from hedgerow.extras import install

if TYPE_CHECKING:
    from hedgerow.testing import VirtualLoop
    from hedgerow.testing.labs import Labs


@pytest.fixture
def virtual_loop() -> Iterator[VirtualLoop]:
    """An event loop in virtual time: `virtual_loop.run_until_complete(main())`. What is left running is cancelled."""
    from hedgerow.testing.loop import VirtualLoop

    loop = VirtualLoop()
    try:
        yield loop
    finally:
        loop.end()


@pytest.fixture
def lab() -> Iterator[Labs]:
    """Simulated providers: `lab("primary", script={"fault": "stall"}).base_url`. They end with the test."""
    try:
        from hedgerow.testing.labs import Labs
    except ImportError as missing:
        pytest.fail(f"the fixture `lab` needs {missing.name}: {install('testing')}", pytrace=False)
    with Labs() as labs:
        yield labs
