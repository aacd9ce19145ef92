"""`hedgerow simulate`: a route of one's own in trouble, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hedgerow.cli.ahead import progress
from hedgerow.cli.configure import DEFAULT_FILE
from hedgerow.cli.making import OUTPUT, Format, make
from hedgerow.cli.words import Examples
from hedgerow.planner.simulation.builtin import BUILTIN, about

if TYPE_CHECKING:
    from hedgerow.planner.simulation.result import Simulation
    from hedgerow.planner.simulation.scenario import Scenario
    from hedgerow.planner.simulation.simulate import Options

EXAMPLES: Examples = (
    ("What ./hedgerow.yaml does when nothing happens", "hedgerow simulate"),
    ("In an outage of the primary", "hedgerow simulate --scenario outage"),
    (
        "Another configuration and route, a scenario of your own",
        "hedgerow simulate -c prod.yaml --route fast --scenario mine.yaml",
    ),
    ("A scenario to start from", "hedgerow simulate --print hang > mine.yaml"),
    ("For a script", "hedgerow simulate --scenario wall --format json"),
)


def simulate(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The configuration to try.")
    ] = DEFAULT_FILE,
    scenario: Annotated[
        str, typer.Option("--scenario", "-s", metavar="NAME", help="What happens: a name, or a YAML file of your own.")
    ] = "steady",
    route: Annotated[str | None, typer.Option(metavar="NAME", help="Which route, where there are several.")] = None,
    requests: Annotated[int, typer.Option(min=100, max=10_000_000, metavar="N", help="Requests in each run.")] = 20_000,
    rate: Annotated[
        float, typer.Option(min=0.01, max=100_000.0, metavar="X", help="Requests a second; they come at random.")
    ] = 20.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Same seed, same arrivals and same draws.")] = 1,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose published latencies all targets have, as in `hedgerow lab --preset`."),
    ] = None,
    format: Annotated[Literal["terminal", "json"], typer.Option(help="What to make.")] = "terminal",  # noqa: A002  # the option's name
    output: Annotated[Path | None, OUTPUT] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the scenarios and stop.")] = False,
    printed: Annotated[
        str | None, typer.Option("--print", metavar="NAME", help="Print this scenario as a file to change, and stop.")
    ] = None,
) -> None:
    """Run requests through a route of your configuration in virtual time, without and with hedging, and compare.

    The engine is that of the gateway, with the route's delays, guards, budgets and breakers; its targets are simulated.
    Percentiles of the time to the first token, failures, hedges against their cap, what held hedges back, breakers,
    phase by phase, and a verdict.

    {SCENARIOS}
    """
    if listed:
        typer.echo("\n".join(f"{name:<14} {about(name)}" for name in BUILTIN))
        return
    if printed is not None:
        typer.echo(_text(printed), nl=False)
        return
    from hedgerow.planner.simulation import terminal
    from hedgerow.planner.simulation.simulate import Options

    options = Options(requests=requests, rate=rate, seed=seed, route=route)
    found = _simulated(config, scenario, preset, options)
    made = Format(format)
    make(made, output, data=found, show=lambda console: terminal.show(found, console), page=str)


simulate.__doc__ = (simulate.__doc__ or "").replace(
    "{SCENARIOS}", "\n\n    ".join(f"`{name}`: {about(name)}." for name in BUILTIN)
)


def _text(name: str) -> str:
    if name not in BUILTIN:
        raise typer.BadParameter(f"there is no {name!r}; there are {', '.join(BUILTIN)}", param_hint="--print")
    return BUILTIN[name]


def _simulated(config: Path, name: str, preset: str | None, options: Options) -> Simulation:
    from hedgerow.config import load
    from hedgerow.planner.simulation.scenario import scenario_of
    from hedgerow.planner.simulation.simulate import simulate as run

    settings = load(config)
    scenario = scenario_of(name)
    if preset is not None:
        scenario = _of_preset(scenario, preset)
    with progress() as tell:
        return run(
            settings, scenario, options, name=name, source=str(config), progress=lambda done, of: tell(done, of, name)
        )


def _of_preset(scenario: Scenario, name: str) -> Scenario:
    from hedgerow.lab.presets import preset
    from hedgerow.planner.simulation.scenario import Law

    preset(name)  # raises for one that there is not
    return scenario.model_copy(update={"law": Law(preset=name), "backups_law": None})
