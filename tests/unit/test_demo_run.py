"""The demo's parts that need no processes: load, options, view, report."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import msgspec
import pytest
import typer
from rich.console import Console

from hedgerow.cli import demonstrate
from hedgerow.demo import load, report
from hedgerow.demo.load import arrivals, drive
from hedgerow.demo.options import DemoOptions
from hedgerow.demo.reply import Answer, Reply
from hedgerow.demo.result import CancelLatency, Check, Formula, Result, spread
from hedgerow.demo.source import source
from hedgerow.demo.view import View

CHECK = Check(measured=7.5, formula=7.7, low=6.7, high=8.8, inside=True)


def answer(key: str, first_token: float | None, problem: str | None = None) -> Answer:
    return Answer(
        key=key,
        sent_at=100.0,
        first_token_at=None if first_token is None else 100.0 + first_token,
        text="alpha",
        answer_id="a",
        attempts=1,
        hedged=False,
        target="alpha",
        problem=problem,
    )


def result() -> Result:
    answers = [answer(str(number), number / 1000) for number in range(1, 101)]
    return Result(
        source="preset [odd] name",
        requests=100,
        rate=35.0,
        seed=7,
        speed=10.0,
        delay=0.5,
        without=spread(answers, speed=10.0),
        hedged=spread(answers[:50], speed=10.0),
        hedges=5,
        extra_fraction=0.05,
        tokens_delivered=4000,
        tokens_wasted=3,
        prompt_tokens_wasted=105,
        wasted_cost_fraction=0.0025,
        cancel=CancelLatency(losers=5, p50=0.001, max=0.002),
        added=0.0016,
        held_back=0,
        real_seconds=26.0,
        reproduce="hedgerow demo --seed 7",
        formula=Formula(samples=2000, hedged_fraction=0.05, without=CHECK, hedged=CHECK),
    )


def shown(value: Result) -> str:
    console = Console(file=io.StringIO(), width=200)
    report.show(value, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_arrivals_are_a_pure_function_of_the_seed_at_the_rate_asked_for() -> None:
    times = arrivals(4000, rate=40.0, seed=7)
    assert times == arrivals(4000, rate=40.0, seed=7) == sorted(times)
    assert times != arrivals(4000, rate=40.0, seed=8)
    assert times[-1] == pytest.approx(100.0, rel=0.05)


def test_requests_leave_at_their_time_whether_or_not_others_are_answered() -> None:
    async def main() -> tuple[list[str], int]:
        replies: list[Reply] = []

        def send(key: str, reply: Reply) -> None:
            replies.append(reply)
            if len(replies) == 5:  # nobody is answered before all have left
                for each in reversed(replies):
                    each.on_end()

        done = await drive([0.0, 0.0, 0.001, 0.002, 0.003], send, lambda each: None)
        return [each.key for each in done.answers], done.held_back

    assert asyncio.run(main()) == (["4", "3", "2", "1", "0"], 0)


def test_beyond_the_most_in_flight_arrivals_wait_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "IN_FLIGHT", 1)

    async def main() -> tuple[int, int]:
        open_now: set[str] = set()
        most = 0

        def send(key: str, reply: Reply) -> None:
            nonlocal most
            open_now.add(key)
            most = max(most, len(open_now))
            asyncio.get_running_loop().call_later(0.005, reply.on_end)

        done = await drive([0.0] * 5, send, lambda each: open_now.discard(each.key))
        return most, done.held_back

    assert asyncio.run(main()) == (1, 4)


def test_percentiles_leave_out_answers_that_are_not_whole_and_are_scaled_back() -> None:
    answers = [answer("0", 0.2), answer("1", 0.1), answer("2", None, problem="status 502")]
    assert msgspec.structs.astuple(spread(answers, speed=10.0)) == pytest.approx((1.0, 2.0, 2.0, 2.0, 2.0))
    assert spread([], speed=1.0).p50 == float("inf")


def test_the_report_gives_the_figures_and_how_to_repeat_them() -> None:
    text = shown(result())
    for words in (
        "990 ms",
        "-49 %",
        "5 of 100 requests (5.0 %)",
        "3 generated and 105 of prompts",
        "0.25 % on top of the bill",
        "p50 1 ms, max 2 ms",
        "7.50 s measured, 7.70 s computed; inside",
        "preset [odd] name",
        "replayed 10x faster than life",
        "hedgerow demo --seed 7",
        "every loser saw its cancel",
    ):
        assert words in text


def test_hedges_that_were_skipped_are_told_and_not_compared_with_a_formula_that_knows_no_guards() -> None:
    outside = msgspec.structs.replace(CHECK, measured=13.0, inside=False)
    formula = Formula(samples=2000, hedged_fraction=0.526, without=CHECK, hedged=outside)
    words = shown(msgspec.structs.replace(result(), formula=formula, skipped={"outage": 88, "breaker": 2}))
    assert "skipped hedges  88 (outage: so many requests are later than the delay" in words
    assert "2 (breaker)" in words
    assert "had no hedge been skipped: p99 with 7.70 s, extra attempts 52.6 %; not compared" in words
    assert "outside" not in words
    assert "skipped" not in shown(result())


def test_the_report_of_an_inconsistent_run_says_so_and_does_not_call_it_consistent() -> None:
    text = shown(msgspec.structs.replace(result(), problems=["with hedging: 1 requests are still open at the labs"]))
    assert "inconsistent" in text
    assert "1 requests are still open at the labs" in text
    assert "every loser saw its cancel" not in text


@pytest.mark.parametrize(
    ("value", "words"), [(0.0012, "1 ms"), (0.85, "850 ms"), (0.9999, "1.00 s"), (1.07, "1.07 s"), (13.39, "13.4 s")]
)
def test_seconds_are_written_as_people_do(value: float, words: str) -> None:
    assert report.seconds(value) == words


def test_without_a_terminal_the_view_prints_four_plain_lines_a_phase() -> None:
    console = Console(file=io.StringIO(), width=200)
    with View(console, speed=10.0) as view:
        meter = view.phase("with hedging", 20)
        for number in range(20):
            meter.answered(answer(str(number), 0.1))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [line.split(" answered")[0] for line in lines] == [f"with hedging: {done}/20" for done in (5, 10, 15, 20)]
    assert lines[0].endswith("first token p50 1.00 s, p99 1.00 s so far")


def test_on_a_terminal_the_view_draws_a_bar() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with View(console, speed=1.0) as view:
        view.phase("with hedging", 1).answered(answer("0", 0.1))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[" in console.file.getvalue()
    assert "1/1" in console.file.getvalue()


def test_reproduce_is_the_shortest_command_that_repeats_the_run() -> None:
    assert DemoOptions().reproduce == "hedgerow demo --seed 13"
    options = DemoOptions(
        requests=60, seed=3, delay=0.8, latencies=Path("my log.csv"), where=("run=a",), preset="azure", speed=5.0
    )
    assert options.reproduce == (
        "hedgerow demo --seed 3 --latencies 'my log.csv' --column ttft_ms --where run=a"
        " --requests 60 --speed 5 --delay 0.8"
    )


def test_reproduce_names_the_command_as_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    options = DemoOptions(latencies=Path("my log.csv"), called_as='make demo ARGS="{}"')
    assert options.reproduce == "make demo ARGS=\"--seed 13 --latencies 'my log.csv' --column ttft_ms\""
    asked: list[DemoOptions] = []

    def run(options: DemoOptions, *, as_json: bool) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(demonstrate, "_demo", run)
    monkeypatch.setenv("HEDGEROW_CALLED_AS", 'make demo ARGS="{}"')
    with pytest.raises(typer.Exit):
        demonstrate.demo()
    assert asked[0].reproduce == 'make demo ARGS="--seed 13"'


def test_the_report_says_when_the_machine_was_too_busy_to_judge() -> None:
    assert "busy" not in shown(msgspec.structs.replace(result(), added=0.020))
    assert "too busy to judge: run it again when it is quiet" in shown(msgspec.structs.replace(result(), added=0.021))
    wrong = shown(msgspec.structs.replace(result(), problems=["one is missing"]))
    assert "run it again when it is quiet; if it comes back, it is a bug" in wrong


def test_while_the_demo_stays_it_shows_how_to_force_a_hedge() -> None:
    words = demonstrate._stays("http://127.0.0.1:1", DemoOptions(), 6.0)
    assert (
        "still serving until Ctrl-C, 10x faster than life, so a hedge starts after 600 ms of real time; try:" in words
    )
    assert "-H 'x-lab-script-alpha: {\"ttft_ms\": 18000}' http://127.0.0.1:1/v1/chat/completions" in words


@pytest.mark.parametrize(("preset", "delay"), [("openai", 5.991), ("groq", 0.88), ("anthropic", 5.427)])
def test_the_delay_is_the_published_p95_unless_given(preset: str, delay: float) -> None:
    assert source(DemoOptions(preset=preset)).delay == delay
    assert source(DemoOptions(preset=preset, delay=1.5)).delay == 1.5


def test_the_delay_for_recorded_times_is_their_p95(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("ttft_s\n" + "\n".join(map(str, range(1, 101))))
    recorded = source(DemoOptions(latencies=file, column="ttft_s"))
    assert recorded.delay == 95.0
    assert recorded.about == "100 recorded times from log.csv, column ttft_s"


def test_delay_is_read_as_in_the_configuration() -> None:
    assert demonstrate._seconds("800ms") == 0.8
    assert demonstrate._seconds("1m30s") == 90.0
