"""`hedgerow init`, `check-config` and `import`: getting to a configuration that works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.words import Examples
from hedgerow.errors import ConfigError

if TYPE_CHECKING:
    from hedgerow.config import Settings

DEFAULT_FILE = Path("hedgerow.yaml")

INIT_EXAMPLES: Examples = (
    ("Write ./hedgerow.yaml with what one needs first, explained", "hedgerow init"),
    ("Somewhere else, replacing what is there", "hedgerow init --force conf/hedgerow.yaml"),
)
CHECK_EXAMPLES: Examples = (
    ("Check ./hedgerow.yaml", "hedgerow check-config"),
    ("Deploy only what can work", "hedgerow check-config prod.yaml && ./deploy.sh"),
    ("Let an editor check and complete", "hedgerow check-config --print-schema > hedgerow.schema.json"),
)
IMPORT_EXAMPLES: Examples = (
    ("Look at the result", "hedgerow import litellm.yaml"),
    ("Keep it", "hedgerow import litellm.yaml --output hedgerow.yaml"),
)

Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file that is already there.")]


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = DEFAULT_FILE,
    force: Force = False,
) -> None:
    """Write a commented hedgerow.yaml to start from."""
    from hedgerow.config.template import TEMPLATE

    _write(path, TEMPLATE, force=force)
    typer.echo(f"wrote {path}; edit it, then: hedgerow check-config {path} && hedgerow serve --config {path}", err=True)


def check_config(
    file: Annotated[Path, typer.Argument(help="The configuration to check.")] = DEFAULT_FILE,
    print_schema: Annotated[
        bool, typer.Option("--print-schema", help="Print the JSON Schema of hedgerow.yaml instead, and check nothing.")
    ] = False,
) -> None:
    """Check a configuration without serving: say that it is fine and what it does, or all that is wrong with it."""
    if print_schema:
        import json

        from hedgerow.config.schema import json_schema

        typer.echo(json.dumps(json_schema(), indent=2))
        return
    from hedgerow.config import load

    settings = load(file)
    for warning in settings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"{file}: ok, {_count(len(settings.routes), 'route')}, {_count(len(settings.targets), 'target')}")
    _show(settings, file)


def import_(
    source: Annotated[Path, typer.Argument(metavar="LITELLM.YAML", help="A LiteLLM proxy configuration.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here in place of standard output.")
    ] = None,
    force: Force = False,
) -> None:
    """Turn a LiteLLM configuration into a hedgerow.yaml; what could not be taken over is said on stderr."""
    from hedgerow.config.litellm import convert

    try:
        text, notes = convert(source.read_text("utf-8"))
    except OSError as error:
        raise ConfigError([f"{source}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{source}: is not UTF-8 text (byte {error.start})"]) from None
    except ConfigError as error:
        raise ConfigError([f"{source}: {problem}" for problem in error.problems]) from None
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if output is None:
        typer.echo(text, nl=False)
    else:
        _write(output, text, force=force)
        typer.echo(f"wrote {output}; next: hedgerow check-config {output}", err=True)


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError([f"{path}: is there already; --force overwrites it"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror}"]) from None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _show(settings: Settings, file: Path) -> None:
    """The routes on stdout, each with its targets in order: no table, which would cut URLs to the terminal's width."""
    from hedgerow.cli.charges import charges
    from hedgerow.cli.reread import findings
    from hedgerow.cli.summary import hedging, more, ordering, place
    from hedgerow.gateway.drafting import blueprint_of
    from hedgerow.probe.store import file_of
    from hedgerow.units import show_duration

    probed, remarks = findings(settings, file_of(settings, file))
    for remark in remarks:
        typer.echo(f"warning: {remark}", err=True)
    drafts = blueprint_of(settings, probed=probed).targets

    for name, route in settings.routes.items():
        times = {
            "first token": route.timeouts.first_token,
            "stall": route.timeouts.stall,
            "total": route.timeouts.total,
        }
        limits = ", ".join(f"{what} {show_duration(seconds)}" for what, seconds in times.items())
        parts = [*filter(None, [ordering(route)]), hedging(route), *more(route), limits]
        typer.echo(f"\n{name}: {'; '.join(parts)}")
        width = max(map(len, route.targets))
        for target in route.in_order(settings.targets):
            typer.echo(f"  {target:<{width}}  {place(settings.targets[target])}")
            typer.echo(f"  {'':<{width}}  {charges(drafts[target])}")
