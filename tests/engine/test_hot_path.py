"""What a request that is not hedged may cost, in calls of Python functions: exact on any machine, however busy.

Times are `python -m bench.path`. A call is some 50 ns; most of what the gateway costs a request is its calls.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from bench.path import Path

from hedgerow.gateway.listening import Loudly
from hedgerow.telemetry.metrics import Metrics

JUDGEMENT = ("hedgerow.policy", "hedgerow.hedger", "hedgerow.audience", "hedgerow.wire.limits")


def calls(ask: Callable[[], None]) -> Counter[str]:
    """The functions of hedgerow that are called, by module and name; comprehensions, which come and go, left out."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, what: str, _arg: Any) -> None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if what == "call" and module.startswith("hedgerow.") and not name.startswith("<"):
            counted[f"{module}.{name}"] += 1

    for _ in range(3):  # what is made once is not counted, nor what is looked at ten times a second
        ask()
    sys.setprofile(count)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return counted


def judging(counted: Counter[str]) -> int:
    return sum(times for name, times in counted.items() if name.startswith(JUDGEMENT))


def test_a_whole_answer_costs_few_calls_and_its_judgement_a_quarter_of_them() -> None:
    path = Path()
    counted = calls(path.whole)
    path.close()
    assert counted.total() <= 80, counted
    assert judging(counted) <= 24, counted


def test_a_stream_costs_few_calls_and_its_judgement_no_more_than_a_whole_answers() -> None:
    path = Path()
    counted = calls(lambda: path.stream(16))
    path.close()
    assert counted.total() <= 225, counted  # a dozen are for the usage at its end
    assert judging(counted) <= 25, counted


def test_each_further_token_costs_three_and_a_half_calls() -> None:
    path = Path()
    few, many = calls(lambda: path.stream(16)), calls(lambda: path.stream(16 + 80))
    path.close()
    assert many.total() - few.total() <= 3.5 * 80, many - few


def test_what_is_counted_as_judgement_is_what_a_gateway_without_it_does_not_do() -> None:
    path = Path(judged=False)
    counted = calls(path.whole)
    path.close()
    assert judging(counted) == 0, counted


def test_metrics_make_no_events_of_a_request_that_is_not_hedged_and_count_it_in_few_calls() -> None:
    for ask in (Path.whole, Path.stream):
        plain, counting = Path(), Path(listeners=(Loudly(), Metrics()))
        extra = calls(lambda path=counting, ask=ask: ask(path)) - calls(lambda path=plain, ask=ask: ask(path))  # type: ignore[misc]  # they are bound at once
        plain.close()
        counting.close()
        assert extra.total() <= 16, extra
        assert not [name for name in extra if name.endswith((".ended", ".finished", ".billed"))], extra
