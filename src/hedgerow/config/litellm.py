"""Imports a LiteLLM proxy config: the same models under the same names, hedged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from yaml.error import MarkedYAMLError, YAMLError

from hedgerow.config.litellm_notes import lone, unread
from hedgerow.config.litellm_order import order_of, unordered, unweighted, weights_of
from hedgerow.config.litellm_target import LITERAL, LeftOut, Notes, is_own_server, target, value
from hedgerow.config.litellm_times import patience
from hedgerow.config.problem import show_path
from hedgerow.errors import ConfigError
from hedgerow.units import parse_duration

_LONGEST = 86_400.0


def convert(text: str) -> tuple[str, list[str]]:
    """A hedgerow.yaml for a LiteLLM config, and notes on what it does not carry over, each with its key.

    Raises `ConfigError` when `text` is no LiteLLM config or nothing in it can be carried over.
    """
    try:
        source = yaml.safe_load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError([f"line {line}: not valid YAML: {error.problem}"]) from None
    except (YAMLError, ValueError) as error:  # ValueError: what looks like a date and is none
        raise ConfigError([f"not valid YAML: {error}"]) from None
    except RecursionError:
        raise ConfigError(["is nested too deeply"]) from None
    if not isinstance(source, dict) or not isinstance(source.get("model_list"), list):
        raise ConfigError(["this is not a LiteLLM config: it has no model_list"])
    importer = _Importer(source)
    result = importer.convert()
    if not result["routes"]:
        raise ConfigError(["nothing in model_list can be carried over", *importer.notes])
    return "\n".join([_HEADER, *(_written(key, part) for key, part in result.items())]), importer.notes


_Found = tuple[str, tuple[str | int, ...], dict[str, Any], dict[str, Any]]
"""A group's name, the path of the entry's parameters, these, and the target."""


class _Dumper(yaml.SafeDumper):
    """Writes for hedgerow's reader: no anchors, and in quotes the text that YAML 1.2 (not 1.1) takes for a number."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?\Z"), list("-+.0123456789")
)


_HEADER = """\
# Imported from a LiteLLM config. Every key: docs/configuration.md
"""

_HEDGES = """\
# hedge.delay: how long a target may stay silent before the next one is asked as well; both are paid for, the first to
# answer is taken. LiteLLM does not do that. `delay: off` turns it off: then the next one is asked only after a failure.
"""


def _written(key: str, part: object) -> str:
    """One section of the file."""
    text = yaml.dump({key: part}, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)
    return (_HEDGES if key == "routes" and "hedge:" in text else "") + text


