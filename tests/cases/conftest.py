"""All cases are run once, for all tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cases.files import load
from tests.cases.run import Result, run_cases

CASES = load(Path(__file__).parent)


@pytest.fixture(scope="session")
def results() -> Mapping[str, Result]:
    """What came of each case, by its id."""
    return {result.case.id: result for result in asyncio.run(run_cases(CASES))}
