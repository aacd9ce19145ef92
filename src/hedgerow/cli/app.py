"""The first screen of `hedgerow` and the list of its commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from hedgerow.cli import configure, demonstrate, lab, serving, version
from hedgerow.cli.words import CONFIGURE, EXIT_CODES, RUN, TRY, examples, prose

app = typer.Typer(
    name="hedgerow",
    help="Request hedging for LLM APIs: cut p99 time to first token without doubling the bill.",
    epilog=examples(
        ("See p99 fall, with nothing to set up", "hedgerow demo"),
        ("Set up, then point your client's base_url at it", "hedgerow init && hedgerow serve"),
        ("Options and examples of a command", "hedgerow serve --help"),
        then=EXIT_CODES,
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def first_screen(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=version.print_and_exit, is_eager=True),
    ] = False,
) -> None:
    """Everything is done by the commands."""


def _add(name: str, command: Callable[..., None], *, panel: str, epilog: str = EXIT_CODES) -> None:
    app.command(name, rich_help_panel=panel, help=prose(command.__doc__), epilog=epilog)(command)


_add("serve", serving.serve, panel=RUN, epilog=serving.EXAMPLES)
_add("init", configure.init, panel=CONFIGURE, epilog=configure.INIT_EXAMPLES)
_add("check-config", configure.check_config, panel=CONFIGURE, epilog=configure.CHECK_EXAMPLES)
_add("import", configure.import_, panel=CONFIGURE, epilog=configure.IMPORT_EXAMPLES)
_add("demo", demonstrate.demo, panel=TRY, epilog=demonstrate.EXAMPLES)
_add("lab", lab.lab, panel=TRY, epilog=lab.EXAMPLES)
_add("version", version.version, panel=TRY)