class _Importer:
    """Holds the source, the targets and groups found so far, and the notes."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.notes: Notes = []
        self._source = source
        self._targets: dict[str, dict[str, Any]] = {}
        self._groups: dict[str, list[str]] = {}
        self._own: set[str] = set()
        self._times: dict[str, dict[str, float]] = {}
        self._ranked: dict[str, bool] = {}  # groups with an `order`; whether some share one
        self._order, self._order_note = order_of(self._section("router_settings").get("routing_strategy"))

    def convert(self) -> dict[str, Any]:
        found = list(self._found())
        for name, _, _, _ in found:
            self._groups.setdefault(name, [])
        weights = self._weights(found)
        for place, (name, path, params, each) in enumerate(found):
            if weights[place] != 1:
                each["weight"] = weights[place]
            added = self._add(params, each)
            self._groups[name].append(added)
            if is_own_server(params, each):
                self._own.add(added)
            self._time(name, path, params)
        routes = {name: self._route(name, own) for name, own in self._groups.items()}
        routes |= self._aliases(routes)
        result: dict[str, Any] = {"targets": self._targets, "routes": routes}
        server = self._server(routes)
        self.notes += [*unread(self._source), *lone(self._groups, self._own)]
        self.notes = list(dict.fromkeys(self.notes))
        return result | ({"server": server} if server else {})

    def _found(self) -> Iterator[_Found]:
        """All that can be carried over; why the rest cannot is noted."""
        for name, path, params, info in self._entries():
            notes: Notes = []
            try:
                self._check_name(name, params)
                found = target(params, info, path, notes)
            except LeftOut as why:
                self.notes.append(f"{show_path(path[:-1])}: {name!r} is left out: {why}")
                continue
            self.notes += notes
            yield name, path, params, found

    def _weights(self, found: Sequence[_Found]) -> list[int]:
        """Of each of these; 1 where nothing goes by weights."""
        weights = [1] * len(found)
        for group in self._groups:
            places = [place for place, (name, _, _, _) in enumerate(found) if name == group]
            if len(places) > 1 and self._order == "rotate" and not [*self._fallback_groups(group)]:
                params = [found[place][2] for place in places]
                for place, weight in zip(places, weights_of(params), strict=True):
                    weights[place] = weight
                if unweighted(params):
                    self.notes.append(f"routes.{group}: who has no weight gets the least, 1; from LiteLLM, nothing")
        return weights

    def _entries(self) -> Iterator[tuple[str, tuple[str | int, ...], dict[str, Any], dict[str, Any]]]:
        """Name, path, parameters, `model_info` of each entry; those of lower `order` first, as LiteLLM tries them."""
        credentials = {
            str(each.get("credential_name")): each.get("credential_values")
            for each in _listed(self._source.get("credential_list"))
            if isinstance(each, dict)
        }
        entries, ranks = [], dict[str, list[float]]()
        for position, entry in enumerate(self._source["model_list"]):
            params = entry.get("litellm_params") if isinstance(entry, dict) else None
            if not isinstance(params, dict) or entry.get("model_name") is None:
                self.notes.append(f"model_list[{position}]: is left out: no model_name or litellm_params")
                continue
            for key in entry:
                if key not in ("model_name", "litellm_params", "model_info"):
                    self.notes.append(f"model_list[{position}].{key}: not carried over")
            inherited = credentials.get(str(params.get("litellm_credential_name")))
            params = (inherited if isinstance(inherited, dict) else {}) | params
            order = params.get("order")
            rank = float(order) if isinstance(order, int | float) else float("inf")
            ranks.setdefault(str(entry["model_name"]), []).append(rank)
            path = ("model_list", position, "litellm_params")
            info = entry.get("model_info")
            entries.append((rank, (str(entry["model_name"]), path, params, info if isinstance(info, dict) else {})))
        self._ranked = {name: len(set(each)) < len(each) for name, each in ranks.items() if len(set(each)) > 1}
        return (entry for _, entry in sorted(entries, key=lambda ranked: ranked[0]))

    def _check_name(self, name: str, params: Mapping[str, Any]) -> None:
        if not name.strip() or not name.isprintable():
            raise LeftOut("a route's name must be printable text")
        model = str(params.get("model") or "")
        if "*" not in name and "*" not in model:
            return
        provider = params.get("custom_llm_provider") or model.partition("/")[0]
        if "*" in name[:-1] or model.removeprefix(f"{provider}/") != name:
            raise LeftOut("hedgerow sends the name of a pattern on unchanged; it does not rewrite it")

    def _add(self, params: Mapping[str, Any], found: dict[str, Any]) -> str:
        """The name of this target; entries that are the same share one."""
        base = name = str(params["model"]).replace("${", "{")
        number = 1
        while name in self._targets and self._targets[name] != found:
            number += 1
            name = f"{base}-{number}"
        self._targets[name] = found
        return name

    def _time(self, name: str, path: tuple[str | int, ...], params: Mapping[str, Any]) -> None:
        times = self._times.setdefault(name, {})
        for key, ours in (("timeout", "total"), ("stream_timeout", "first_token")):
            seconds = self._seconds(params.get(key), (*path, key))
            if seconds is None:
                continue
            if times.setdefault(ours, seconds) != seconds:
                times[ours] = max(times[ours], seconds)
                self.notes.append(f"{show_path((*path, key))}: a route has one timeout; the longest is kept")

    def _seconds(self, raw: Any, path: tuple[str | int, ...]) -> float | None:
        if raw is None:
            return None
        seconds = parse_duration(raw)
        if seconds is None or not 0.001 <= seconds <= _LONGEST:
            self.notes.append(f"{show_path(path)}: not carried over: not a number of seconds up to a day")
            return None
        return seconds

    def _section(self, name: str) -> dict[str, Any]:
        found = self._source.get(name)
        return found if isinstance(found, dict) else {}

    def _setting(self, *paths: tuple[str, str]) -> tuple[Any, tuple[str, str]]:
        """The first of `paths` that is set."""
        for path in paths:
            if self._section(path[0]).get(path[1]) is not None:
                return self._section(path[0])[path[1]], path
        return None, paths[0]

    def _route(self, name: str, own: list[str]) -> dict[str, Any]:
        # A lone deployment is listed twice, so that a slow call is hedged to it before a fallback is asked; but a
        # server of the user's own would only get a longer queue.
        targets = own if len(own) > 1 or own[0] in self._own else own * 2
        fallbacks = [each for each in self._fallbacks(name) if each not in targets]
        route: dict[str, Any] = {"targets": [*targets, *fallbacks]} | self._ordered(name, own, fallbacks)
        targets = route["targets"]
        times = dict(self._times[name])
        whole, path = self._setting(("router_settings", "timeout"), ("litellm_settings", "request_timeout"))
        first, first_path = self._setting(("router_settings", "stream_timeout"), ("litellm_settings", "stream_timeout"))
        for ours, raw, where in (("total", whole, path), ("first_token", first, first_path)):
            if ours not in times and (seconds := self._seconds(raw, where)) is not None:
                times[ours] = seconds
        return route | patience(times, hedged=len(targets) > 1)

    def _ordered(self, name: str, own: list[str], fallbacks: list[str]) -> dict[str, Any]:
        """The route's `order`, where that is another than the one in which its targets are listed."""
        if len(set(own)) == 1 or name in self._ranked:
            if self._ranked.get(name):
                self.notes.append(f"routes.{name}: deployments of the same order do not take turns")
            return {}
        if why := unordered(self._order, dict.fromkeys(own), fallbacks, self._targets):
            self.notes.append(f"routes.{name}: {why}")
            return {}
        if self._order_note:
            self.notes.append(self._order_note)
        return {"order": self._order}

    def _fallbacks(self, name: str) -> Iterator[str]:
        """The targets of the groups that `name` falls back to, in order."""
        for group in self._fallback_groups(name):
            yield from self._groups[group]

    def _fallback_groups(self, name: str) -> Iterator[str]:
        rules: dict[str, tuple[str, Any]] = {}
        default: tuple[str, Any] = ("", None)
        for section in ("litellm_settings", "router_settings"):
            for rule in _listed(self._section(section).get("fallbacks")):
                if isinstance(rule, dict):
                    rules |= {str(group): (f"{section}.fallbacks", to) for group, to in rule.items()}
            if found := _listed(self._section(section).get("default_fallbacks")):
                default = (f"{section}.default_fallbacks", found)
        key, groups = rules.get(name, rules.get("*", default))
        for group in _listed(groups):
            if not isinstance(group, str):
                self.notes.append(f"{key}: the fallback of {name!r} with parameters of its own is not carried over")
            elif group != name and group not in self._groups:
                self.notes.append(f"{key}: {name!r} falls back to {group!r}, which is not carried over")
            elif group != name:
                yield group

    def _aliases(self, routes: Mapping[str, Any]) -> dict[str, Any]:
        aliases = self._section("router_settings").get("model_group_alias")
        found: dict[str, Any] = {}
        for alias, group in aliases.items() if isinstance(aliases, dict) else ():
            model = group.get("model") if isinstance(group, dict) else group
            if isinstance(model, str) and model in routes:
                found[str(alias)] = routes[model]
            else:
                self.notes.append(f"router_settings.model_group_alias.{alias}: {model!r} is not carried over")
        return found

    def _server(self, routes: Mapping[str, Any]) -> dict[str, Any]:
        server: dict[str, Any] = {}
        general = self._section("general_settings")
        key = general.get("master_key")
        if isinstance(key, str) and key and not re.search(r"\s", key):
            server["api_keys"] = [value(key)]
            if not key.startswith("os.environ/"):
                self.notes.append(f"general_settings.master_key: {LITERAL}")
        elif key is not None:
            self.notes.append("general_settings.master_key: not carried over: not a key")
        model = general.get("completion_model")
        if isinstance(model, str) and model in routes:
            server["default_route"] = model.replace("${", "$${")
        elif model is not None:
            self.notes.append(f"general_settings.completion_model: {model!r} is not carried over")
        self.notes.append("server.listen: is 127.0.0.1:8080; LiteLLM listens on 0.0.0.0:4000 unless told otherwise")
        return server


def _listed(found: Any) -> list[Any]:
    """`found` if it is a list, else an empty one."""
    return found if isinstance(found, list) else []
