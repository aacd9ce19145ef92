"""`hedgerow serve`: the gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from hedgerow.cli.asking import example
from hedgerow.cli.listen import JsonReady, address
from hedgerow.cli.words import Examples
from hedgerow.errors import ConfigError

if TYPE_CHECKING:
    from hedgerow.config import Address, Settings
    from hedgerow.gateway.blueprint import Source

DEFAULT_FILE = Path("hedgerow.yaml")

_ASK = r"""curl localhost:8080/v1/chat/completions \
    -H 'content-type: application/json' \
    -d '{"model":"fast","messages":[{"role":"user","content":"Hi"}]}'"""

EXAMPLES: Examples = (
    ("Serve ./hedgerow.yaml, or without it the providers whose keys are in the environment", "hedgerow serve"),
    ("Another file, on every interface", "hedgerow serve --config prod.yaml --listen :8080"),
    ("No file at all", "OPENAI_API_KEY=sk-... hedgerow serve"),
    ("Ask for a route by its name", _ASK),
)


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="The configuration. Left out: ./hedgerow.yaml, else keys in the environment."
        ),
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Listen here, whatever the file says.")
    ] = None,
    json_ready: JsonReady = False,
) -> None:
    """Run the gateway until SIGTERM or Ctrl-C; then let running requests end.

    Point a client at it by its base URL: openai.OpenAI(base_url="http://127.0.0.1:8080/v1"). The model names it can ask
    for are the names of the routes.
    """
    if context.args:
        raise ConfigError([f"serve takes no argument; to name a file: hedgerow serve --config {context.args[0]}"])
    at = None if listen is None else address(listen)
    source = _source(config, at)
    settings = settings_of(config, at)

    from hedgerow.cli.launch import launch
    from hedgerow.cli.process import URL, LaunchRecord
    from hedgerow.cli.reread import findings
    from hedgerow.gateway.drafting import blueprint_of
    from hedgerow.gateway.reload_watch import stamp_of
    from hedgerow.probe.store import file_of

    probes = file_of(settings, file_in(config))
    if source is not None:
        source = msgspec.structs.replace(source, beside=(str(probes), stamp_of(str(probes))))
    probed, remarks = findings(settings, probes)
    welcome = (*(f"warning: {remark}" for remark in remarks), *_welcome(settings, URL))
    record = LaunchRecord(blueprint_of(settings, probed=probed), welcome, json_ready, source)
    launch(record, asked=_asked(config, listen, json_ready))


def _asked(config: Path | None, listen: str | None, json_ready: bool) -> list[str]:
    """The command as it was given."""
    options = [f"--config={config}"] * (config is not None) + [f"--listen={listen}"] * (listen is not None)
    return ["serve", *options, *["--json-ready"] * json_ready]


def file_in(config: Path | None) -> Path | None:
    """The file named, or the one in this folder; None where there is none."""
    return config or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)


def settings_of(config: Path | None, listen: Address | None) -> Settings:
    """From the file named, the file in this folder, or the environment. Raises `ConfigError`."""
    from hedgerow.cli.reread import read
    from hedgerow.config import from_environment

    if (file := file_in(config)) is not None:
        return read(file, listen)
    settings = from_environment(listen=listen)
    if settings is None:
        raise ConfigError([_NOTHING_TO_SERVE])
    return settings


def _source(config: Path | None, listen: Address | None) -> Source | None:
    """The file that is about to be read, as it is now, and how to read it again; None without one."""
    from hedgerow.cli.launch import interpreter_options
    from hedgerow.gateway.blueprint import Source
    from hedgerow.gateway.reload_watch import stamp_of

    found = file_in(config)
    if found is None:
        return None
    file = str(found)
    command = [sys.executable, *interpreter_options(), "-P", "-m", "hedgerow.cli.reread", file]
    if listen is not None:
        command.append(str(listen))
    return Source(file=file, stamp=stamp_of(file), reader=tuple(command))


_NOTHING_TO_SERVE = """\
nothing to serve: there is no ./hedgerow.yaml and no known API key in the environment. One of these helps:
  hedgerow init                                write a hedgerow.yaml to start from, then edit it
  hedgerow serve --config FILE                 name the file if it lies elsewhere
  export OPENAI_API_KEY=…                      serve that provider without a file
  hedgerow demo                                see hedging at work on simulated providers, no key needed"""


def _welcome(settings: Settings, url: str) -> list[str]:
    """What runs, and a first command to try it."""
    from hedgerow.cli.summary import one_line

    lines = [f"warning: {warning}" for warning in settings.warnings]
    lines.append(f"hedgerow serves {url}/v1")
    width = max(len(name) for name in settings.routes)
    lines += [f"  {name:<{width}}  {one_line(route, settings.targets)}" for name, route in settings.routes.items()]
    lines.append("try:")
    lines.append(f"  {example(url, settings)}")
    return lines
