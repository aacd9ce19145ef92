"""Imports a LiteLLM proxy config: the same models under the same names, hedged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from yaml.error import MarkedYAMLError, YAMLError

from hedgerow.config.hedge import Hedge
from hedgerow.config.litellm_target import LITERAL, LeftOut, Notes, is_own_server, target, value
from hedgerow.config.problem import show_path
from hedgerow.config.route import FIRST_TOKEN, TOTAL
from hedgerow.errors import ConfigError
from hedgerow.units import parse_duration, show_duration

_LONGEST = 86_400.0
_DELAY = Hedge().first_delay or 0.0
_USED = {
    "litellm_settings": {"fallbacks", "default_fallbacks", "request_timeout", "stream_timeout"},
    "router_settings": {"fallbacks", "default_fallbacks", "timeout", "stream_timeout", "model_group_alias"},
    "general_settings": {"master_key", "completion_model"},
}
_REASONS = {
    "num_retries": "; hedgerow goes on to the next target instead of trying the same one again",
    "routing_strategy": "; hedgerow tries targets in the order listed",
    "context_window_fallbacks": "; a request that is too long is answered as the provider answers it",
    "content_policy_fallbacks": "; a refusal is an answer",
}


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

    def convert(self) -> dict[str, Any]:
        for name, path, params in self._entries():
            notes: Notes = []
            try:
                self._check_name(name, params)
                found = target(params, path, notes)
            except LeftOut as why:
                self.notes.append(f"{show_path(path[:-1])}: {name!r} is left out: {why}")
                continue
            self.notes += notes
            added = self._add(params, found)
            self._groups.setdefault(name, []).append(added)
            if is_own_server(params, found):
                self._own.add(added)
            self._time(name, path, params)
        routes = {name: self._route(name, own) for name, own in self._groups.items()}
        routes |= self._aliases(routes)
        result: dict[str, Any] = {"targets": self._targets, "routes": routes}
        server = self._server(routes)
        self._rest()
        self._lone()
        self.notes = list(dict.fromkeys(self.notes))
        return result | ({"server": server} if server else {})

    def _lone(self) -> None:
        """Notes on the groups of one deployment."""
        lone = [name for name, own in self._groups.items() if len(own) == 1]
        if own := [name for name in lone if self._groups[name][0] in self._own]:
            self.notes.append(
                f"routes: {', '.join(own)}: the one deployment is a server of your own and listed once: a second call "
                "to it would wait in the same queue"
            )
        if twice := [name for name in lone if name not in own]:
            self.notes.append(
                f"routes: {', '.join(twice)}: the one deployment is listed twice, so a slow call is hedged to the same "
                "provider; hedge.delay: off turns that off"
            )

    def _entries(self) -> Iterator[tuple[str, tuple[str | int, ...], dict[str, Any]]]:
        """Name, path and parameters of each entry; those of lower `order` first, as LiteLLM tries them."""
        credentials = {
            str(each.get("credential_name")): each.get("credential_values")
            for each in _listed(self._source.get("credential_list"))
            if isinstance(each, dict)
        }
        entries = []
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
            path = ("model_list", position, "litellm_params")
            entries.append((rank, (str(entry["model_name"]), path, params)))
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
        targets = targets + [each for each in self._fallbacks(name) if each not in targets]
        route: dict[str, Any] = {"targets": targets}
        times = dict(self._times[name])
        whole, path = self._setting(("router_settings", "timeout"), ("litellm_settings", "request_timeout"))
        first, first_path = self._setting(("router_settings", "stream_timeout"), ("litellm_settings", "stream_timeout"))
        for ours, raw, where in (("total", whole, path), ("first_token", first, first_path)):
            if ours not in times and (seconds := self._seconds(raw, where)) is not None:
                times[ours] = seconds
        return route | _patience(times, hedged=len(targets) > 1)

    def _fallbacks(self, name: str) -> Iterator[str]:
        """The targets of the groups that `name` falls back to, in order."""
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
                yield from self._groups[group]

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

    def _rest(self) -> None:
        """Notes on all that nothing above has read."""
        for section, content in self._source.items():
            if section in ("model_list", "credential_list"):
                continue
            if section not in _USED or not isinstance(content, dict):
                names = f" ({', '.join(map(str, content))})" if isinstance(content, dict) and content else ""
                self.notes.append(f"{section}: not carried over{names}")
                continue
            for key in content:
                if key not in _USED[section]:
                    self.notes.append(f"{section}.{key}: not carried over{_REASONS.get(str(key), '')}")


def _listed(found: Any) -> list[Any]:
    """`found` if it is a list, else an empty one."""
    return found if isinstance(found, list) else []


def _patience(found: Mapping[str, float], *, hedged: bool) -> dict[str, Any]:
    """The route's `hedge`, sooner than by default where that would come too late, and its `timeouts`."""
    # LiteLLM gives whole calls 6000 s unless told otherwise, so a long first_token stretches an unset total.
    total = found.get("total", max(TOTAL, found.get("first_token", 0.0)))
    first_token = min(found.get("first_token", FIRST_TOKEN), total)
    timeouts = {"total": show_duration(total)} if found else {}
    if "first_token" in found:
        timeouts["first_token"] = show_duration(first_token)
    delay = _DELAY if first_token > _DELAY else first_token / 2
    hedge = {"hedge": {"delay": show_duration(delay)}} if hedged else {}
    return hedge | ({"timeouts": timeouts} if timeouts else {})
