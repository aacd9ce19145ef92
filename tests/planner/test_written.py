"""The configuration that a plan writes is the one that it has judged: read again, it comes to the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from hedgerow.config import loads
from hedgerow.planner import scene as scenes
from hedgerow.planner.compare import compare
from hedgerow.planner.fragment import fragment
from hedgerow.planner.log import Log
from hedgerow.planner.plan import Budget, Source
from hedgerow.planner.search import Options, plan
from hedgerow.policy.price import Price

COUNT = 2_000
SOURCE = Source(
    files=("log.csv",),
    format="CSV",
    columns=(),
    read=COUNT,
    used=COUNT,
    bad=(),
    notes=(),
    started_at=None,
    seconds=0.0,
    of_first_token=True,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short logs are gone through twice."""
    monkeypatch.setattr(scenes, "ENOUGH", COUNT * 2)


def log_of(seed: int, *names: str, every: float = 0.2) -> Log:
    """Attempts in turn at targets that have stragglers, failures and an outage."""
    chance, count = np.random.default_rng(seed), COUNT * len(names)
    failed = chance.random(count) < 0.01
    failed[count // 2 : count // 2 + 60 * len(names) : len(names)] = True
    took = chance.lognormal(0.0, 0.8, count)
    return Log(
        at=np.arange(float(count)) * every / len(names),
        ttft=np.where(failed, np.nan, took),
        failed=failed,
        input_tokens=chance.choice([100, 3_000, 20_000], count),
        target=np.arange(count) % len(names),
        request=np.full(count, -1),
        targets=list(names),
        timed=True,
        of_first_token=True,
    )


PRICES = {name: Price.parse("1", "4") for name in ("here", "there")}
SHARES = Options(budgets=[Budget(share=0.02), Budget(share=0.2)])


@pytest.mark.parametrize(
    ("names", "every", "options"),
    [
        (("here",), 0.2, SHARES),
        (("here", "there"), 0.2, replace(SHARES, target=0.95, min_delay=0.2, max_delay=2.0)),
        (("here", "there"), 0.2, Options(budgets=[Budget(usd_per_1000=0.5)], prices=PRICES)),
        (("here",), 300.0, Options(budgets=[Budget(share=0.1)], target=0.95)),
        (("open eu m", "open us m"), 300.0, Options(budgets=[Budget(share=0.1)], target=0.95)),
    ],
)
def test_what_is_written_comes_to_the_numbers_that_were_judged(
    names: tuple[str, ...], every: float, options: Options, tmp_path: Path
) -> None:
    log = log_of(1, *names, every=every)
    found = plan(log, SOURCE, options)
    (route,) = found.routes
    for index, option in enumerate(route.options):
        one = msgspec.structs.replace(found, routes=(msgspec.structs.replace(route, recommended=index),))
        path = tmp_path / f"{index}.yaml"
        path.write_text(fragment(one))
        called = loads(path.read_text(), {}).targets
        asked = dict.fromkeys([route.primary, option.choice.backup])
        (judged,) = compare(log, SOURCE, [path], dict(zip(asked, called, strict=True)), options, _quiet).judged
        assert judged.expected == option.expected


def _quiet(*_: object) -> None:
    pass
