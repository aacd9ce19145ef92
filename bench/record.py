"""What was measured, and the few statistics the tables need: median, spread, ratio round by round."""

from dataclasses import dataclass, field
from statistics import median

from bench.driver import Result


@dataclass(slots=True)
class Candidate:
    """One candidate's results. `runs` maps a run's name to its results by round."""

    name: str
    about: str
    version: str = ""
    failed: str = ""
    ready: dict[int, float] = field(default_factory=dict)
    runs: dict[str, dict[int, Result]] = field(default_factory=dict)

    def add(self, run: str, round_number: int, result: Result) -> None:
        """Keeps one result."""
        self.runs.setdefault(run, {})[round_number] = result

    def values(self, run: str, key: str) -> dict[int, float]:
        """The values of one key of one run, by round; runs in which nothing was answered have none."""
        found = {number: float(result[key]) for number, result in self.runs.get(run, {}).items()}
        return {number: value for number, value in found.items() if value > 0}

    def errors(self) -> float:
        """Wrong, cut or refused answers over all runs."""
        return sum(float(result["errors"]) for rounds in self.runs.values() for result in rounds.values())

    def disturbed(self) -> str:
        """In how many runs other programs (or the host) took more than a tenth of a core, in words; else empty."""
        others = [float(result["others_util"]) for rounds in self.runs.values() for result in rounds.values()]
        count = sum(share > 0.1 for share in others)
        return f"{count} of {len(others)} runs, at worst {max(others):.2f} cores" if count else ""

    def first_error(self) -> str:
        """The first of them, in words."""
        errors = (str(result["first_error"]) for rounds in self.runs.values() for result in rounds.values())
        return next((error for error in errors if error), "")


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with the smallest and largest value it comes from."""

    mid: float
    low: float
    high: float


def figure(values: dict[int, float]) -> Figure | None:
    """Median and spread, None without values."""
    if not values:
        return None
    return Figure(mid=median(values.values()), low=min(values.values()), high=max(values.values()))


def ratio(ours: dict[int, float], theirs: dict[int, float]) -> Figure | None:
    """Ours over theirs, round by round, so that a slow minute of the machine divides out."""
    return figure({number: ours[number] / theirs[number] for number in ours.keys() & theirs.keys()})


def difference(ours: dict[int, float], theirs: dict[int, float]) -> Figure | None:
    """Ours minus theirs, round by round."""
    return figure({number: ours[number] - theirs[number] for number in ours.keys() & theirs.keys()})
