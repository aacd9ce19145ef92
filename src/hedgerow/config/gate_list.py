"""How `routes.<name>.gates.require` is written: a list of gates, each a word or a mapping of one to what it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from hedgerow.config.fields import (
    FLAG,
    Leaf,
    Schema,
    check_file,
    check_text,
    duration,
    expected,
    problem,
    reference,
    whole,
)
from hedgerow.config.problem import did_you_mean
from hedgerow.extras import install
from hedgerow.plugin import load
from hedgerow.policy.gates import settings as spec
from hedgerow.policy.gates.build import builtin

_MOST = 10_000_000
_CALL = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_LENGTH, _SECONDS = whole(1, _MOST), duration(0.001, 60.0)
_REQUEST = "request"
Options = Mapping[str, Callable[[Any, Path], Any]]


def _parse(value: object, folder: Path) -> tuple[spec.Spec, ...]:
    if isinstance(value, str):
        return (_gate(value, (), folder),)
    if not isinstance(value, list | tuple):
        raise expected("a list of gates such as [non_empty, json]")
    return tuple(_gate(each, (position,), folder) for position, each in enumerate(value))


def _gate(item: Any, at: tuple[str | int, ...], folder: Path) -> spec.Spec:
    match item:
        case str():
            name, value = item, None
        case dict() if len(item) == 1:
            ((name, value),) = item.items()
            at = (*at, name)
        case _ if isinstance(item, spec.Spec):  # settings made in code
            return item
        case _:
            raise problem("expected one gate, such as json or min_chars: 20", at=at)
    if name not in _MAKERS:
        raise problem(f"there is no gate {name[:40]!r}{did_you_mean(name, _MAKERS, 'the gates are')}", at=at)
    try:
        made = _MAKERS[name](value, folder)
        _try(made)
    except PydanticCustomError as error:
        text = error.context["text"] if error.type == "problem" else f"expected {error.context['what']}"  # type: ignore[index]  # ours have one
        raise problem(f"{name}: {text}" if isinstance(item, str) else text, at=at) from None
    return made


def _try(made: spec.Spec) -> None:
    """Make it, to see that it can be made."""
    try:
        if isinstance(made, spec.Python):
            load(made.call, made.folder)
        else:
            builtin(made)
    except ImportError as error:
        raise problem(f"needs the package {error.name}: {install('gates')}") from None
    except ValueError as error:
        raise problem(str(error)) from None


def _options(value: object, folder: Path, known: Options) -> dict[str, Any]:
    """The values of a mapping of options; none where there is no mapping."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise expected(f"a mapping of {', '.join(known)}")
    found = {}
    for name, each in value.items():
        if name not in known:
            raise problem(f"there is no option {str(name)[:40]!r}{did_you_mean(str(name), known, 'the options are')}")
        try:
            found[name] = known[name](each, folder)
        except PydanticCustomError as error:
            if error.type != "expected":
                raise
            raise problem(f"{name}: expected {error.context['what']}") from None  # type: ignore[index]  # ours have one
    return found


def _finished(value: object, folder: Path) -> spec.Spec:
    return spec.Finished(**_options(value, folder, {"length": FLAG.parse}))


def _plain(value: object, _: Path) -> spec.Spec:
    if value is not None:
        raise problem("non_empty takes no options")
    return spec.NonEmpty()


def _json(value: object, folder: Path) -> spec.Spec:
    return spec.Json(**_options(value, folder, {"fenced": FLAG.parse}))


def _json_schema(value: object, folder: Path) -> spec.Spec:
    if isinstance(value, str):
        return spec.JsonSchema(_schema(value, folder))
    found = _options(value, folder, {"schema": _schema, "fenced": FLAG.parse})
    return spec.JsonSchema(**found)


def _schema(value: object, folder: Path) -> str | None:
    """The text of a schema; None for that of each request."""
    if value == _REQUEST:
        return None
    path = check_file(value, folder)
    try:
        return json.dumps(json.loads(path.read_text("utf-8")))
    except (ValueError, RecursionError) as error:
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise problem(f"{path} is not JSON{where}") from None


def _required_fields(value: object, folder: Path) -> spec.Spec:
    if not isinstance(value, dict):
        return spec.RequiredFields(_paths(value, folder))
    found = _options(value, folder, {"paths": _paths, "fenced": FLAG.parse})
    if "paths" not in found:
        raise problem("paths is required")
    return spec.RequiredFields(**found)


def _paths(value: object, _: Path) -> tuple[str, ...]:
    paths = _texts(value, "a list of paths such as [name, address.city]")
    if not paths or any("" in path.split(".") for path in paths):
        raise expected("a list of paths such as [name, address.city]")
    return paths


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each.strip() for each in value):
        raise expected(what)
    return tuple(value)


def _no_refusal(value: object, _: Path) -> spec.Spec:
    return spec.NoRefusal(None if value is None else _texts(value, 'a list of phrases such as ["I can\'t help"]'))


def _python(value: object, folder: Path) -> spec.Spec:
    found = _options(value, folder, {"call": _call, "timeout": _SECONDS.parse}) if isinstance(value, dict) else {}
    if "call" not in found:
        found["call"] = _call(None if isinstance(value, dict) else value, folder)
    return spec.Python(**found, folder=str(folder.resolve()))


def _call(value: object, _: Path) -> str:
    if not isinstance(value, str) or not _CALL.fullmatch(value):
        raise expected("module:function")
    return value


_MAKERS: dict[str, Callable[[object, Path], spec.Spec]] = {
    "finished": _finished,
    "non_empty": _plain,
    "min_chars": lambda value, folder: spec.MinChars(_LENGTH.parse(value, folder)),
    "min_tokens": lambda value, folder: spec.MinTokens(_LENGTH.parse(value, folder)),
    "json": _json,
    "json_schema": _json_schema,
    "required_fields": _required_fields,
    "matches": lambda value, _: spec.Matches(check_text(value)),
    "not_matches": lambda value, _: spec.NotMatches(check_text(value)),
    "no_refusal": _no_refusal,
    "python": _python,
}

_WORDS: Schema = {"enum": ["finished", "non_empty", "json", "json_schema", "no_refusal"]}
_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_FENCED = {"fenced": FLAG.schema}


def _mapping(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _either(*forms: Any) -> Schema:
    return {"anyOf": list(forms)}


_NONE: Schema = {"type": "null"}
_ONE: Schema = _mapping(
    finished=_either(_mapping(length=FLAG.schema), _NONE),
    non_empty=_NONE,
    min_chars=_LENGTH.schema,
    min_tokens=_LENGTH.schema,
    json=_either(_mapping(**_FENCED), _NONE),
    json_schema=_either(_TEXT, _mapping(schema=_TEXT, **_FENCED), _NONE),
    required_fields=_either(_TEXTS, _mapping(paths=_TEXTS, **_FENCED)),
    matches=_TEXT,
    not_matches=_TEXT,
    no_refusal=_either(_TEXTS, _NONE),
    python=_either(_TEXT, _mapping(call=_TEXT, timeout=_SECONDS.schema)),
) | {"minProperties": 1, "maxProperties": 1}
_ITEM = _either(_WORDS, _ONE, reference())

GATES = Leaf(
    _parse,
    "list of gates",
    _either({"type": "array", "items": _ITEM}, _WORDS, reference()),
    lambda gates: ", ".join(str(gate.__struct_config__.tag) for gate in gates),
)
