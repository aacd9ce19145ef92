"""`hedgerow probe`: whether cancelling an attempt at a target stops it, tried out with a few real calls."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.words import Examples
from hedgerow.errors import ConfigError

if TYPE_CHECKING:
    from hedgerow.config import Settings
    from hedgerow.probe.result import Result
    from hedgerow.probe.run import Job

EXAMPLES: Examples = (
    ("Try it out at one target of ./hedgerow.yaml", "hedgerow probe backup"),
    ("At all of them, without being asked first, for a script", "hedgerow probe --all --yes --format json"),
    ("A model for a target that takes the client's own", "hedgerow probe openai --model gpt-5-mini"),
)

WENT_ON = 3
"""The exit code when something was found to go on after it was cancelled."""


def probe(
    target: Annotated[str | None, typer.Argument(help="A target of the configuration.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Probe every target.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="The configuration. Left out: ./hedgerow.yaml, else keys in the environment."
        ),
    ] = None,
    calls: Annotated[int, typer.Option(min=1, max=20, metavar="N", help="Calls to cancel in each of four phases.")] = 1,
    tokens: Annotated[
        int, typer.Option(min=50, max=10_000, metavar="N", help="Most tokens of an answer that is to be cancelled.")
    ] = 400,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model to ask for, where the target takes the client's.")
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(metavar="VARIABLE", help="The environment variable with a key, where the client's is sent on."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before calls are made that cost money.")] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="table|json", help="How to print what was found.")
    ] = "table",
) -> None:
    """Find out whether cancelling works at a target: whether it stops generating, as hedging needs it to.

    Sends one short call, and cancels others before the headers, before the first token, in mid-stream and while a whole
    answer is made; says first what that may cost. Then it asks the upstream where that can tell: OpenRouter, llama.cpp,
    vLLM, SGLang, hedgerow's lab. What it finds is kept beside the configuration for `hedgerow serve`.

    Exit code 3: something went on after it was cancelled.
    """
    if format_ not in ("table", "json"):
        raise typer.BadParameter(f"{format_!r} is not table or json", param_hint="--format")
    if (target is None) is not every:
        raise ConfigError(["name one target, or all of them: hedgerow probe TARGET, hedgerow probe --all"])
    from hedgerow.cli.serving import settings_of

    settings = settings_of(config, None)
    names = list(settings.targets) if target is None else [target]
    jobs = [_job(settings, name, calls, tokens, model, key_env) for name in names]
    _consent(jobs, yes=yes)
    raise typer.Exit(_probe(jobs, settings, config, as_json=format_ == "json"))


def _job(settings: Settings, name: str, calls: int, tokens: int, model: str | None, key_env: str | None) -> Job:
    import msgspec

    from hedgerow.gateway.drafting import blueprint_of
    from hedgerow.probe.asking import FAMILIES
    from hedgerow.probe.run import Job

    if name not in settings.targets:
        raise ConfigError([f"there is no target {name}; the targets are {', '.join(settings.targets)}"])
    blueprint = blueprint_of(settings).targets[name]
    family = next((each for each in FAMILIES if each in blueprint.families), None)
    if family is None:
        raise ConfigError([f"target {name} has no chat to probe: its protocol is {', '.join(blueprint.families)}"])
    asked = model or blueprint.model
    if asked is None:
        raise ConfigError([f"target {name} takes the client's model: name one with --model"])
    if blueprint.passthrough:
        key = os.environ.get(key_env or "", "")
        if not key:
            raise ConfigError([f"target {name} takes the client's key: name a variable that holds one with --key-env"])
        blueprint = msgspec.structs.replace(blueprint, secret=key, passthrough=False)
    return Job(name, blueprint, family, asked, calls, tokens)


def _consent(jobs: list[Job], *, yes: bool) -> None:
    """Say what is about to be sent, and ask."""
    from hedgerow.cli.probe_words import plan

    for job in jobs:
        typer.echo(plan(job), err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(["nothing was sent: --yes says that these calls may be made"])
    if not typer.confirm("Send them?", err=True):
        raise ConfigError(["nothing was sent"])


def _probe(jobs: list[Job], settings: Settings, config: Path | None, *, as_json: bool) -> int:
    from rich.console import Console

    from hedgerow.cli.serving import file_in
    from hedgerow.probe import report, store
    from hedgerow.probe.calling import ProbeFailed
    from hedgerow.probe.run import run

    file = store.file_of(settings, file_in(config))
    store.read(file)  # before money is spent on what could not be kept
    results: dict[str, Result] = {}
    failed: list[str] = []
    for job in jobs:
        now = datetime.now(UTC)  # noqa: TID251  # for the record; nothing is decided by it
        try:
            results[job.name] = asyncio.run(run(job, now, lambda line: typer.echo(f"  {line}", err=True)))
        except ProbeFailed as error:
            failed.append(str(error))
            continue
        store.write(file, {job.name: results[job.name]})
        if not as_json:
            report.show(job.name, results[job.name], Console())
    if as_json:
        typer.echo(report.as_json(results))
    if results:
        typer.echo(f"kept in {file}; a hedgerow that serves this reads it at its start and reload", err=True)
    for problem in failed:
        typer.echo(f"hedgerow: {problem}", err=True)
    return 1 if failed else WENT_ON if any(result.fails for result in results.values()) else 0
