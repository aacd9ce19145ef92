"""How long people wait for a plan, in seconds that a core is busy: what else a machine does counts little.

`make bench-planner` measures more of it, and against a log of 100,000 rows.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def busy(*command: str | Path) -> float:
    """Seconds that this command and all its processes keep cores busy."""
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_first_report_is_there_in_ten_seconds(tmp_path: Path) -> None:
    """That of the tutorial, with its page and its plots."""
    page = tmp_path / "plan.html"
    took = busy("-m", "hedgerow", "plan", EXAMPLES / "latency-log.csv", "--output", page)
    assert page.stat().st_size > 50_000
    assert took < 10.0


def test_the_search_over_a_long_log_is_short(tmp_path: Path) -> None:
    """100,000 rows and four budgets are to take two cores 30 s; this is a fifth of the rows, and one budget."""
    log = tmp_path / "log.csv"
    made = subprocess.run(
        [sys.executable, EXAMPLES / "latency_log.py", "--requests", "20000"], capture_output=True, text=True, check=True
    )
    log.write_text(made.stdout)
    assert busy("-m", "hedgerow", "plan", log, "--jobs", "1", "--format", "json", "--budget", "5%") < 8.0
