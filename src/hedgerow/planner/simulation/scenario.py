"""What happens to the targets of a route while requests come: the model of a scenario, and where it is read from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from hedgerow.config.amounts import number, share
from hedgerow.config.base import DAY, Model
from hedgerow.config.fields import FLAG, Leaf, check_text, duration, expected, one_of, problem, text, whole
from hedgerow.config.load import read
from hedgerow.errors import ConfigError
from hedgerow.lab.latency import HeavyTail, Shape
from hedgerow.lab.presets import PRESETS, preset
from hedgerow.lab.script import Fault, FaultMix
from hedgerow.planner.simulation.builtin import BUILTIN

_TIME = duration(0.001, DAY)
_FACTOR = number(0.01, 1_000)


def _faults(value: object, _: Path) -> str:
    words = check_text(value)
    try:
        mix = FaultMix(words)
    except ConfigError as error:
        raise problem(error.problems[0]) from None
    if any(script.fault not in (None, Fault.HANG) for script in mix.scripts):
        raise expected(
            'error statuses and "hang", such as "503:0.2,hang:0.1": nothing after the first token is simulated'
        )
    return words


_FAULTS = Leaf(_faults, "faults by probability", {"type": "string"})


class Law(Model):
    """What a target's times to first token are drawn from, by the lab's own shapes."""

    preset: Annotated[str, one_of(*PRESETS)] = "openai"
    p50: Annotated[float | None, _TIME] = None
    p95: Annotated[float | None, _TIME] = None
    p99: Annotated[float | None, _TIME] = None

    @property
    def shape(self) -> Shape:
        """Raises `ConfigError` for percentiles that cannot be."""
        if self.p50 is None or self.p95 is None:
            return preset(self.preset).shape
        return HeavyTail(self.p50, self.p95, self.p99)

    @model_validator(mode="after")
    def _possible(self) -> Law:
        if (self.p50 is None) != (self.p95 is None) or (self.p99 is not None and self.p50 is None):
            raise problem("give p50 and p95 (p99 may be added), or neither")
        try:
            self.shape  # noqa: B018
        except ConfigError as error:
            raise problem(error.problems[0]) from None
        return self


class Weather(Model):
    """What holds for a target. `faults` as `hedgerow lab --fault`: error statuses and `hang`, by probability."""

    slower: Annotated[float, _FACTOR] = 1.0
    faults: Annotated[str, _FAULTS] = ""


class Phase(Model):
    """A stretch of time. `lasts`: how long, beside the others; `rate`: times as many requests; `slower`: everywhere."""

    name: Annotated[str, text(nullable=False)]
    lasts: Annotated[float, _FACTOR] = 1.0
    rate: Annotated[float, number(0.001, 1_000)] = 1.0
    slower: Annotated[float, _FACTOR] = 1.0
    primary: Weather = Weather()
    backups: Weather = Weather()

    @property
    def usual(self) -> bool:
        """Whether nothing happens in it."""
        return (self.rate, self.slower, self.primary, self.backups) == (1.0, 1.0, Weather(), Weather())


class Limits(Model):
    """Requests that a target takes in a `window`, as so many times those that usually come in it.

    `late`: what is left is told with the first token, as it was when the request came; else at once, as the lab does.
    """

    primary: Annotated[float, _FACTOR]
    backups: Annotated[float, _FACTOR]
    window: Annotated[float, duration(1.0, DAY)] = 60.0
    late: Annotated[bool, FLAG] = False


class Queue(Model):
    """All targets are these servers, each with a queue; `load` without any hedge, at the usual rate."""

    servers: Annotated[int, whole(1, 10_000)] = 10
    load: Annotated[float, share(0.01, 0.99)] = 0.6
    cancels: Annotated[bool, FLAG] = True


class Scenario(Model):
    """The whole of it. `rho`: how much the times of a request's attempts go together; null: as hedgerow assumes."""

    about: Annotated[str, text(nullable=False)]
    law: Law = Law()
    backups_law: Law | None = None
    rho: Annotated[float | None, number(0, 1)] = None
    limits: Limits | None = None
    queue: Queue | None = None
    phases: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=1_000)]


def scenario_of(name: str) -> Scenario:
    """A built-in scenario, or that of a YAML file. Raises `ConfigError`."""
    if name in BUILTIN:
        return read(Scenario, BUILTIN[name], name)
    file = Path(name)
    try:
        return read(Scenario, file.read_text("utf-8"), name)
    except FileNotFoundError:
        known = ", ".join(BUILTIN)
        raise ConfigError([f"there is no scenario {name!r} and no such file; the scenarios are {known}"]) from None
    except OSError as error:
        raise ConfigError([f"{name}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: is not UTF-8 text (byte {error.start})"]) from None
