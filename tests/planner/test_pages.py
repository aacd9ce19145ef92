"""What is made of a plan: words on a terminal, a page, JSON, a configuration."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from math import inf
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from rich.console import Console

from hedgerow.config import loads
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.planner import verdict, words, words_targets
from hedgerow.planner.config import policy_of
from hedgerow.planner.fragment import fragment
from hedgerow.planner.noise import Cut
from hedgerow.planner.page import render
from hedgerow.planner.plan import Budget, Plan
from hedgerow.planner.schema import FILE, schema
from hedgerow.planner.statistics import Pairing
from hedgerow.planner.terminal import show
from hedgerow.planner.verdict import About
from tests.planner.made import SOURCE, option, outcome, plan, route, statistics

ROOT = Path(__file__).resolve().parents[2]
FIVE = Budget(share=0.05)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def shown(found: Plan, width: int, written: str | None = None) -> str:
    text = io.StringIO()
    show(found, Console(file=text, width=width), written)
    return text.getvalue()


def encoded(found: object) -> Any:
    return json.loads(msgspec.json.encode(found))


@pytest.mark.parametrize("width", [80, 130])
def test_a_terminal_shows_all_that_matters_in_its_width(width: int) -> None:
    text = shown(plan(), width)
    before_next = text[: text.index("Write the configuration")]
    assert max(map(len, before_next.splitlines())) <= width
    assert "…│" not in text  # no cell is cut
    plain = " ".join(text.split())
    for said in (
        "5,000 of 5,010 rows",
        "ttft is ttft_ms (milliseconds)",
        "7 rows: a negative latency",
        "stop: azure has 38 requests: <b>too few</b>",
        "Hedge: within 5 % of requests the p99 falls from 8.4 s to 6.75 s.",
        "2 % more does not pay: p99 8.4 s becomes 7.74 s",
        "Do not hedge azure",
        "--write-config plan.yaml",
    ):
        assert said in plain, said


def test_each_budget_is_set_beside_no_hedging() -> None:
    found = words.options(plan(), route())
    cells = dict(found.rows)
    assert found.head == ["no hedging", "2 % more", "5 % more", "10 % more", "20 % more", "$0.400 per 1,000"]
    assert found.chosen == 2
    assert cells["p99"] == ["8.4 s", "7.74 s", "6.75 s", "5.11 s", "1.81 s", "7.08 s"]
    assert cells["p99 changes by"] == ["-", "-7.8 %", "-20 %", "-39 %", "-78 %", "-16 %"]
    assert cells[words.ORACLE][-1] == "-"  # without bound
    assert [list(part.head) for part in found.parts(4)] == [list(found.head[:4]), list(found.head[4:])]
    assert [part.chosen for part in found.parts(2)] == [None, 0, None]


@pytest.mark.parametrize(
    ("cut", "pays", "why"),
    [
        (Cut(0.02, 0.014, 0.026), False, "less than 5.0 % is not worth it."),  # sure, and yet too little
        (Cut(0.02, -0.01, 0.05), False, "not beyond its noise."),
        (Cut(0.3, 0.01, 0.5), False, "not beyond its noise."),
        (Cut(0.3, 0.1, 0.5), True, "for 5.0 % more requests."),
    ],
)
def test_why_it_does_not_pay_is_the_reason_that_holds(cut: Cut, pays: bool, why: str) -> None:
    about = About(0.99, 40_000, 20_000, statistics("openai", 1.0))
    found = verdict.pays(about, cut, outcome(1.0), outcome(1.0, 0.05))
    assert found[0] is pays
    assert found[1].endswith(why)


@pytest.mark.parametrize(
    ("seconds", "said"), [(95.5, "95.5 s"), (10_800.0, "3 hours"), (86_400.0 * 1_333.4, "1,333 days")]
)
def test_how_long_a_log_is_is_said_in_plain_numbers(seconds: float, said: str) -> None:
    assert f"; {said} from 2026-05-28 20:26 UTC; " in words.log_line(msgspec.structs.replace(SOURCE, seconds=seconds))


def test_a_budget_that_nothing_is_left_to_spend_on_says_so() -> None:
    assert words.alike(plan(), route()) == []
    shares, used = (0.02, 0.1, 0.2, 0.4), (0.02, 0.0861, 0.0862, 0.0862)
    options = [
        option(Budget(share=share), share, "500ms", expected=outcome(1.0, extra))
        for share, extra in zip(shares, used, strict=True)
    ]
    full = msgspec.structs.replace(route(), options=(*reversed(options),), recommended=1)
    why = "the best way that was found makes no use of more than 8.6 % extra attempts"
    assert words.alike(plan(), full) == [
        ("20 % more comes to the same as 10 % more", why),
        ("40 % more comes to the same as 10 % more", why),
    ]
    found = msgspec.structs.replace(plan(), routes=(full,))
    for text in (" ".join(shown(found, 80).split()), render(found).replace("</dt><dd>", ": ")):
        assert f"40 % more comes to the same as 10 % more: {why}" in text


def test_of_many_targets_those_are_shown_that_are_asked() -> None:
    many = [msgspec.structs.replace(plan().targets[0], target=f"t{number}") for number in range(40)]
    pairs = tuple(Pairing("t0", f"t{number}", 500, number / 100) for number in range(1, 40))
    found = msgspec.structs.replace(plan(), targets=(*many, *plan().targets), pairings=pairs)
    targets, rest = words_targets.in_play(found)
    assert [each.target for each in targets] == [*(f"t{number}" for number in range(8)), "openai", "azure"]
    assert rest == "32 more targets (--format json has all)"
    lines = words_targets.pairings(found)
    assert [line.partition(" at")[0] for line in lines[:-1]] == [f"t0 and t{number}" for number in range(34, 40)]
    assert lines[-1] == "33 more pairs of targets, which go together less (--format json has all)"
    text = shown(found, 80)
    assert "32 more targets" in text
    assert "33 more pairs" in text
    assert words_targets.in_play(plan()) == (list(plan().targets), None)
    assert len(words_targets.pairings(plan())) == 1


def test_prompt_sizes_are_shown_where_they_matter() -> None:
    first, second = plan().targets
    even = msgspec.structs.replace(second, explained=0.02)
    short = msgspec.structs.replace(second, target="short", by_size=second.by_size[:1])
    sheet = words_targets.sizes([first, even, short])
    assert sheet is not None
    assert list(sheet.head) == ["openai"]
    assert [(name, *cells) for name, cells in sheet.rows] == [
        ("below 1,024 tokens", "400 ms / 4 s (2,020)"),
        ("1,024 to 8,191 tokens", "720 ms / 7.2 s (1,515)"),
        ("8,192 tokens and more", "1.28 s / 12.8 s (464)"),
    ]
    long = msgspec.structs.replace(second, by_size=second.by_size[1:])
    both = words_targets.sizes([first, long])
    assert both is not None
    assert dict(both.rows)["below 1,024 tokens"][1] == "-"
    assert words_targets.sizes([even, short]) is None
    for text in (shown(plan(), 80), render(plan())):
        assert words_targets.BY_SIZE in text
        assert "720 ms / 7.2 s (1,515)" in " ".join(text.split())
    assert words_targets.BY_SIZE not in shown(msgspec.structs.replace(plan(), targets=(even,)), 80)


def test_who_should_not_hedge_is_told_to_leave_it() -> None:
    quiet = msgspec.structs.replace(plan(), routes=(msgspec.structs.replace(route(), recommended=None),))
    assert words.next_steps(quiet, None)[0].startswith("Leave hedging off")
    assert "Write the configuration" not in shown(quiet, 100)
    assert "Put URLs and keys into mine.yaml" in shown(plan(), 100, "mine.yaml")


def test_who_has_too_few_requests_is_told_that_nothing_is_known_and_what_to_collect() -> None:
    scarce = msgspec.structs.replace(route(), judged_on=999, recommended=None, verdict="Not known.")
    found = msgspec.structs.replace(plan(), routes=(scarce,))
    enough = msgspec.structs.replace(plan(), routes=(msgspec.structs.replace(scarce, judged_on=1_000),))
    for text in (shown(found, 130), render(found)):
        assert "2 % more whether it pays is not known" in text
        assert "Collect more before you decide" in text
        assert "does not pay" not in text
        assert "Leave hedging off" not in text
    assert dict(words.options(found, scarce).rows)["pays"][1] == "not known"
    assert "2 % more does not pay" in shown(enough, 130)
    assert "Leave hedging off" in shown(enough, 130)


def test_a_delay_as_long_as_may_be_is_called_never() -> None:
    assert "as good as never" not in shown(plan(), 130) + render(plan())
    lazy = msgspec.structs.replace(route().options[1].choice, by_size=((0, 1.5, 1.0), (4_096, 30.0, 1.0)))
    lost = msgspec.structs.replace(lazy, by_size=((0, 1.5, 1.0), (4_096, inf, 0.0)))
    for choice, never in (
        (lazy, True),
        (lost, True),
        (msgspec.structs.replace(lazy, config=(*lazy.config, ("hedge.max_delay", "2m"))), False),
        (msgspec.structs.replace(lazy, delay="30s"), False),
    ):
        only = msgspec.structs.replace(route(), options=(option(FIVE, 0.05, "auto", choice=choice),), recommended=0)
        found = msgspec.structs.replace(plan(), routes=(only,))
        page = render(found)
        told = "prompts of 4,096 tokens and more, up to the next size, wait for max_delay (30 s) at least"
        assert (told in " ".join(shown(found, 130).split())) == never
        assert page.count("as good as never") == (2 if never else 0)  # in words, and beside its dot


def test_extra_attempts_beyond_the_budget_are_explained() -> None:
    assert "hedge.burst" not in words.basis(route())
    greedy = option(Budget(share=0.05), 0.05, "auto", expected=outcome(1.0, 0.06))
    text = words.basis(msgspec.structs.replace(route(), options=(greedy,)))
    assert "by the 50 hedges that may start at once (hedge.burst), here 2.5 % of the requests" in text


def test_what_is_decided_by_the_numbers_that_are_shown_is_said() -> None:
    alone = msgspec.structs.replace(route(), options=route().options[:1])
    assert "Which budget to recommend is decided by these, too" in words.basis(route())
    assert "Which budget" not in words.basis(alone)


def test_the_json_is_as_its_schema_says() -> None:
    published = json.loads((ROOT / "docs" / FILE).read_text())
    assert published == json.loads(json.dumps(schema())), "make docs"
    told = encoded(plan())
    jsonschema.validate(told, published)
    assert told["schema"] == "hedgerow.plan/1"
    assert told["routes"][0]["options"][-1]["oracle_p99"] is None
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**told, "seed": "seven"}, published)


def test_the_page_has_every_plot_and_needs_nothing_from_elsewhere() -> None:
    page = render(plan())
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert captions == [
        "How many requests take longer",
        "How long requests take",
        "What extra attempts buy: p99",
        "p99 by fixed delay and budget, by arithmetic",
        "Where the budget goes",
        "The log, hedged",
    ]
    assert page.count("<svg") == len(captions)
    assert re.findall(r'<svg role="img" aria-label="openai: (.*?)"', page) == captions
    assert ">engine<" not in page
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*|<script|@import|url\((?!#)", page)
    assert "&lt;b&gt;too few&lt;/b&gt;" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_names_of_a_log_are_only_names() -> None:
    name = "$\\frac{1}$ </text><script>alert(1)</script>"
    only = msgspec.structs.replace(route(), primary=name, curves=((name, route().curves[0][1]),))
    found = msgspec.structs.replace(plan(), routes=(only,))
    page = render(found)
    assert "<script" not in page
    assert 'aria-label="$\\frac{1}$ &lt;/text&gt;' in page
    assert "$\\frac{1}$ &lt;/text&gt;" in page
    assert name in shown(found, 130)


def test_the_same_plan_gives_the_same_page_in_another_process() -> None:
    code = "from tests.planner.made import plan; from hedgerow.planner.page import render; print(render(plan()))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "4", "TZ": "Asia/Tokyo"},
        check=True,
    )
    assert ran.stdout.decode() == render(plan()) + "\n"


def test_the_configuration_is_what_was_judged() -> None:
    text = fragment(plan())
    settings = loads(text, {})
    assert settings.warnings == []
    drawn = blueprint_of(settings, environ={}).routes
    option = route().options[1]
    assert drawn["openai"].targets == ("openai", "azure")
    assert drawn["openai"].policy == policy_of(option.choice)
    assert drawn["azure"].policy.delay == "off"
    assert drawn["azure"].targets == ("azure", "openai")  # who fails over without hedging goes on doing so
    assert "Without hedges openai still takes over where azure fails" in text
    assert "p99 8.4 s -> 6.75 s (-20 %) for 4.9 % extra attempts" in " ".join(text.replace("#", " ").split())


def test_keys_that_nobody_asked_for_say_why_they_are_there() -> None:
    own = {"hedge.delay": "auto", "hedge.per_minute": "0", "hedge.max_delay": "2m", "hedge.window.age": "2h"}
    choice = msgspec.structs.replace(route().options[1].choice, config=(*own.items(), ("timeouts.first_token", "5m")))
    only = msgspec.structs.replace(route(), options=(option(FIVE, 0.05, "auto", choice=choice),), recommended=0)
    text = fragment(msgspec.structs.replace(plan(), routes=(only,)))
    assert "      per_minute: 0  # the budget is all there is" in text
    assert "      max_delay: 2m  # what is slow in the log takes longer than the default" in text
    assert "        age: 2h  # requests are rare" in text
    assert "      first_token: 5m  # longer than any answer of these targets took in the log" in text
    assert "      delay: auto\n" in text
    assert loads(text, {}).warnings == []


def test_a_timeout_that_is_as_long_as_can_be_says_so() -> None:
    choice = msgspec.structs.replace(
        route().options[1].choice,
        config=(("hedge.delay", "1h"), ("timeouts.first_token", "20h"), ("timeouts.total", "1d")),
    )
    only = msgspec.structs.replace(route(), options=(option(FIVE, 0.05, "1h", choice=choice),), recommended=0)
    text = fragment(msgspec.structs.replace(plan(), routes=(only,)))
    assert "      first_token: 20h  # longer than any answer of these targets took in the log" in text
    assert "      total: 1d  # the most that a config may say, as an answer in the log took hours" in text
    assert loads(text, {}).routes["*"].timeouts.total == 86_400.0


def test_who_is_not_to_hedge_keeps_the_backup_that_was_tried() -> None:
    idle = msgspec.structs.replace(route(), recommended=None)  # its last option goes to the same target
    crowd = (*plan().targets, *(msgspec.structs.replace(plan().targets[0], target=name, n=9_999) for name in "xy"))
    drawn = blueprint_of(
        loads(fragment(msgspec.structs.replace(plan(), routes=(idle,), targets=crowd)), {}), environ={}
    )
    assert drawn.routes["*"].targets == ("openai", "azure")
    assert drawn.routes["*"].policy.first_token == 120.0  # nor is anything broken off that was not when it was tried
    alone = msgspec.structs.replace(plan(), routes=plan().routes[1:], targets=plan().targets[1:])
    assert blueprint_of(loads(fragment(alone), {}), environ={}).routes["*"].targets == ("azure",)


@pytest.mark.parametrize(
    "names",
    [
        ("openai gpt-5", "openai gpt-5 "),
        ("https://a.example/v1\n  evil: 1", "off: {"),
        ("true", "12"),
        ("***", "日本"),
        ("same", "same"),
    ],
)
def test_any_name_of_a_log_makes_a_configuration(names: tuple[str, str]) -> None:
    first, second = names
    choice = msgspec.structs.replace(route().options[1].choice, primary=first, backup=second)
    option = msgspec.structs.replace(route().options[1], choice=choice)
    only = msgspec.structs.replace(route(), primary=first, options=(option,), recommended=0)
    settings = loads(fragment(msgspec.structs.replace(plan(), routes=(only,))), {})
    assert list(settings.routes) == ["*"]
    assert len(settings.targets) == len({*names})
    assert len(settings.routes["*"].targets) == 2


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: nobody has looked at the plan's page")
def test_a_browser_has_nothing_to_complain_of(tmp_path: Path) -> None:
    page, picture = tmp_path / "plan.html", tmp_path / "plan.png"
    page.write_text(render(plan()))
    assert CHROMIUM is not None
    asked = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1240,2400"]
    ran = subprocess.run(
        [CHROMIUM, *asked, f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    assert not [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    assert picture.stat().st_size > 50_000  # plots and tables: an empty page has a few thousand bytes
