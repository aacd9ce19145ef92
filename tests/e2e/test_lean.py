"""What a gateway imports while it serves: heavy libraries only once something that needs them is asked for."""

from __future__ import annotations

import asyncio
import re

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.raw import ask
from tests.e2e.support import GatewayProcess, chat, config, script

pytestmark = pytest.mark.e2e

HEAVY = {
    "alembic",
    "duckdb",
    "genai_prices",
    "httpx",
    "jinja2",
    "matplotlib",
    "numpy",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "pydantic",
    "pydantic_core",
    "rich",
    "sqlalchemy",
    "typer",
    "yaml",
}
HEADER = "import time: self [us] | cumulative | imported package"
LATE, QUICK = script(fault="hang"), script(ttft_ms=0, gap_ms=0, tokens=2)


def imported(gateway: GatewayProcess) -> set[str]:
    """Top-level packages that the serving process has imported. The one it was started by said its own before it."""
    said = gateway.log.rpartition(HEADER)[2]
    return {
        name.partition(".")[0] for name in re.findall(r"^import time: +\d+ \| +\d+ \| +([\w.]+)$", said, re.MULTILINE)
    }


def test_a_plain_gateway_needs_no_heavy_library_until_it_is_scraped() -> None:
    async def post(**fields: object) -> int:
        headers = {"x-lab-script-primary": LATE, "x-lab-script-backup": QUICK}
        return (await ask(gateway.address, "POST", "/v1/chat/completions", chat(**fields), headers)).status

    with LabProcess(["--name", "primary"]) as primary, LabProcess(["--name", "backup"]) as backup:
        settings = config(primary.base_url, backup.base_url, delay="20ms")
        with GatewayProcess(settings, environ={"PYTHONPROFILEIMPORTTIME": "1"}) as gateway:
            for fields in ({"stream": True}, {}):
                assert asyncio.run(post(**fields)) == 200
            modules = imported(gateway)
            assert {"hedgerow", "httptools", "msgspec"} <= modules
            assert not HEAVY & modules
            assert asyncio.run(ask(gateway.address, "GET", "/metrics")).status == 200
            assert HEAVY & imported(gateway) == {"prometheus_client"}
