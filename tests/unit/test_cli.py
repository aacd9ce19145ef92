"""The command line: what it teaches, what it says when something is wrong, how it exits."""

from __future__ import annotations

import json
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow import __version__
from hedgerow.cli import main
from hedgerow.cli.reference import reference
from hedgerow.cli.summary import one_line
from hedgerow.config import loads
from hedgerow.config.providers import PROVIDERS
from hedgerow.extras import install

COMMANDS = ["serve", "plan", "report", "init", "check-config", "import", "probe", "demo", "lab", "version"]
GOOD = """\
targets:
  a: {base_url: "http://127.0.0.1:9001/v1"}
  b: {base_url: "http://127.0.0.1:9002/v1"}
routes:
  fast: {targets: [a, b], hedge: {delay: 2s}}
"""
HOST = "(as is known of that host)"
CAP = "at most 10% of requests and 1 a minute, 50 at once"
AFTER_2S = f"hedge after 2s, {CAP}"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A `hedgerow` in an empty folder, without keys in its environment, 100 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for provider in PROVIDERS:
        monkeypatch.delenv(provider.key, raising=False)
    return Run(capsys)


class Run:
    """Runs a command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        self.out, self.err = self._capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return code


def test_the_first_screen_groups_all_commands_and_gives_exit_codes(run: Run) -> None:
    assert run("--help") == 0
    places = [run.out.index(text) for text in ("─ Run ", " serve ", "─ Configure ", " init ", " check-config ")]
    assert places == sorted(places)
    assert all(f" {command} " in run.out for command in COMMANDS)
    assert "hedgerow demo" in run.out
    assert "0 ok, 1 something failed at run time, 2 bad usage or configuration" in run.out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_gives_exit_codes(run: Run, command: str) -> None:
    assert run(command, "--help") == 0
    assert "Exit codes: 0 ok" in run.out


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "version"])
def test_the_help_of_every_command_with_options_gives_examples(run: Run, command: str) -> None:
    run(command, "--help")
    examples = [line for line in run.out.splitlines() if f"hedgerow {command}" in line and "Usage" not in line]
    assert len(examples) >= 2


def test_no_command_shows_the_first_screen_and_is_bad_usage(run: Run) -> None:
    assert run() == 2
    assert "serve" in run.out + run.err


def test_an_unknown_command_and_an_unknown_option_are_bad_usage(run: Run) -> None:
    assert run("sreve") == 2
    assert "No such command" in run.err
    assert run("serve", "--prot", "8080") == 2
    assert "No such option" in run.err


def test_version_names_what_the_data_plane_stands_on(run: Run) -> None:
    assert run("version") == 0
    assert run.out.splitlines()[0] == f"hedgerow {__version__}"
    assert f"python {platform.python_version()}" in run.out
    assert [line.split()[0] for line in run.out.splitlines()[2:]] == ["uvloop", "httptools", "aiofastnet"]
    assert run("--version") == 0
    assert run.out == f"hedgerow {__version__}\n"


def test_the_committed_page_is_current() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
    assert page.read_text("utf-8") == reference(), "run: python -m hedgerow.cli.reference docs"


def test_the_page_names_the_choices_of_an_option() -> None:
    (line,) = (line for line in reference().splitlines() if line.startswith("| `--what`"))
    assert line.endswith(" Which rows. `requests`, `attempts`, `contents`, `request-hours` or `attempt-hours`. |")


def test_a_missing_library_is_named_with_the_way_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hedgerow.cli.app", None)
    assert run("serve") == 1
    assert install("gateway") in run.err


def test_version_is_quick_because_it_imports_no_typer() -> None:
    code = "import sys; from hedgerow.cli import main\ntry: main(['version'])\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].split()
    assert "hedgerow.cli.version" in modules
    assert not {"typer", "pydantic", "rich", "asyncio"} & set(modules)


# serve


def test_serve_without_file_and_keys_says_what_to_do(run: Run) -> None:
    assert run("serve") == 2
    assert run.err.startswith("hedgerow: nothing to serve: there is no ./hedgerow.yaml and no known API key")
    for way_out in ("hedgerow init", "--config FILE", "OPENAI_API_KEY", "hedgerow demo"):
        assert way_out in run.err
    assert "Traceback" not in run.err


def test_serve_with_a_missing_file_names_it(run: Run) -> None:
    assert run("serve", "--config", "prod.yaml") == 2
    assert run.err == "hedgerow: prod.yaml: there is no such file; `hedgerow init` writes one to start from\n"


def test_serve_with_a_file_as_an_argument_says_how_to_name_it(run: Run) -> None:
    assert run("serve", "prod.yaml") == 2
    assert run.err == "hedgerow: serve takes no argument; to name a file: hedgerow serve --config prod.yaml\n"


def test_an_address_in_use_says_how_to_take_another(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run("lab", "--listen", f"127.0.0.1:{taken.getsockname()[1]}") == 1
    assert "address already in use; --listen HOST:PORT takes another address, port 0 any free one" in run.err


@pytest.mark.parametrize("listen", ["8080", "localhost", "127.0.0.1:99999", "::1:8080"])
def test_serve_refuses_an_address_it_cannot_read(run: Run, listen: str) -> None:
    assert run("serve", "--listen", listen) == 2
    assert "--listen" in run.err
    assert listen in run.err


def test_serve_refuses_to_listen_where_a_target_is(run: Run) -> None:
    Path("hedgerow.yaml").write_text(GOOD)
    assert run("serve", "--listen", "127.0.0.1:9001") == 2
    assert run.err.startswith("hedgerow: --listen 127.0.0.1:9001: ")
    assert "targets.a.base_url: is hedgerow's own address" in run.err


# check-config


def test_check_config_shows_routes_targets_and_timeouts(run: Run) -> None:
    Path("hedgerow.yaml").write_text(GOOD)
    assert run("check-config") == 0
    assert run.out.startswith("hedgerow.yaml: ok, 1 route, 2 targets\n")
    assert run.out.splitlines()[1:] == [
        "",
        f"fast: {AFTER_2S}; first token 60s, stall 30s, total 10m",
        "  a  (as asked) at http://127.0.0.1:9001/v1",
        "     no price is known (price, server.prices), so its costs are not",
        "  b  (as asked) at http://127.0.0.1:9002/v1",
        "     no price is known (price, server.prices), so its costs are not",
    ]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "base_url: http://127.0.0.1:9001/v1, price: {input: 0.25, output: 2}",
            f"$0.25 in, $2 out (as configured); a cancel bills: generated {HOST}",
        ),
        (
            "base_url: https://api.openai.com/v1, model: gpt-4o, price: {input: 1, output: 2, request: 0.01}",
            f"$1 in, $2 out, $0.01 a request (as configured); a cancel bills: generated, full unless streamed {HOST}",
        ),
        (
            "base_url: http://a/v1, billed_on_cancel: none, price: {input: 1, above: {9: {input: 2}}, tiers: {x: 2%}}",
            "$1 in, $0 out, others above 9 tokens, tier x (as configured); a cancel bills: none (as configured)",
        ),
        (
            "base_url: https://api.openai.com/v1",
            f"prices by model (genai-prices); a cancel bills: generated, full unless streamed {HOST}",
        ),
        (
            "base_url: https://api.mistral.ai/v1, model: mistral-large-latest, price: {source: auto, output: 7}",
            f"$2 in, $7 out (genai-prices, and as configured); a cancel bills: full {HOST}",
        ),
    ],
)  # fmt: skip
def test_check_config_says_what_a_target_charges_and_who_says_so(run: Run, target: str, words: str) -> None:
    Path("hedgerow.yaml").write_text(f"targets: {{a: {{{target}}}}}\nroutes: {{fast: {{targets: [a]}}}}\n")
    assert run("check-config") == 0
    assert run.out.splitlines()[-1].strip() == words


def test_check_config_shows_the_whole_of_a_long_url(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    url = f"https://{'long.' * 20}example/v1"
    Path("hedgerow.yaml").write_text(GOOD.replace("http://127.0.0.1:9001/v1", url))
    assert run("check-config") == 0
    assert f"  a  (as asked) at {url}\n" in run.out


@pytest.mark.parametrize("never", ["hedge: {delay: off}", "hedge: {delay: 2s, max_hedges: 0}", "max_attempts: 1"])
def test_check_config_shows_no_hedge_where_none_can_start(run: Run, never: str) -> None:
    Path("hedgerow.yaml").write_text(re.sub(r"hedge: \{.*?\}", never, GOOD))
    assert run("check-config") == 0
    assert never.split()[0] in Path("hedgerow.yaml").read_text()
    assert "after" not in run.out


@pytest.mark.parametrize(
    ("hedge", "words"),
    [
        ("", f"hedge after a delay learned from the latency, {CAP}"),
        (
            "{delay: p95, budget: 5%}",
            "hedge after p95, learned from the latency, at most 5% of requests and 1 a minute, 50 at once",
        ),
        ("{delay: 2s, burst: 3, per_minute: 0}", "hedge after 2s, at most 10% of requests, 3 at once"),
        ("{delay: {slo: 1.2s}, budget: off}", "hedge in time for 1.2s"),
        ("{delay: 2s, mode: shadow}", f"would {AFTER_2S}"),
        ("{kill_switch: true}", "no hedge: kill_switch is set"),
        ("{}, background: true", "no hedge: background is set"),
        (
            "{delay: 2s}, order: rotate",
            f"each in turn; {AFTER_2S}",
        ),
        ("{delay: 2s}, gates: {require: [finished, json], strict: true}", f"{AFTER_2S}; strict gates finished, json"),
        ("{delay: 2s}, losers: keep", f"{AFTER_2S}; losers run on for 30s"),
        ("{delay: 2s}, sticky: {by: [x-session, user]}", f"{AFTER_2S}; sessions stay (by x-session, user)"),
        ("{delay: 2s}, idempotency: {window: 10m}", f"{AFTER_2S}; idempotency keys hold for 10m"),
        (
            "{delay: 2s}, nonstream_as_stream: true, on_stall: restart",
            f"{AFTER_2S}; whole answers asked for as streams; a stalled answer is begun anew",
        ),
        (
            "{delay: 2s}, order: fastest",
            f"the fastest first; {AFTER_2S}",
        ),
    ],
)
def test_check_config_says_when_and_how_often_a_route_is_hedged(run: Run, hedge: str, words: str) -> None:
    Path("hedgerow.yaml").write_text(GOOD.replace("{delay: 2s}", hedge))
    assert run("check-config") == 0
    assert run.out.splitlines()[2] == f"fast: {words}; first token 60s, stall 30s, total 10m"


def test_check_config_says_what_is_said_of_targets_in_the_order_in_which_they_are_asked(run: Run) -> None:
    spare = '9001/v1", only_for: hedge, region: eu, weight: 3, supports: [tools]'
    first = '9002/v1", only_for: primary, first_token: 5s, api_keys: [k1, k2], max_context: 8192'
    Path("hedgerow.yaml").write_text(GOOD.replace('9001/v1"', spare).replace('9002/v1"', first))
    assert run("check-config") == 0
    assert run.out.splitlines()[3::2] == [
        "  b  (as asked) at http://127.0.0.1:9002/v1, 2 keys, primary only, first token 5s, room for 8192 tokens",
        "  a  (as asked) at http://127.0.0.1:9001/v1, hedges only, region eu, weight 3, no vision, no json_schema",
    ]
    settings = loads(Path("hedgerow.yaml").read_text(), {})
    assert one_line(settings.routes["fast"], settings.targets) == (f"b (primary only) → a (hedges only), {AFTER_2S}")


@pytest.mark.parametrize("command", [("check-config",), ("serve",)])
def test_what_cannot_work_is_refused_with_file_line_key_and_range(run: Run, command: tuple[str, ...]) -> None:
    wrong = "{budget: 0%, rollout: 120%, min_delay: 40s}, spend: {usd_per_day: -5}"
    Path("hedgerow.yaml").write_text(GOOD.replace("{delay: 2s}", wrong))
    assert run(*command) == 2
    key = "hedgerow: hedgerow.yaml:5: routes.fast"
    assert run.err.splitlines() == [
        (
            f"{key}.hedge.budget: got '0%'; expected a percentage between 0.1% and 100% or off (no cap); "
            "to hedge nothing, set delay: off"
        ),
        f"{key}.hedge.rollout: got '120%'; expected a percentage between 0% and 100%",
        (
            f"{key}.spend.usd_per_day: got -5; expected dollars from 0 to 1000000000, such as 5 or 2.50, "
            "with at most 9 decimals, or off"
        ),
    ]
    Path("hedgerow.yaml").write_text(GOOD.replace("{delay: 2s}", "{delay: auto}, spend: {usd_per_day: 5}"))
    assert run(*command) == 2
    assert [line.partition(" counts")[0] for line in run.err.splitlines()] == [
        f"hedgerow: hedgerow.yaml:{line}: targets.{name}.price: is required: routes.fast.spend"
        for line, name in ((2, "a"), (3, "b"))
    ]


def test_check_config_lists_every_problem_with_its_line(run: Run) -> None:
    Path("bad.yaml").write_text(GOOD.replace("delay", "dealy").replace("9001/v1", "9001/v1/models"))
    assert run("check-config", "bad.yaml") == 2
    assert run.out == ""
    target, route = run.err.splitlines()
    assert target.startswith("hedgerow: bad.yaml:2: targets.a.base_url: ")
    assert route == "hedgerow: bad.yaml:5: routes.fast.hedge.dealy: unknown key; did you mean 'delay'?"


def test_check_config_shows_warnings_and_still_is_ok(run: Run) -> None:
    Path("hedgerow.yaml").write_text(GOOD.replace("[a, b]", "[a, a]"))
    assert run("check-config") == 0
    assert run.err == "warning: hedgerow.yaml:3: targets.b: is not used by any route\n"


def test_print_schema_prints_a_schema_and_needs_no_file(run: Run) -> None:
    assert run("check-config", "--print-schema") == 0
    assert set(json.loads(run.out)["properties"]) == {"targets", "routes", "server"}


# init, import


def test_init_writes_a_file_that_says_what_comes_next(run: Run) -> None:
    assert run("init") == 0
    assert "targets:" in Path("hedgerow.yaml").read_text()
    assert "hedgerow check-config hedgerow.yaml" in run.err


def test_init_overwrites_only_by_force(run: Run) -> None:
    Path("hedgerow.yaml").write_text("mine")
    assert run("init") == 2
    assert run.err == "hedgerow: hedgerow.yaml: is there already; --force overwrites it\n"
    assert Path("hedgerow.yaml").read_text() == "mine"
    assert run("init", "--force") == 0
    assert Path("hedgerow.yaml").read_text() != "mine"


def test_init_into_a_missing_folder_says_so(run: Run) -> None:
    assert run("init", "none/hedgerow.yaml") == 2
    assert run.err == "hedgerow: none/hedgerow.yaml: cannot be written: No such file or directory\n"


LITELLM = """\
model_list:
  - model_name: small
    litellm_params: {model: openai/gpt-5-mini, api_key: os.environ/OPENAI_API_KEY}
  - model_name: small
    litellm_params: {model: groq/llama-3.3-70b, api_key: os.environ/GROQ_API_KEY}
