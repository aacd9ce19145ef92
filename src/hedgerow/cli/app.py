"""The first screen of `hedgerow` and the list of its commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

import hedgerow
from hedgerow.cli.words import CONFIGURE, LOOK, RUN, TRY, Examples, epilog, prose


class Command(NamedTuple):
    """Where a command, of one word or two, is found: a function and its examples in a module of this package."""

    panel: str
    module: str
    function: str
    examples: str | None


COMMANDS = {
    "serve": Command(RUN, "serving", "serve", "EXAMPLES"),
    "plan": Command(RUN, "plan", "plan", "EXAMPLES"),
    "report": Command(RUN, "report", "report", "EXAMPLES"),
    "init": Command(CONFIGURE, "configure", "init", "INIT_EXAMPLES"),
    "check-config": Command(CONFIGURE, "configure", "check_config", "CHECK_EXAMPLES"),
    "import": Command(CONFIGURE, "configure", "import_", "IMPORT_EXAMPLES"),
    "probe": Command(CONFIGURE, "probe", "probe", "EXAMPLES"),
    "ledger summary": Command(LOOK, "ledger", "summary", "SUMMARY_EXAMPLES"),
    "ledger show": Command(LOOK, "ledger", "show", "SHOW_EXAMPLES"),
    "ledger export": Command(LOOK, "ledger", "export", "EXPORT_EXAMPLES"),
    "ledger prune": Command(LOOK, "ledger", "prune", "PRUNE_EXAMPLES"),
    "simulate": Command(TRY, "simulate", "simulate", "EXAMPLES"),
    "demo": Command(TRY, "demonstrate", "demo", "EXAMPLES"),
    "lab": Command(TRY, "lab", "lab", "EXAMPLES"),
    "version": Command(TRY, "version", "version", None),
}
GROUPS = {"ledger": "Look back: what requests took and cost, one by one or all of them, as files too."}
"""What the commands of two words have in common."""


SUMMARY = "Request hedging for LLM APIs: cut p99 time to first token without doubling the bill."

EXAMPLES: Examples = (
    ("See p99 fall, with nothing to set up", "hedgerow demo"),
    ("Set up, then point your client's base_url at it", "hedgerow init && hedgerow serve"),
    ("Options and examples of a command", "hedgerow serve --help"),
)


def find(name: str) -> tuple[Callable[..., None], Examples]:
    """The function of a command and its examples."""
    command = COMMANDS[name]
    module = import_module(f"hedgerow.cli.{command.module}")
    examples: Examples = () if command.examples is None else getattr(module, command.examples)
    return getattr(module, command.function), examples


def build(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application. Of the commands only the one that `arguments` call: Typer takes a while to prepare them all."""
    app = typer.Typer(
        name="hedgerow",
        help=SUMMARY,
        epilog=epilog(EXAMPLES),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_first_screen)
    groups: dict[str, typer.Typer] = {"": app}
    wanted = arguments[0] if arguments else None
    for name in [each for each in COMMANDS if each.split()[0] == wanted] or COMMANDS:
        function, examples = find(name)
        group, _, own = name.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
            app.add_typer(groups[group], name=group, rich_help_panel=COMMANDS[name].panel, help=GROUPS[group])
        groups[group].command(
            own,
            rich_help_panel=COMMANDS[name].panel,
            help=prose(function.__doc__),
            epilog=epilog(examples),
            context_settings={"allow_extra_args": name == "serve"},  # it has a better word to say about them
        )(function)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hedgerow {hedgerow.__version__}")
        raise typer.Exit


def _first_screen(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Everything is done by the commands."""
