"""What is shipped for Prometheus and Grafana asks only for what there is, and the page on metrics lists just that."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hedgerow.telemetry.families import FAMILIES, Kind

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "deploy/grafana/hedgerow.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
PAGE = ROOT / "docs/metrics.md"
SCRAPED = {"instance", "job"}
"""Labels that Prometheus itself adds."""
PROCESS = {
    f"process_{name}"
    for name in (
        "cpu_seconds_total",
        "resident_memory_bytes",
        "virtual_memory_bytes",
        "start_time_seconds",
        "open_fds",
        "max_fds",
    )
}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def dashboard() -> Iterator[tuple[str, str]]:
    """Where each query of the dashboard stands, and what it is with Grafana's variables filled in."""
    values = {"$route": ".*", "$__rate_interval": "5m", "$__range": "1h"}
    for panel in panels():
        for target in panel.get("targets", []):
            query = target["expr"]
            for name, value in values.items():
                query = query.replace(name, value)
            yield f"{panel['title']}.{target['refId']}", query


def alerts() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], re.sub(r"(?m) # .*$", "", rule["expr"])


def documented() -> Iterator[tuple[str, str]]:
    for number, query in enumerate(re.findall(r"```promql\n(.*?)```", PAGE.read_text(), re.DOTALL), 1):
        yield f"docs/metrics.md.{number}", query


QUERIES = [*dashboard(), *alerts(), *documented()]
by_name = pytest.mark.parametrize(("place", "query"), QUERIES, ids=[place for place, _ in QUERIES])


def labels_of(metric: str) -> set[str] | None:
    """The labels of a metric, or of a histogram's buckets, sum and count; None when there is no such metric."""
    if metric in PROCESS:
        return {"pid", *SCRAPED}
    if metric in FAMILIES and FAMILIES[metric].kind is not Kind.HISTOGRAM:
        return {*FAMILIES[metric].labels, *SCRAPED}
    base, _, part = metric.rpartition("_")
    family = FAMILIES.get(base)
    if family is None or family.kind is not Kind.HISTOGRAM or part not in ("bucket", "sum", "count"):
        return None
    return {*family.labels, *SCRAPED} | ({"le"} if part == "bucket" else set())


def unknown_in(query: str) -> list[str]:
    """The metrics and labels of a query that do not exist."""
    unknown = []
    labels: set[str] = set()
    for metric, selector in re.findall(r"\b((?:hedgerow|process)_\w+)(?:\{([^}]*)\})?", query):
        known = labels_of(metric)
        if known is None:
            unknown.append(metric)
            continue
        labels |= known
        used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)
        unknown += [f"{metric}{{{label}}}" for label in used if label not in known]
    for group in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", query):
        unknown += [f"by ({label})" for label in re.split(r"\s*,\s*", group.strip()) if label not in labels]
    return unknown


@by_name
def test_a_query_names_metrics_and_labels_that_exist(place: str, query: str) -> None:
    assert re.search(r"\b(hedgerow|process)_", query)
    assert unknown_in(query) == []


def test_an_unknown_metric_or_label_would_be_found() -> None:
    assert unknown_in("rate(hedgerow_hedge_total[5m])") == ["hedgerow_hedge_total"]
    assert unknown_in("hedgerow_first_token_seconds") == ["hedgerow_first_token_seconds"]
    assert unknown_in('hedgerow_breakers{model="x"}') == ["hedgerow_breakers{model}"]
    assert unknown_in("sum by (tenant) (hedgerow_breakers)") == ["by (tenant)"]


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", []))


@pytest.mark.parametrize(
    "asked", ["Hedge rate", "Win rate", "p50", "p95", "p99", "Cost", "per second saved", "Budget", "Breakers"]
)
def test_the_dashboard_shows(asked: str) -> None:
    assert any(asked in panel["title"] for panel in panels())


def rows() -> dict[str, tuple[str, list[str]]]:
    """The metrics that the page documents: type and labels."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 4 and (named := re.fullmatch(r"`(hedgerow_\w+)`", cells[0])):
            found[named[1]] = cells[1], re.findall(r"`(\w+)`", cells[2])
    return found


def test_every_metric_is_documented_with_its_type_and_labels_and_no_other_is() -> None:
    assert rows() == {name: (family.kind.value, list(family.labels)) for name, family in FAMILIES.items()}
    assert set(re.findall(r"`(process_\w+)`", PAGE.read_text())) == PROCESS


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name, family in FAMILIES.items():
        assert re.fullmatch(r"hedgerow_[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert not re.search(r"_(ms|millis|us|kb|mb|usd|percent)(_|$)", name), "base units only"
        assert "le" not in family.labels
        assert list(family.bounds) == sorted(set(family.bounds))


def promtool(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *command], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@needs_promtool
def test_the_alerts_are_sound_and_do_what_they_say() -> None:
    checked = promtool("check", "rules", "alerts.yaml", cwd=ALERTS.parent)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", "alerts_test.yaml", cwd=ALERTS.parent)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@needs_promtool
@pytest.mark.parametrize("name", [name for name, _ in alerts()])
def test_each_alert_has_a_test_that_fails_when_it_never_fires(name: str, tmp_path: Path) -> None:
    rules = yaml.safe_load(ALERTS.read_text())
    for rule in rules["groups"][0]["rules"]:
        if rule["alert"] == name:
            rule["expr"] = f"({re.sub('(?m) # .*$', '', rule['expr'])}) and on () vector(0) > 1"
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    tests = yaml.safe_load(ALERTS.with_name("alerts_test.yaml").read_text())
    tests["tests"] = [
        test for test in tests["tests"] if any(rule["alertname"] == name for rule in test["alert_rule_test"])
    ]
    (tmp_path / "alerts_test.yaml").write_text(yaml.safe_dump(tests))
    tested = promtool("test", "rules", "alerts_test.yaml", cwd=tmp_path)
    assert tested.returncode != 0
    assert name in tested.stdout + tested.stderr


@needs_promtool
def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": query} for number, (_, query) in enumerate(QUERIES)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    checked = promtool("check", "rules", "rules.yaml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


def test_each_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert {"summary", "description"} == set(rule["annotations"])
