"""A real Prometheus scrapes a live gateway and answers every query that is shipped: dashboard, alerts, the page."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hedgerow.lab.process import LabProcess
from tests.e2e.support import Config, GatewayProcess, script, until
from tests.e2e.test_metrics import BODY, free_port
from tests.unit.test_dashboards import ALERTS, QUERIES

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="prometheus is not installed (Debian: apt-get install prometheus)"
    ),
]
SCRAPES_EVERY = 0.25
"""Seconds."""
TOKEN = "a-scrapers-own-token"
QUICK, SLOW = script(ttft_ms=0, gap_ms=0, tokens=3), script(ttft_ms=250, gap_ms=0, tokens=3)
FAILS = script(status=500)
RARE = {
    "HedgerowThrashing", "HedgerowBudgetExhausted", "HedgerowBreakerOpen", "HedgerowTargetOut", "HedgerowCancelFailure",
    "HedgerowExtraCostHigh", "HedgerowCostAnomaly", "HedgerowRecordsLost", "HedgerowFirstTokenSlow",
    "HedgerowLedgerBehind", "HedgerowReloadFailed", "HedgerowLoopLag",
    "Delay in force.A",  # it is fixed here
    "Rate limits left.A",  # the lab reports none
    "Targets out, or deaf to cancelling.B",  # nobody has probed
}  # fmt: skip
"""Queries that have no answer while all is well."""


def settings(primary: LabProcess, backup: LabProcess) -> Config:
    price = {"input": 0.25, "output": 2}
    return {
        "targets": {
            "primary": {"base_url": primary.base_url, "price": price},
            "backup": {"base_url": backup.base_url, "price": price},
        },
        "routes": {
            "fast": {
                "targets": ["primary", "backup"],
                "hedge": {"delay": "50ms", "budget": "50%", "burst": 5},
                "experiment": {"holdout": "50%"},
                "spend": {"usd_per_day": 20},
            }
        },
        "server": {
            "listen": "127.0.0.1:0",
            "event_log": "events.jsonl",
            "ledger": {"url": "sqlite:///ledger.db"},
            "metrics": {"token": TOKEN},
        },
    }


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that has scraped a gateway with traffic, more than once."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "token").write_text(TOKEN)
    shutil.copy(ALERTS, folder)
    with (
        LabProcess(["--name", "primary"]) as primary,
        LabProcess(["--name", "backup"]) as backup,
        GatewayProcess(settings(primary, backup)) as gateway,
    ):
        at = "{}:{}".format(*gateway.address)
        scrape = {
            "job_name": "hedgerow",
            "authorization": {"credentials_file": str(folder / "token")},
            "static_configs": [{"targets": [at]}],
        }
        written = {
            "global": dict.fromkeys(("scrape_interval", "evaluation_interval"), f"{1000 * SCRAPES_EVERY:g}ms"),
            "rule_files": ["alerts.yaml"],
            "scrape_configs": [scrape],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(written))
        address = f"127.0.0.1:{free_port()}"
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={address}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            url = f"http://{address}"
            until(lambda: is_up(url), within=30.0, every=0.05)
            for _ in range(3):  # a rate needs two scrapes, with something between them
                for first in [QUICK] * 8 + [SLOW] * 8 + [FAILS]:
                    ask(gateway, **{"x-lab-script-primary": first, "x-lab-script-backup": QUICK})
                time.sleep(2.1 * SCRAPES_EVERY)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def ask(gateway: GatewayProcess, **headers: str) -> None:
    request = urllib.request.Request(f"{gateway.base_url}/chat/completions", BODY, headers)
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.read().endswith(b"data: [DONE]\n\n")


def is_up(url: str) -> bool:
    try:
        return len(query(url, "up == 1")) == 1
    except OSError:
        return False


def query(url: str, text: str) -> list[Any]:
    """The series that answer it."""
    asked = urllib.parse.urlencode({"query": text})
    with urllib.request.urlopen(f"{url}/api/v1/query?{asked}", timeout=20) as response:
        answer = json.load(response)
    assert answer["status"] == "success"
    result: list[Any] = answer["data"]["result"]
    return result


@pytest.mark.parametrize(("place", "text"), QUERIES, ids=[place for place, _ in QUERIES])
def test_a_query_has_an_answer(prometheus: str, place: str, text: str) -> None:
    found = query(prometheus, text)
    if place not in RARE:
        assert found
        assert [each for each in found if each["value"][1] != "NaN"]


def test_the_alerts_are_loaded_and_none_is_faulty(prometheus: str) -> None:
    with urllib.request.urlopen(f"{prometheus}/api/v1/rules", timeout=20) as response:
        groups = json.load(response)["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"])
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
