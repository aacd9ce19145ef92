"""Plans held to their word: logs that stay as they are, logs that change, and rounds that are replayed exactly."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from bench import eval_rounds
from bench.eval import main
from bench.eval_forecast import NO_SOURCE, TARGET, Figure, Forecast, flown, forecasts, resampled
from bench.eval_planner_report import report
from bench.eval_rounds import PUBLISHED, Rounds, faults, read, replayed
from bench.streams import Recorded
from bench.streams_logs import Made, Subject, as_recorded, subjects

from hedgerow.planner import scene as scenes
from hedgerow.planner.log import Floats
from hedgerow.planner.plan import Budget
from hedgerow.planner.scene import scene_of
from hedgerow.planner.search import Options, plan
from hedgerow.planner.trial import Flown, outcome_of

COLUMNS = [
    "provider",
    "model",
    "started_at",
    "input_tokens",
    "output_tokens",
    "streaming",
    "ttft_ms",
    "total_ms",
    "status",
    "run",
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short logs are gone through once."""
    monkeypatch.setattr(scenes, "ENOUGH", 1)


def written(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def runs(folder: Path, times: Sequence[float]) -> None:
    """One run, in milliseconds."""
    rows = [("x", "m", "", 550, 150, True, each, 9_000, "ok", "run") for each in times]
    written(folder / "llmperf_leaderboard_2023.csv", rows)


def stragglers(count: int, seed: int = 1) -> list[float]:
    """Milliseconds; one of 25 takes five seconds more."""
    chance = np.random.default_rng(seed)
    times = chance.lognormal(6.0, 0.3, count) + 5_000.0 * (chance.random(count) < 0.04)
    return [round(each, 3) for each in times.tolist()]


def logged(times: Sequence[float], near_by: Floats | None = None) -> Subject:
    log = as_recorded([Recorded(each / 1e3) for each in times])
    return Subject("made", "made", len(times), near_by is not None, lambda: Made(log, near_by))


def forecast(said: float, came: float, *, extra: tuple[float, float] = (0.05, 0.05), **changes: object) -> Forecast:
    one = Forecast(
        group="made",
        stream="made",
        records=300,
        at_length=True,
        budget=0.05,
        backup="first",
        delay="auto",
        probability=1.0,
        pays=True,
        judged_on=10_000,
        requests=20_000,
        alone=(2.0, 2.0),
        differs=0.02,
        p99=Figure(said, came, 0.0, 9.0, by_chance=False),
        extra=Figure(*extra, 0.0, 1.0, by_chance=False),
        independent=1.0,
        near_by=None,
    )
    return msgspec.structs.replace(one, **changes)


def test_a_log_that_stays_as_it_is_is_forecast() -> None:
    subject = logged(stragglers(4_000))
    (found,) = forecasts(subject, [0.1], 1)
    assert found.judged_on == 1_000
    assert found.requests == 2_000
    assert not found.changed
    assert found.pays
    assert found.p99.came < 0.5 * found.alone[1]
    assert found.verdicts[0] in ("kept", "chance")
    assert found.p99.low <= found.p99.came <= found.p99.high
    assert found.extra.low <= found.extra.came <= found.extra.high
    assert not found.known  # ten requests are slower than the p99


def test_other_neighbours_show_how_much_hangs_on_which_stand_for_a_hedge() -> None:
    times = stragglers(1_000)
    quick, slow = np.full(1_000, 0.001), np.full(1_000, 99.0)
    found = [forecasts(logged(times, near_by), [0.1], 1)[0] for near_by in (quick, slow)]
    assert [one.p99 for one in found] == [found[0].p99] * 2
    first, second = (one.near_by for one in found)
    assert first is not None
    assert first < found[0].p99.came
    assert second == pytest.approx(found[0].alone[1])


def test_what_was_forecast_is_flown_again_to_tell_chance() -> None:
    log = as_recorded([Recorded(each / 1e3) for each in stragglers(1_000)])
    options = Options(budgets=[Budget(share=0.1)], target=TARGET, seed=1)
    (option,) = plan(log, NO_SOURCE, options).routes[0].options
    scene = scene_of(log, 0, seed=1)
    assert scene is not None
    assert outcome_of(flown(scene, option.choice, 1), TARGET) == option.expected


def test_a_log_that_changes_is_named_and_promises_nothing() -> None:
    times = stragglers(2_000)
    (found,) = forecasts(logged([each * (1.0 + (index >= 1_000)) for index, each in enumerate(times)]), [0.1], 1)
    assert found.differs == pytest.approx(0.5, abs=0.05)
    assert found.changed
    assert "(changed, few)" in report([found], None)
    assert not forecast(5.0, 1.0, differs=0.11).faults()


def test_of_too_few_records_nothing_is_forecast() -> None:
    assert forecasts(logged(stragglers(159)), [0.1], 1) == []


def test_what_is_promised_is_within_ten_percent_or_what_chance_allows() -> None:
    assert forecast(1.1, 1.0).faults() == forecast(0.9, 1.0).faults() == []
    assert forecast(1.11, 1.0).faults() == ["its p99 is not the one forecast (1.11 s, and 1.00 s came)"]
    assert not forecast(1.11, 1.0, p99=Figure(1.11, 1.0, 0.9, 1.2, by_chance=True)).faults()
    assert forecast(1.0, 1.0, extra=(0.056, 0.05)).faults() == [
        "its extra attempts are not those forecast (5.6 %, and 5.0 % came)"
    ]
    assert not forecast(1.0, 1.0, extra=(0.0, 0.001)).faults()
    assert not forecast(1.0, 1.0, extra=(0.056, 0.05), pays=False).faults()
    assert not forecast(1.11, 1.0, judged_on=9_000).faults()


def test_resampling_keeps_together_what_is_slow_together() -> None:
    took = np.ones(3_000)
    took[1_200:1_500] = 9.0
    hedges = np.zeros(3_000, dtype=np.int64)
    spread = []
    for order in (np.arange(3_000), np.random.default_rng(1).permutation(3_000)):
        mixed = took[order]
        flight = Flown(mixed, (mixed > 1.0).astype(np.int64), hedges, hedges, ())
        spread.append(resampled([flight], np.random.default_rng(1))[1].std())
    assert spread[0] > 3.0 * spread[1]


def rounds(path: Path, first: Sequence[float], second: Sequence[float]) -> None:
    """After as many as do not count, in which everything takes a second; seconds."""
    warm = [1.0] * eval_rounds.LEARNED
    rows = [
        (cloud, "tts", "", "", "", False, "", 1e3 * seconds, "ok", f"round{number}")
        for number, both in enumerate(zip([*warm, *first], [*warm, *second], strict=True))
        for cloud, seconds in zip(("runpod", "modal", "cerebrium"), (both[0], 7.0, both[1]), strict=True)
    ]
    written(path, rows)


def test_rounds_are_replayed_to_the_last_digit(tmp_path: Path) -> None:
    first = [6.0, 5.8, 6.1, 6.3] * 7 + [120.1, 97.0, 66.4, 61.2, 33.0, 12.5, 10.0, 9.9]
    second = [20.0, 38.3, 19.4, 27.5] * 9
    rounds(tmp_path / eval_rounds.FILE, first, second)
    found = replayed(*read(tmp_path / eval_rounds.FILE))
    # by hand: 30, 48.3, 29.4, 37.5, 30 and 12.5 s of those that are hedged; the 34th of 36 is the p95
    assert found == {"never": Rounds(6.1, 66.4, 4, 0), "after 10 s": Rounds(6.1, 30.0, 0, 6)}
    assert faults(found) == [
        f"gpuhedge's rounds, hedged {words}: {found[words]} is not {PUBLISHED[words]}" for words in PUBLISHED
    ]
    assert not faults(PUBLISHED)


def test_the_command_forecasts_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs(tmp_path, stragglers(400))
    rounds(tmp_path / eval_rounds.FILE, [6.0] * 36, [20.0] * 36)
    markdown, figures = tmp_path / "a.md", tmp_path / "a.json"
    options = ["--part=planner", "--requests=4000", "--budgets=0.1", "--jobs=1"]
    code = main([str(tmp_path), *options, f"--markdown={markdown}", f"--json={figures}"])
    said = capsys.readouterr()
    assert code == 1  # those rounds are not the ones published
    assert said.err.count("eval: gpuhedge's rounds") == said.err.count("eval: ") == 2
    found = msgspec.json.decode(figures.read_bytes())["planner"]
    assert [(one["stream"], one["at_length"], one["judged_on"], one["requests"]) for one in found] == [
        ("run", False, 100, 200),
        ("run", True, 2_000, 4_000),
    ]
    assert markdown.read_text() == said.out
    assert said.out.count("\n| run ") == 2
    assert main([str(tmp_path), "--part=planner", "--only=nobody"]) == 2
    assert capsys.readouterr().err == "eval: no log to plan from is called so; there are run\n"


def test_runs_of_a_server_of_ones_own_are_logs_in_the_order_of_their_requests(tmp_path: Path) -> None:
    rows = [("own", "m", f"+{200 - index}.000s", 10 + index, 5, True, index, 9, "ok", "scale1") for index in range(200)]
    written(tmp_path / "selfhosted_vllm_2024_2026.csv", rows)
    (found,) = subjects(tmp_path, 100, 20.0, 1)
    log = found.make().log
    assert (found.name, found.group, found.records, found.at_length) == ("vLLM scale1", "self-hosted", 200, False)
    assert log.ttft.tolist() == [(199 - index) / 1e3 for index in range(200)]
    assert log.input_tokens.tolist() == [209 - index for index in range(200)]


def test_pairs_stay_pairs(tmp_path: Path) -> None:
    written(
        tmp_path / "scalevoice_openai_azure_2024.csv",
        [
            (
                provider,
                "gpt-4-1106-preview",
                "",
                60,
                50,
                True,
                (number + 1) * (1_000 if provider == "openai" else 10),
                9,
                "ok",
                f"r{number}",
            )
            for number in range(3)
            for provider in ("azure-openai", "openai")
        ],
    )
    first, second = subjects(tmp_path, 50, 20.0, 1)
    assert (first.name, second.name) == tuple(
        f"gpt-4-1106-preview, {way}" for way in ("azure-openai to openai", "openai to azure-openai")
    )
    log = first.make().log
    pairs = log.ttft.reshape(50, 2)
    assert set(map(tuple, pairs.tolist())) == {(0.01, 1.0), (0.02, 2.0), (0.03, 3.0)}
    assert log.request.tolist() == np.repeat(np.arange(50), 2).tolist()
