"""The docs are true: what they show runs, what they configure loads, what they name exists.

Covers every Markdown page. A fence says what it is: `python` blocks are run one by one, `yaml` blocks with `targets:`
at the top are loaded, commands after `$ ` in `console` blocks must exist, with their options. A `python` block that
begins with a file's name (`# my_gates.py`) lies beside the configurations of its page; `# test_it.py` is run by pytest.
A `yaml` block that does (`# hedgerow.yaml`) lies beside the page's code. Code that calls http://127.0.0.1:8080 finds a
gateway there: it is run against one on a free port, in front of simulated providers.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from hedgerow import config
from hedgerow.cli.app import COMMANDS
from hedgerow.lab.process import LabProcess

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PROMISED_URL = "http://127.0.0.1:8080"
FENCE = re.compile(r"(?ms)^(?P<indent> *)(?P<ticks>`{3,})(?P<kind>[\w-]*)\n(?P<text>.*?)^ *(?P=ticks) *$")


class Block(NamedTuple):
    page: str
    line: int
    kind: str
    text: str


def blocks_of(page: str, text: str) -> list[Block]:
    blocks = []
    for match in FENCE.finditer(text):
        indent = match["indent"]
        body = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        blocks.append(Block(page, text.count("\n", 0, match.start()) + 1, match["kind"], body))
    return blocks


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


BLOCKS = [block for page in PAGES for block in blocks_of(name_of(page), page.read_text())]


def ids(block: Block) -> str:
    return f"{block.page}:{block.line}"


def of_kind(*kinds: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind in kinds]


CONFIG = """
targets:
  first: {{protocol: openai, base_url: {first}, model: lab, api_key: not-needed}}
  second: {{protocol: openai, base_url: {second}, model: lab, api_key: not-needed}}
  third: {{protocol: http, base_url: {third}}}
routes:
  translate: {{targets: [first, second], hedge: {{mode: race}}, losers: keep}}
  words:
    {{targets: [first, second, third], hedge: {{mode: race, width: 3}}, losers: keep, endpoints: [/v1/translate]}}
  fast: {{targets: [first, second], hedge: {{delay: 200ms, budget: off}}}}
  "*": {{targets: [first, second], hedge: {{delay: 200ms, budget: off}}}}
server: {{listen: "127.0.0.1:0"}}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway with the routes of the examples (`fast` stands for any other name) in front of fast labs."""
    file = tmp_path_factory.mktemp("docs") / "hedgerow.yaml"
    quick = ["--speed", "20", "--tokens", "20"]
    with ExitStack() as labs:
        urls = {
            name: labs.enter_context(LabProcess(["--name", name, *quick])).base_url
            for name in ("first", "second", "third")
        }
        file.write_text(CONFIG.format(**urls))
        command = [sys.executable, "-m", "hedgerow", "serve", "--config", str(file), "--json-ready"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                assert process.stdout is not None
                yield json.loads(process.stdout.readline())["url"]
            finally:
                process.terminate()
                process.wait(20)


def run_python(code: str, *, cwd: Path) -> str:
    """Run `code` as a reader would; its output. Keys are dummies, so that SDK clients can be made."""
    command = [sys.executable, "-c", code]
    if named := re.match(r"# (test_\w+\.py)\n", code):
        (cwd / named[1]).write_text(code)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-Werror",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:asyncio",
            named[1],
        ]
    result = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | {"OPENAI_API_KEY": "dummy", "ANTHROPIC_API_KEY": "dummy", "AZURE_KEY": "dummy"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def at_gateway(code: str, request: pytest.FixtureRequest) -> str:
    """`code` with the documented address replaced by that of a running gateway, if it is in there."""
    if PROMISED_URL not in code:
        return code
    url: str = request.getfixturevalue("gateway")
    return code.replace(PROMISED_URL, url)


@pytest.mark.e2e
@pytest.mark.parametrize("block", of_kind("python"), ids=ids)
def test_python_blocks_run(block: Block, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    for page, _, _, text in of_kind("yaml"):
        if page == block.page and (named := re.match(r"# (\w+\.yaml)\n", text)):
            (tmp_path / named[1]).write_text(text)
    run_python(at_gateway(block.text, request), cwd=tmp_path)


@pytest.mark.e2e
@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_examples_run_and_print_something(example: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    assert run_python(at_gateway(example.read_text(), request), cwd=tmp_path).strip()


class AnyKey(collections.UserDict[str, str]):
    """An environment in which every variable is set."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return f"dummy-{key}"


