"""The scenarios there are, as one would write them into a file of one's own. The first line says what happens."""

from __future__ import annotations

_HOURS = (0.0, 0.07, 0.25, 0.5, 0.75, 0.93, 1.0, 0.93, 0.75, 0.5, 0.25, 0.07)
"""How far from its quietest to its busiest hour a day is, every two hours from 4 o'clock on."""
_NAMES = (
    "night",
    "morning",
    "noon",
    "noon",
    "afternoon",
    "afternoon",
    "evening",
    "evening",
    *["late"] * 2,
    *["night"] * 2,
)


def _day() -> str:
    lines = [
        f"- {{name: {name}, rate: {0.4 + 1.2 * height:.3g}, slower: {1.0 + 0.8 * height:.3g}}}"
        for name, height in zip(_NAMES, _HOURS, strict=True)
    ]
    return "\n".join(
        [
            "about: a day in small; at its height four times the traffic and times 1.8 times as long",
            "phases:",
            *lines,
            "",
        ]
    )


BUILTIN = {
    "steady": """\
about: nothing happens; every target keeps to its law
phases:
- {name: steady}
""",
    "diurnal": _day(),
    "shift": """\
about: the primary becomes 2.5 times as slow, and stays so; the others do not
phases:
- {name: before, lasts: 40}
- {name: just after, lasts: 10, primary: {slower: 2.5}}
- {name: later, lasts: 50, primary: {slower: 2.5}}
""",
    "outage": """\
about: the primary answers 503 for three fifths of the time
phases:
- {name: before, lasts: 20}
- {name: outage, lasts: 60, primary: {faults: "503:1"}}
- {name: after, lasts: 20}
""",
    "silence": """\
about: the primary says nothing at all for three fifths of the time
phases:
- {name: before, lasts: 20}
- {name: silence, lasts: 60, primary: {faults: "hang:1"}}
- {name: after, lasts: 20}
""",
    "hang": """\
about: 30 % of the primary's attempts hang for three fifths of the time
phases:
- {name: before, lasts: 20}
- {name: hanging, lasts: 60, primary: {faults: "hang:0.3"}}
- {name: after, lasts: 20}
""",
    "wall": """\
about: traffic grows by half, past the primary's rate limit; the backups have little of their own to spare
limits: {primary: 1.25, backups: 0.35, window: 20s}
phases:
- {name: below, lasts: 20}
- {name: beyond, lasts: 60, rate: 1.5}
- {name: below again, lasts: 20}
""",
    "queue": """\
about: all targets are one fleet of 10 servers with a queue each, busier for a while; a cancel frees the server
queue: {servers: 10, load: 60%, cancels: true}
phases:
- {name: usual, lasts: 40}
- {name: busy, lasts: 20, rate: 1.3}
- {name: usual again, lasts: 40}
""",
    "queue-runs-on": """\
about: the same fleet, but servers finish what was cancelled, for nobody
queue: {servers: 10, load: 60%, cancels: false}
phases:
- {name: usual, lasts: 40}
- {name: busy, lasts: 20, rate: 1.3}
- {name: usual again, lasts: 40}
""",
}


def about(name: str) -> str:
    """What happens in this scenario, in a line."""
    return BUILTIN[name].partition("\n")[0].removeprefix("about: ")