router_settings: {routing_strategy: least-busy}
"""


def test_an_imported_litellm_config_passes_the_check(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("litellm.yaml").write_text(LITELLM)
    assert run("import", "litellm.yaml", "-o", "hedgerow.yaml") == 0
    assert "note: " in run.err
    assert "routing_strategy" in run.err
    assert run.out == ""
    monkeypatch.setenv("OPENAI_API_KEY", "k1")
    monkeypatch.setenv("GROQ_API_KEY", "k2")
    assert run("check-config") == 0
    assert "small" in run.out
    assert run("import", "litellm.yaml") == 0
    assert run.out == Path("hedgerow.yaml").read_text()


def test_import_of_something_else_names_the_file(run: Run) -> None:
    Path("x.yaml").write_text("a: [")
    assert run("import", "x.yaml") == 2
    assert run.err.startswith("hedgerow: x.yaml: ")
    assert run("import", "none.yaml") == 2
    assert run.err == "hedgerow: none.yaml: cannot be read: No such file or directory\n"


# lab, demo


def test_lab_options_that_contradict_each_other_are_bad_usage(run: Run) -> None:
    assert run("lab", "--p50-ms", "100") == 2
    assert run.err == "hedgerow: p50_ms, p95_ms: give both (p99_ms may be added) or neither\n"
    assert run("lab", "--preset", "nobody") == 2
    assert "openai" in run.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--delay", "soon"], "expected a duration such as 2s or 800ms"),
        (["--requests", "0"], "--requests"),
        (["--preset", "nobody"], "preset: no 'nobody'; there are fast,"),
        (["--where", "model=gpt-4o"], "column, where: choose from recorded times"),
        (["--latencies", "none.csv"], "none.csv: cannot be read: No such file or directory"),
    ],
)
def test_bad_demo_options_are_refused_before_anything_starts(run: Run, arguments: list[str], words: str) -> None:
    assert run("demo", *arguments) == 2
    assert words in run.err
    assert "starting" not in run.err


def test_a_column_that_is_not_there_lists_those_that_are(run: Run) -> None:
    Path("log.csv").write_text("model,ttft\nm,3\n")
    assert run("demo", "--latencies", "log.csv") == 2
    assert "has no column 'ttft_ms'; its columns are model, ttft" in run.err