@pytest.mark.parametrize(
    "block", [block for block in of_kind("yaml") if re.search("(?m)^targets:", block.text)], ids=ids
)
def test_configurations_load_without_a_warning(block: Block, tmp_path: Path) -> None:
    for secret in re.findall(r"/run/secrets/([\w.-]+)", block.text):
        (tmp_path / secret).write_text("dummy\n")
    for schema in re.findall(r"[\w-]+\.schema\.json", block.text):
        (tmp_path / schema).write_text("{}")
    for page, _, _, text in of_kind("python"):
        if page == block.page and (named := re.match(r"# (\w+\.py)\n", text)):
            (tmp_path / named[1]).write_text(text)
    written = block.text.replace("/run/secrets", str(tmp_path))
    settings = config.loads(written, AnyKey(), source=ids(block), folder=tmp_path)
    assert settings.routes
    meant = ": server.ledger.content: "  # it cannot be asked for without being warned of
    assert [warning for warning in settings.warnings if meant not in warning] == []


def commands() -> list[tuple[str, str]]:
    """Every `$ command` of the console blocks, continued lines joined, with its place."""
    return [
        (ids(block), line.removeprefix("$ ").split(" # ")[0].strip())
        for block in of_kind("console")
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]


@functools.cache
def help_of(command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "hedgerow", *command.split(), "--help"],
        env=os.environ | {"COLUMNS": "250", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


@functools.cache
def make_targets() -> set[str]:
    return set(re.findall(r"(?m)^([a-z0-9-]+):", (ROOT / "Makefile").read_text()))


@pytest.mark.parametrize(("place", "line"), commands())
def test_commands_and_their_options_exist(place: str, line: str) -> None:
    words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    match words:
        case ["hedgerow", str(group), str(own), *_] if f"{group} {own}" in COMMANDS:
            missing = {option for option in options if not re.search(rf"{option}\b", help_of(f"{group} {own}"))}
        case ["hedgerow", str(command), *_] if not command.startswith("-"):
            missing = {option for option in options if not re.search(rf"{option}\b", help_of(command))}
        case ["hedgerow", *_]:
            missing = {option for option in options if option not in help_of("")}
        case ["make", *targets]:
            missing = {target for target in targets if target not in make_targets()}
        case _:
            missing = set()
    assert missing == set(), f"{place}: {line}"


def slug(heading: str) -> str:
    """The anchor that a forge gives a heading."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def prose_of(page: Path) -> str:
    return FENCE.sub("", page.read_text())


@functools.cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#{1,6} +(.+?) *#*$", prose_of(page))
    explicit = re.findall(r"<a (?:id|name)=\"([^\"]+)\"", page.read_text())
    return {slug(heading) for heading in headings} | set(explicit)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(<?([^)\s>]+)", prose_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.is_relative_to(ROOT) and target.exists()
        if not inside or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = re.findall(r"\]\(<?([^)#\s>]+)", prose_of(page))
        waiting += [(page.parent / link).resolve() for link in links if not re.match(r"[a-z]+:", link)]
    assert {name_of(page) for page in PAGES} - {name_of(page) for page in seen} == set()


def test_blocks_are_found_with_their_line_and_without_their_indent() -> None:
    text = "# Page\n\n1. step\n\n   ```python\n   if True:\n       print(1)\n   ```\n\n````md\n```yaml\n```\n````\n"
    assert blocks_of("a.md", text) == [
        Block("a.md", 5, "python", "if True:\n    print(1)\n"),
        Block("a.md", 10, "md", "```yaml\n```\n"),
    ]


def test_slugs_are_those_of_the_forge() -> None:
    assert slug("Failure classes (before commit)") == "failure-classes-before-commit"
    assert slug("`make check`, and what it runs") == "make-check-and-what-it-runs"
