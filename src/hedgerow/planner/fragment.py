"""The configuration that a plan recommends, with what was measured in its comments and places for URLs and keys."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from hedgerow.config.base import DAY
from hedgerow.planner import words
from hedgerow.planner.plan import Option, Plan, Route
from hedgerow.planner.scene import places_of
from hedgerow.report.words import change, percent, seconds
from hedgerow.units import show_duration

_WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z0-9][\w.%-]*")
_WHY: Mapping[str, str] = {
    "hedge.per_minute": "the budget is all there is; by default one a minute comes on top",
    "hedge.burst": "so many at once, beyond the share: few, as the log is short",
    "hedge.rollout": "of the requests that wait so long, hedge only so many",
    "hedge.max_delay": "what is slow in the log takes longer than the default; a delay as long means as good as never",
    "hedge.window.age": "requests are rare: look back so far to know enough of them",
    "timeouts.first_token": "longer than any answer of these targets took in the log; shorten it to give up sooner",
    "timeouts.total": "likewise",
}
"""Why a key of a choice differs from its default."""
_AT_MOST = "the most that a config may say, as an answer in the log took hours; shorten it to give up sooner"
_NAME = re.compile(r"(?!(?:true|false|null)$)[A-Za-z][\w.-]*", re.IGNORECASE)


def fragment(plan: Plan) -> str:
    """YAML that `hedgerow check-config` takes. The same plan gives the same bytes."""
    names = _names(plan)
    lines = [
        *_comment(f"What `hedgerow plan` {plan.version} recommends (seed {plan.seed})."),
        *_comment(words.log_line(plan.source, plan.targets)),
        *_comment("Put in URLs and keys, take the routes into your own hedgerow.yaml or serve this file."),
        "",
        "targets:",
    ]
    accounts = [place.candidate.account for place in places_of(list(names))]
    for (target, name), account in zip(names.items(), accounts, strict=True):
        lines += _target(target, name, account if accounts.count(account) > 1 else None)
    lines += ["", "routes:"]
    for route in plan.routes:
        lines += ["", *_route(plan, route, names)]
    return "\n".join(lines) + "\n"


def _names(plan: Plan) -> Mapping[str, str]:
    """Of every target that the routes ask, by its name in the log, one that a configuration can have."""
    found: dict[str, str] = {}
    for target in (name for route in plan.routes for name in _asked(plan, route)):
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", target).strip("-._")
        plain = plain if _NAME.fullmatch(plain) else f"target-{plain}"
        taken = set(found.values())
        again = (f"{plain}-{number}" for number in range(2, len(taken) + 3))
        found.setdefault(target, plain if plain not in taken else next(each for each in again if each not in taken))
    return found


def _chosen(route: Route) -> Option | None:
    return None if route.recommended is None else route.options[route.recommended]


def _asked(plan: Plan, route: Route) -> Sequence[str]:
    """The primary, and who comes next: without hedging, too, as failover is worth having all the same."""
    option = _chosen(route)
    if option is not None:
        return [route.primary, option.choice.backup]
    tried = [each.choice.backup for each in reversed(route.options)]
    known = [each.target for each in sorted(plan.targets, key=lambda each: -each.n)]
    return [route.primary, *[each for each in (*tried, *known) if each != route.primary][:1]]


def _target(target: str, name: str, account: str | None) -> Iterator[str]:
    """`account`: what it shares with another, if anything."""
    key = f"{re.sub(r'[^A-Z0-9]+', '_', name.upper())}_API_KEY"
    yield f"  {name}:{f'  # {_line(target)}' if name != target else ''}"
    yield f"    base_url: https://{name.lower().replace('_', '-')}.example/v1  # its URL here"
    yield f"    api_key: ${{{key}:-none}}"
    if account is not None:
        why = "one provider, slow and limited together, as judged; take it out where rate limits are apart"
        yield f"    account: {_value(account)}  # {why}"


def _route(plan: Plan, route: Route, names: Mapping[str, str]) -> Iterator[str]:
    option, asked = _chosen(route), _asked(plan, route)
    yield from _comment(route.verdict, 2)
    if option is None and len(asked) > 1:
        yield from _comment(f"Without hedges {asked[1]} still takes over where {route.primary} fails (failover).", 2)
    if option is not None:
        yield from _comment(_measured(plan, route, option), 2)
        if option.choice.relation == "other tier":
            yield from _comment(
                f"{option.choice.backup} is another tier: the target's `override` may have to ask for it.", 2
            )
    yield f"  {json.dumps('*') if len(plan.routes) == 1 else names[route.primary]}:"
    yield f"    targets: [{', '.join(names[each] for each in asked)}]"
    keys = _unhedged(route, asked) if option is None else dict(option.choice.config)
    yield from _nested([(key.split("."), key, value) for key, value in keys.items()], 4)


def _unhedged(route: Route, asked: Sequence[str]) -> dict[str, str]:
    """The config without hedging, which breaks no more off than with it: the timeouts are those of what was tried."""
    tried = sorted(route.options, key=lambda each: each.choice.backup == asked[-1])
    last = dict(tried[-1].choice.config) if tried else {}
    return {"hedge.delay": "off"} | {key: value for key, value in last.items() if key.startswith("timeouts.")}


def _measured(plan: Plan, route: Route, option: Option) -> str:
    """What the engine made of it."""
    target = plan.target_quantile
    times = [
        f"{words.pname(p)} {seconds(words.value(route.without, p))} -> {seconds(words.value(option.expected, p))}"
        for p in sorted({0.5, 0.95, target})
    ]
    gain = change(words.gain(route.without, option.expected, target))
    return (
        f"Measured in virtual time on {route.judged_on:,} requests that its delay was not chosen by: "
        f"{', '.join(times)} ({gain}) for {percent(option.expected.extra)} extra attempts."
    )


def _nested(keys: Sequence[tuple[Sequence[str], str, str]], indent: int) -> Iterator[str]:
    """Sections with their keys, in the order in which they first come; of each key what is left, all of it, a value."""
    for first in dict.fromkeys(path[0] for path, _, _ in keys):
        own = [(path[1:], key, value) for path, key, value in keys if path[0] == first]
        if own[0][0]:
            yield f"{' ' * indent}{first}:"
            yield from _nested(own, indent + 2)
        else:
            _, key, value = own[0]
            said = _AT_MOST if key.startswith("timeouts.") and value == show_duration(DAY) else _WHY.get(key)
            why = f"  # {said}" if said else ""
            yield f"{' ' * indent}{first}: {_value(value)}{why}"


def _value(text: str) -> str:
    """As YAML reads it back."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _comment(text: str, indent: int = 0) -> Iterator[str]:
    for line in textwrap.wrap(_line(text), _WIDTH - indent, break_long_words=False):
        yield f"{' ' * indent}# {line}"


def _line(text: str) -> str:
    """Without what would end a comment."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
