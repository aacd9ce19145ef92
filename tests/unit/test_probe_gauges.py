"""Judging by gauges in virtual time: what a server may say while an answer goes on, stops, or is somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hedgerow.probe.asking import Asked
from hedgerow.probe.calling import Heard
from hedgerow.probe.witness import Cancelled, Said
from hedgerow.probe.witness_gauges import GaugeWitness, Look, samples
from hedgerow.testing import VirtualLoop, run_virtual
from hedgerow.wire import lookup

CANCELLED, ENDS = 10.0, 14.0
"""When it is cancelled, with 10 of 400 tokens here, and when it would be whole, at 100 a second."""

Says = Callable[[float], Look | None]


def judged(says: Says, *, live: bool = True) -> tuple[str | None, Said, float]:
    """Why nothing can be told, what is said, and how long after the cancel. `says` is told the time since that."""

    async def main(loop: VirtualLoop) -> tuple[str | None, Said, float]:
        async def look() -> Look | None:
            return says(loop.time() - CANCELLED)

        witness = GaugeWitness("a server", look, live=live)
        blind = await witness.before()
        await asyncio.sleep(CANCELLED - loop.time())
        said = await witness.after(Cancelled(_heard(loop), "key", CANCELLED, ENDS, 400, 10, 0.0))
        return blind, said, loop.time() - CANCELLED

    return run_virtual(main)


def _heard(loop: VirtualLoop) -> Heard:
    path, body = b"/v1/chat/completions", b'{"model":"m","messages":[]}'
    protocol = lookup(b"POST", path)
    return Heard(Asked(protocol, protocol.facts(path, body), path, body), loop.time)


def made(t: float, *, until: float = 3.9) -> int:
    """Tokens at this time after the cancel, for an engine that goes on until then."""
    return 0 if t < -0.1 else int(10 + 100 * min(max(t, 0.0), until))


def test_idle_for_a_second_is_stopped() -> None:
    blind, said, after = judged(lambda t: Look(int(-0.1 < t < 0.2), made(t, until=0.2)))
    assert blind is None
    assert (said.stopped, said.tokens_after) == (True, 20)
    assert said.noticed_at == pytest.approx(CANCELLED + 0.2, abs=0.06)
    assert after == pytest.approx(1.2, abs=0.11)


def test_half_of_what_was_left_is_going_on_and_not_waited_for() -> None:
    _, said, after = judged(lambda t: Look(int(t > -0.1), made(t)))
    assert (said.stopped, said.tokens_after) == (False, 195)
    assert after == pytest.approx(1.95, abs=0.06)


def test_one_that_stops_late_has_stopped() -> None:
    _, said, _ = judged(lambda t: Look(int(-0.1 < t < 1.5), made(t, until=1.5)))
    assert (said.stopped, said.tokens_after) == (True, 150)


def test_a_gauge_that_hangs_is_not_believed_against_tokens_that_stand_still() -> None:
    _, said, _ = judged(lambda t: Look(int(t > -0.1), made(t, until=0.1)))
    assert (said.stopped, said.note) == (True, "it says that it is busy, but generates nothing")


def test_where_whole_answers_are_counted_only_a_whole_one_tells() -> None:
    _, said, _ = judged(lambda t: Look(int(-0.1 < t < 3.9), 400 if t >= 3.9 else 0), live=False)
    assert (said.stopped, said.tokens_after) == (False, 390)
    _, said, _ = judged(lambda t: Look(int(-0.1 < t < 3.9), 100 if t >= 3.9 else 0), live=False)
    assert said.stopped is False
    _, said, _ = judged(lambda t: Look(int(-0.1 < t < 0.2), 0), live=False)
    assert (said.stopped, said.tokens_after) == (True, None)
    _, said, _ = judged(lambda t: Look(int(t > -0.1), 0), live=False)
    assert (said.stopped, said.note) == (None, "it says that it is busy, and has not counted the tokens")


def test_without_tokens_being_busy_to_the_end_is_going_on() -> None:
    _, said, _ = judged(lambda t: Look(int(t > -0.1), None))
    assert said.stopped is False
    _, said, _ = judged(lambda t: Look(int(-0.1 < t < 0.5), None))
    assert said.stopped is True


def test_others_at_work_make_it_blind() -> None:
    blind, _, _ = judged(lambda t: Look(3 if t < -1 else 0, 0))
    assert blind == "it works on 3 requests of others"
    blind, said, _ = judged(lambda t: Look(2 if t > 0.3 else 0, 0))
    assert (blind, said.stopped) == (None, None)
    assert said.note == "it works on 2 requests, so on others' too"


def test_one_that_falls_silent_tells_nothing() -> None:
    blind, said, _ = judged(lambda _t: None)
    assert blind == "it says no more what it does"
    assert (said.stopped, said.note) == (None, "it did not say what it does")


def test_a_page_of_metrics_is_summed_over_its_labels() -> None:
    page = (
        b"# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        b"# TYPE vllm:num_requests_running gauge\n"
        b'vllm:num_requests_running{engine="0",model_name="a b} c"} 1.0\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} 2.0 1700000000\n'
        b"llamacpp:requests_processing 3\nodd_one 1e3\nnone NaN\n"
    )
    found = samples(page)
    assert found[b"vllm:num_requests_running"] == 3.0
    assert (found[b"llamacpp:requests_processing"], found[b"odd_one"]) == (3.0, 1000.0)
    assert b"none" not in found


def test_one_that_is_slower_than_it_was_is_waited_for() -> None:
    _, said, after = judged(lambda t: Look(int(t > -0.1), 0 if t < -0.1 else int(10 + 12 * max(t, 0.0))))
    assert (said.stopped, said.tokens_after) == (False, 195)
    assert after == pytest.approx(195 / 12, abs=0.2)


def test_what_went_on_is_not_taken_for_the_work_of_others() -> None:
    async def main(loop: VirtualLoop) -> None:
        async def look() -> Look | None:
            return Look(int(loop.time() < 15.0), int(100 * min(loop.time(), 15.0)))

        witness = GaugeWitness("a server", look, live=True)
        witness._tokens = 0
        said = await witness.after(Cancelled(_heard(loop), "key", 0.0, 4.0, 400, 0, 0.0))
        assert said.stopped is False
        assert await witness.before() is None
        assert loop.time() == pytest.approx(15.0, abs=0.06)

    run_virtual(main)


def test_what_had_been_made_of_a_whole_answer_does_not_count_as_going_on() -> None:
    def late(t: float) -> Look:
        return Look(int(-0.1 < t < 0.2), 0 if t < -0.1 else 300)

    _, said, _ = judged(late)
    assert (said.stopped, said.tokens_after) == (True, 0)
    _, said, _ = judged(lambda t: Look(int(t > -0.1), 0 if t < -0.1 else min(400, 300 + int(100 * max(t, 0.0)))))
    assert (said.stopped, said.tokens_after) == (False, 50)


def test_one_that_was_nearly_whole_tells_nothing() -> None:
    _, said, _ = judged(lambda t: Look(0, 0 if t < -0.1 else 395))
    assert (said.stopped, said.note) == (None, "its answer was nearly whole when it was cancelled")
