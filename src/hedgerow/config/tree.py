"""A YAML text as plain data that remembers on which line each key stands, with `${NAME}` filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.error import MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from hedgerow.config.problem import KeyPath, Problem

_MOST_NODES = 100_000  # aliases of aliases can make a small file huge
_TAG = "tag:yaml.org,2002:"
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
# In a flow collection `{` and `}` end a plain value, so `{api_key: ${KEY}}` would not be YAML. The braces of
# references are swapped for private characters of the same width while YAML is read.
_BRACED = re.compile(r"\$\{([^{}\n]*)\}")
_OPEN, _CLOSE = "\ue0f1", "\ue0f2"


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's reader with the scalars of YAML 1.2's core schema: `off`, `no` and `12:30` are text."""

    def __init__(self, stream: str) -> None:
        Reader.__init__(self, stream)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)


for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), _first)


class SyntaxProblem(Exception):
    """The text is not YAML, or not one mapping."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(slots=True)
class Tree:
    """`data` as read; `lines` and `raw` (the value as written, before substitution) by key path.

    `problems` are those of the text itself; values at `broken` paths could not be filled in.
    """

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    raw: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    broken: set[KeyPath] = field(default_factory=set)

    def place(self, path: KeyPath) -> tuple[int, int]:
        """Line and column of the key at `path`, else of the nearest key above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, (1, 1))


def parse(text: str, environ: Mapping[str, str], keys: Sequence[str] = ("targets", "routes")) -> Tree:
    """`keys` are those that it should have. Raises `SyntaxProblem`; all other faults are in the tree's `problems`."""
    text = text.removeprefix("\ufeff")
    builder = _Builder(environ)
    try:
        root = yaml.compose(_BRACED.sub(rf"${_OPEN}\1{_CLOSE}", text), Loader=_Loader)  # type: ignore[arg-type]  # typeshed wants a full Loader
        if root is None:
            raise SyntaxProblem(1, "the file is empty; `hedgerow init` writes one to start from")
        if not isinstance(root, MappingNode):
            # Not quoted: it may be a key, when a secret's file was named in place of the configuration.
            got = "a list" if isinstance(root, SequenceNode) else "a single value"
            raise SyntaxProblem(1, f"got {got}; expected a mapping with the keys {' and '.join(keys)}")
        builder.tree.data = builder.mapping(root, ())
    except MarkedYAMLError as error:
        raise _explain(error, text) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SyntaxProblem(line, "not valid YAML: a character that YAML does not allow") from None
    except YAMLError as error:
        raise SyntaxProblem(1, f"not valid YAML: {error}") from None
    except RecursionError:
        raise SyntaxProblem(1, "is nested too deeply") from None
    return builder.tree


def _explain(error: MarkedYAMLError, text: str) -> SyntaxProblem:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return SyntaxProblem(1, f"not valid YAML: {error.problem}")
    line = (text.splitlines() or [""])[min(mark.line, text.count("\n"))] if text else ""
    what = _restore(error.problem or "")
    if "\t" in what or "\\t" in what:
        what = "a tab where YAML allows only spaces"
    elif (error.context or "").startswith("while scanning an alias"):
        what = 'a name that starts with * must be quoted: "*"'
    elif re.search(r"delay *: *slo *:", line):
        what = "an objective goes in braces: {slo: 1.2s}"
    elif re.search(r":\s*\[[0-9a-fA-F:]*\]:\d", line):
        what = 'an IPv6 address must be quoted: "[::1]:8080"'
    return SyntaxProblem(mark.line + 1, f"not valid YAML (column {mark.column + 1}): {what}")


def _restore(text: str) -> str:
    return text.replace(_OPEN, "{").replace(_CLOSE, "}")


def _kind_of(node: Node) -> str:
    match node:
        case MappingNode():
            return "a mapping"
        case SequenceNode():
            return "a list"
        case ScalarNode(tag="tag:yaml.org,2002:str"):
            return repr(_restore(node.value))
        case _:
            return str(node.value) or "nothing"


class _Builder:
    """Turns nodes into data, noting lines and problems on the way."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.tree = Tree()
        self._environ = environ
        self._nodes = 0
        self._inside: list[Node] = []

    def value(self, node: Node, path: KeyPath) -> Any:
        self._nodes += 1
        if node in self._inside or self._nodes > _MOST_NODES:
            raise SyntaxProblem(node.start_mark.line + 1, "aliases make the file endless or too large")
        self.tree.raw[path] = _kind_of(node)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._inside.append(node)
        try:
            if isinstance(node, MappingNode):
                return self.mapping(node, path)
            return self._sequence(node, path)
        finally:
            self._inside.pop()

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                result |= self._merged(value_node, path)
        own: set[str] = set()
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self.tree.problems.append(Problem(path, "a key must be text, not a list or a mapping"))
            elif key_node.tag == _TAG + "merge":
                continue
            elif (key := _restore(key_node.value)) in own:
                first = self.tree.lines[(*path, key)][0]
                self.tree.problems.append(Problem((*path, key), f"given twice, on lines {first} and {line}"))
            else:
                own.add(key)
                self.tree.lines[(*path, key)] = (line, key_node.start_mark.column + 1)
                result[key] = self.value(value_node, (*path, key))
        return result

    def _merged(self, node: Node, path: KeyPath) -> dict[str, Any]:
        match node:
            case MappingNode():
                found = self.value(node, path)
                return dict(found)
            case SequenceNode():
                merged: dict[str, Any] = {}
                for each in node.value:
                    merged = self._merged(each, path) | merged
                return merged
            case _:
                self.tree.problems.append(Problem(path, "<< needs a mapping to merge"))
                return {}

    def _sequence(self, node: Node, path: KeyPath) -> list[Any]:
        result = []
        for position, each in enumerate(node.value):
            here = (*path, position)
            self.tree.lines[here] = (each.start_mark.line + 1, each.start_mark.column + 1)
            result.append(self.value(each, here))
        return result

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        text = _restore(node.value)
        match node.tag.removeprefix(_TAG):
            case "str":
                return self._fill(text, path)
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if len(text) < 20:
                return int(text)
            case "int" | "float":
                return float(text)
            case tag:
                self.tree.problems.append(Problem(path, f"the YAML tag {tag!r} is not supported"))
                self.tree.broken.add(path)
                return None

    def _fill(self, text: str, path: KeyPath) -> str:
        def replace(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            inside = _INSIDE.fullmatch(found[1] or "")
            if inside is None or "${" in found[1]:
                return self._broken(path, "a reference is written ${NAME} or ${NAME:-default}; $${ gives a plain ${")
            name, default = inside[1], inside[2]
            value = self._environ.get(name)
            if default is not None:
                return value or default
            if value is None:
                return self._broken(path, f"the environment variable {name} is not set")
            return value or self._broken(path, f"the environment variable {name} is empty")

        return _REFERENCE.sub(replace, text)

    def _broken(self, path: KeyPath, text: str) -> str:
        self.tree.problems.append(Problem(path, text))
        self.tree.broken.add(path)
        return ""
