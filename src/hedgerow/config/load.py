"""From a YAML text to `Settings`, or to one `ConfigError` with all that is wrong."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hedgerow.config import check, check_meant
from hedgerow.config.base import Model
from hedgerow.config.examples import example_of
from hedgerow.config.problem import KeyPath, Problem, did_you_mean, show_path
from hedgerow.config.route import Route
from hedgerow.config.server import ServerSettings
from hedgerow.config.settings import Settings
from hedgerow.config.target import Target
from hedgerow.config.tree import SyntaxProblem, Tree, parse
from hedgerow.errors import ConfigError
from hedgerow.policy.delay import parse_delay
from hedgerow.units import parse_duration

_M = TypeVar("_M", bound=Model)
_SECTIONS = {"targets": "target", "routes": "route"}
_LITELLM = "this is a LiteLLM config; make a hedgerow.yaml of it: hedgerow import {file} -o hedgerow.yaml"
_HARDLY_SECONDS = 100.0
"""A bare number from here on, as a delay, was probably meant as milliseconds."""


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in the file at `path`. Raises `ConfigError` with every problem, in the order of the file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError([f"{path}: there is no such file; `hedgerow init` writes one to start from"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: is not UTF-8 text (byte {error.start})"]) from None
    return loads(text, environ, source=str(path), folder=path.parent)


def loads(
    text: str, environ: Mapping[str, str] = os.environ, *, source: str = "hedgerow.yaml", folder: Path | None = None
) -> Settings:
    """The settings in `text`. `source` names it in messages; relative paths in it start from `folder`."""
    try:
        tree = parse(text, environ)
    except SyntaxProblem as error:
        raise ConfigError([f"{source}:{error.line}: {error.text}"]) from None
    if "model_list" in tree.data and "targets" not in tree.data:
        line = tree.place(("model_list",))[0]
        raise ConfigError([f"{source}:{line}: {_LITELLM.format(file=shlex.quote(source))}"])
    reader = _Reader(tree, folder or Path())
    settings = reader.settings()
    if reader.problems or settings is None:
        raise ConfigError(_lines(tree, reader.problems, source))
    settings._warnings[:] = _lines(tree, [*check_meant.warnings(settings), *_bare_delays(tree)], source)
    return settings


def read(model: type[_M], text: str, source: str) -> _M:
    """Another file, which is one `model`, read with the same care for what is wrong. Raises `ConfigError`."""
    try:
        tree = parse(text, {}, keys=tuple(model.model_fields))
    except SyntaxProblem as error:
        raise ConfigError([f"{source}:{error.line}: {error.text}"]) from None
    reader = _Reader(tree, Path())
    found = reader.model(model, tree.data, ())
    if reader.problems or found is None:
        raise ConfigError(_lines(tree, reader.problems, source))
    return found


def _bare_delays(tree: Tree) -> list[Problem]:
    """Warnings about delays that are valid, and hardly meant."""
    paths = [("routes", name, "hedge", "delay") for name in tree.data["routes"]]
    return [
        Problem(path, f"is {tree.raw[path]} seconds{hint}") for path in paths if (hint := _milliseconds(tree, path))
    ]


def _milliseconds(tree: Tree, path: KeyPath) -> str:
    """A hint for a `hedge.delay` that is a large bare number; else nothing."""
    raw = tree.raw.get(path, "")
    if path[2:] != ("hedge", "delay") or not re.fullmatch(r"\d{1,9}(\.\d+)?", raw) or float(raw) < _HARDLY_SECONDS:
        return ""
    return f"; a bare number means seconds, did you mean {raw}ms?"


def _lines(tree: Tree, problems: list[Problem], source: str) -> list[str]:
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: tree.place(problem.path))
    lines = []
    for problem in ordered:
        key = f"{show_path(problem.path)}: " if problem.path else ""
        lines.append(f"{source}:{tree.place(problem.path)[0]}: {key}{problem.text}")
    return lines


class _Reader:
    """Reads part by part, so that a fault in one part hides none in another."""

    def __init__(self, tree: Tree, folder: Path) -> None:
        self.problems = list(tree.problems)
        self._tree = tree
        self._folder = folder

    def settings(self) -> Settings | None:
        """The settings, or None when `problems` says why not."""
        data = self._tree.data
        for key in data:
            if key not in Settings.model_fields:
                self.problems.append(Problem((key,), "unknown key" + _hint(key, Settings)))
        targets = self._section("targets", Target)
        routes = self._section("routes", Route)
        server = self.model(ServerSettings, {} if data.get("server") is None else data["server"], ("server",))
        self._names()
        found = check.contradictions(targets, routes, server, known=self._declared("targets"))
        self.problems += [Problem(path, text + _milliseconds(self._tree, path)) for path, text in found]
        if self.problems or server is None:
            return None
        return Settings(targets=targets, routes=routes, server=server)

    def _declared(self, key: str) -> dict[str, Any]:
        """The entries of a section, faulty or not."""
        found = self._tree.data.get(key)
        return found if isinstance(found, dict) else {}

    def _names(self) -> None:
        """Checks names in the raw data, so that another fault in a route or the server does not hide a wrong one."""
        for name in self._declared("targets"):
            if not name.strip() or not name.isprintable():
                self.problems.append(Problem(("targets", name), "a target's name must be printable text"))
        routes = self._declared("routes")
        for name, route in routes.items():
            if not name.strip() or not name.isprintable():
                self.problems.append(Problem(("routes", name), "a route's name must be printable text"))
            elif "*" in name[:-1]:
                self.problems.append(Problem(("routes", name), "a * may stand only at the end of a route's name"))
            listed = route.get("targets") if isinstance(route, dict) else None
            if isinstance(listed, list):
                self.problems += check.unknown_targets(name, listed, self._declared("targets"))
        self.problems += check.unknown_default(self._declared("server").get("default_route"), routes)

    def _section(self, key: str, model: type[_M]) -> dict[str, _M]:
        entries = self._tree.data.get(key)
        if entries is None or entries == {}:
            self.problems.append(Problem((key,), f"is required: at least one {_SECTIONS[key]}"))
            return {}
        if not isinstance(entries, dict):
            self.problems.append(Problem((key,), f"got {_shape(entries)}; expected a mapping of names"))
            return {}
        found = {name: self.model(model, entry, (key, name)) for name, entry in entries.items()}
        return {name: entry for name, entry in found.items() if entry is not None}

    def model(self, model: type[_M], data: Any, path: KeyPath) -> _M | None:
        """This part of the data; None when `problems` says why not."""
        try:
            return model.model_validate(data, context=self._folder)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                problem = self._explain(model, path, detail)
                if problem.path not in self._tree.broken:
                    self.problems.append(problem)
            return None

    def _explain(self, model: type[Model], path: KeyPath, detail: ErrorDetails) -> Problem:
        here = self._as_written((*path, *detail["loc"]))
        context = detail.get("ctx", {})
        got = self._tree.raw.get(here, "nothing")
        match detail["type"]:
            case "expected":
                return Problem(here, f"got {got}; expected {context['what']}{_milliseconds(self._tree, here)}")
            case "problem":
                return Problem((*here, *context["at"]), context["text"])
            case "missing":
                return Problem(here, "is required")
            case "extra_forbidden":
                *above, key = detail["loc"]
                return Problem(here, "unknown key" + _hint(str(key), _inner(model, above)))
            case "model_type" | "model_attributes_type":
                hint = _as_delay(here, got) or f" such as {example_of(here)}"
                return Problem(here, f"got {_shape(detail['input'])}; expected a mapping{hint}")
            case _:
                return Problem(here, detail["msg"])

    def _as_written(self, path: KeyPath) -> KeyPath:
        """The path without a key that a short form leaves out, such as `require` where `gates` is a list."""
        above = self._tree.raw.get(path[:-1], "a mapping")
        return path if path in self._tree.raw or above == "a mapping" else path[:-1]


def _shape(value: object) -> str:
    """What kind of value stands where a mapping should; the value itself could be a misplaced key."""
    return {str: "text", list: "a list", type(None): "nothing", bool: str(value).lower()}.get(type(value), "a number")


def _as_delay(path: KeyPath, got: str) -> str:
    """A hint for a `hedge` that is its delay."""
    value = got.strip("'")
    try:
        parse_delay(value, parse_duration)
    except ValueError:
        return ""
    return f"; did you mean {{delay: {value}}}?" if path[2:] == ("hedge",) else ""


def _hint(key: str, model: type[Model]) -> str:
    return did_you_mean(key, model.model_fields, "the keys here are")


def _inner(model: type[Model], path: list[str | int]) -> type[Model]:
    """The model reached from `model` through the keys of `path`."""
    for key in path:
        if isinstance(key, int):  # of a list of models
            continue
        annotation = model.model_fields[key].annotation
        choices = getattr(annotation, "__args__", (annotation,))
        model = next(each for each in choices if isinstance(each, type) and issubclass(each, Model))
    return model
