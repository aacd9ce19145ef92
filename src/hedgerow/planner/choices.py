"""Ways to hedge within a budget: which are worth trying, by arithmetic, and the config of each, which is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf

import msgspec
import numpy as np

from hedgerow.config.base import DAY
from hedgerow.planner.estimate import Estimate, at_quantile, best, hedged
from hedgerow.planner.log import Floats
from hedgerow.planner.plan import Choice
from hedgerow.planner.scene import Backup, Scene
from hedgerow.units import show_duration, show_percent

_MOST = 2
"""Backups that are tried for each budget."""
_NEAR = 1.15
"""How much longer the quantile may be with another than the most promising one, for it to be tried as well."""
_DIGITS = 3
"""Of a delay that a config has."""
_GAIN = 0.01
"""Chance must make the quantile so much shorter than a fixed delay alone, to be worth its trouble."""
_TARGET, _SOON, LATE = 0.99, 0.05, 30.0
"""The defaults of `hedge.target`, `min_delay` and `max_delay`."""
_FIRST_TOKEN, _TOTAL = 60.0, 600.0
"""Those of the route's `timeouts`."""
BURST = 50
"""That of `hedge.burst`."""
_SAMPLES, _AGE, _OLDEST = 1_000, 1_800.0, DAY
"""Those of `hedge.window`, and the most that its age may be."""
_MINUTE, _HOUR = 60.0, 3_600.0
"""The hour is also the longest delay that a config may have."""
_SLOW = 0.999
"""What is slower than this share of the answers is rarer than any budget."""
_WARM = 100
"""Attempts that a rule must know to learn from them, the default of `hedge.warmup.samples`."""


@dataclass(frozen=True, slots=True)
class Aims:
    """The quantile to be made short, and bounds of learned delays, None for the config's defaults."""

    target: float
    min_delay: float | None = None
    max_delay: float | None = None


def candidates(scene: Scene, shares: Mapping[str, float], aims: Aims) -> list[Choice]:
    """What is worth trying, of the most promising backups; `shares`: the hedges per request that are paid for."""
    looks = []
    for backup in scene.backups:
        own, other = fitted(scene, backup)
        share = shares[backup.name]
        looks.append((best(own, other, share, aims.target), plain(own, other, share, aims.target), backup))
    looks.sort(key=lambda look: look[0].p99)
    near = [look for look in looks[:_MOST] if look[0].p99 <= looks[0][0].p99 * _NEAR]
    found = []
    for place, (random, fixed, backup) in enumerate(near):
        share = shares[backup.name]
        ways = []
        if scene.gap * _WARM < _OLDEST:
            ways.append(("auto", 1.0))
        if place == 0 and ways and share < 1.0:
            ways.append((f"p{(1.0 - share) * 100:.4g}", 1.0))
        if fixed.delay < inf:
            ways.append((show_duration(_short(fixed.delay)), 1.0))
        if random.probability < 1.0 and random.p99 < fixed.p99 * (1.0 - _GAIN):
            ways.append((show_duration(_short(random.delay)), max(round(random.probability, 3), 0.001)))
        if place == 0 and not ways:  # nothing that helps: what hedges next to nobody shows it
            own = fitted(scene, backup)[0]
            ways.append((show_duration(_short(float(own[np.isfinite(own)].max()))), 1.0))
        found += [_choice(scene, backup, delay, chance, share, aims) for delay, chance in ways]
    return found


def fitted(scene: Scene, backup: Backup) -> tuple[Floats, Floats]:
    """What primary and hedge take of the requests that are fitted on, for arithmetic."""
    own, other = (each[: scene.split] for each in scene.sure(backup))
    answered = np.isfinite(own)
    return own[answered], other[answered]


def plain(own: Floats, other: Floats, share: float, target: float) -> Estimate:
    """The shortest delay at which all who reach it can be hedged; a longer one would not be better."""
    late = at_quantile(own, 1.0 - share)
    extra = float((own > late).mean())
    return Estimate(late if extra else inf, 1.0, at_quantile(hedged(own, other, late), target), extra)


def off(scene: Scene, backup: Backup) -> dict[str, str]:
    """The config without hedging, with this backup for failovers."""
    return {"hedge.delay": "off"} | _timeouts(scene.slowest(backup))


def _choice(scene: Scene, backup: Backup, delay: str, chance: float, share: float, aims: Aims) -> Choice:
    keys = {"hedge.delay": delay} | _budget(scene, share)
    if chance < 1.0:
        keys["hedge.rollout"] = show_percent(chance)
    if delay == "auto" or delay.startswith("p"):
        keys |= _learning(scene, aims)
    return Choice(
        primary=scene.name,
        backup=backup.name,
        relation=backup.relation,
        delay=delay,
        probability=chance,
        config=tuple((keys | _timeouts(scene.slowest(backup))).items()),
    )


def burst_of(scene: Scene, share: float) -> int:
    """How many hedges may start in a row: the default, or a fifth of what a short log pays for."""
    return min(BURST, max(2, round(share * scene.split / 5)))


def _budget(scene: Scene, share: float) -> dict[str, str]:
    """The share is all there is: nothing is earned by the minute, and in a short log less may start in a row."""
    burst = burst_of(scene, share)
    keys = {"hedge.budget": show_percent(round(share, 6)), "hedge.per_minute": "0"}
    return keys if burst == BURST else keys | {"hedge.burst": str(burst)}


def cheaper(scene: Scene, choice: Choice, share: float) -> Choice:
    """The same way within a smaller budget."""
    keys = {key: value for key, value in choice.config if key != "hedge.burst"} | _budget(scene, share)
    return msgspec.structs.replace(choice, config=tuple(keys.items()))


def _learning(scene: Scene, aims: Aims) -> dict[str, str]:
    """What a delay that is learned goes by."""
    keys = {}
    if aims.target != _TARGET:
        keys["hedge.target"] = f"p{aims.target * 100:.4g}"
    if aims.min_delay is not None and aims.min_delay != _SOON:
        keys["hedge.min_delay"] = show_duration(aims.min_delay)
    late = _late(scene) if aims.max_delay is None else aims.max_delay
    if late != LATE:
        keys["hedge.max_delay"] = show_duration(late)
    return keys | _window(scene)


def _late(scene: Scene) -> float:
    """The longest delay that may be learned: where a slow answer takes longer than the default, what that takes."""
    answered = scene.own[: scene.split][np.isfinite(scene.own[: scene.split])]
    slow = at_quantile(answered, _SLOW) if len(answered) else 0.0
    return LATE if slow <= LATE else min(ceil(slow / _MINUTE) * _MINUTE, _HOUR)


def _window(scene: Scene) -> dict[str, str]:
    """How far back a rule must look to know as many attempts as it may; of rare requests the default sees too few."""
    age = scene.gap * _SAMPLES
    return {} if age <= _AGE else {"hedge.window.age": show_duration(min(ceil(age / _HOUR) * _HOUR, _OLDEST))}


def _timeouts(slowest: float) -> dict[str, str]:
    """Under which nothing of the log would have been broken off: hedging alone is to be judged."""
    patience = ceil(slowest * 2.0 / _MINUTE) * _MINUTE
    keys = {}
    if slowest >= _FIRST_TOKEN:
        keys["timeouts.first_token"] = show_duration(min(patience, DAY))
    if slowest * 2.0 >= _TOTAL:
        keys["timeouts.total"] = show_duration(min(patience * 2.0, DAY))
    return keys


def _short(seconds: float) -> float:
    """A delay as people write it, and as a config may have it."""
    return min(float(f"{seconds:.{_DIGITS}g}"), _HOUR)
