"""The leaf types of the configuration: how each is written, checked, shown and described to editors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from hedgerow import units

REFERENCE_PATTERN = r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"
"""Any scalar may be written as `${NAME}`; editors are told so."""

Schema = dict[str, Any]

SAME_AS = "sameAs"
"""In a schema: it is that which is found at this place below `$defs`, see `config.schema`."""


def reference() -> Schema:
    """The JSON Schema of a value taken from the environment."""
    return {"type": "string", "pattern": REFERENCE_PATTERN}


def expected(what: str) -> PydanticCustomError:
    """The value is not `what`. The message will quote what the file says, so not for secrets."""
    return PydanticCustomError("expected", "expected {what}", {"what": what})


def problem(text: str, *, at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """`text` says it all and the value is not quoted; `at` points further into the value."""
    return PydanticCustomError("problem", "{text}", {"text": text, "at": at})


def _yaml(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class Leaf:
    """Annotation of one leaf type. `parse` gets the value and the folder relative paths start from."""

    parse: Callable[[Any, Path], Any]
    label: str
    schema: Mapping[str, Any]
    show: Callable[[Any], str] = _yaml

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return dict(self.schema)

    def _validate(self, value: object, info: core_schema.ValidationInfo) -> object:
        folder = info.context if isinstance(info.context, Path) else Path()
        return self.parse(value, folder)


def duration(low: float, high: float, *, off: bool = False, nullable: bool = False) -> Leaf:
    """A duration in [low, high] seconds; with `off`, the word "off" gives None, with `nullable` only null does."""
    bounds = f"between {units.show_duration(low)} and {units.show_duration(high)}"
    or_off = " or off" if off else ""

    def parse(value: object, _: Path) -> float | None:
        if (off and (value is False or value == "off")) or ((off or nullable) and value is None):
            return None
        seconds = units.parse_duration(value)
        if seconds is None:
            raise expected(f"a duration such as 2s, 300ms{or_off}" if off else "a duration such as 2s or 300ms")
        if not low <= seconds <= high:
            raise expected(f"a duration {bounds}{or_off}")
        return seconds

    forms: list[Schema] = [{"type": "string", "pattern": units.DURATION_PATTERN, "minLength": 1}]
    forms += [{"type": "number", "minimum": low, "maximum": high}, reference()]
    forms += [{"enum": ["off", False, None]}] if off else [{"type": "null"}] if nullable else []
    return Leaf(
        parse,
        f"duration{or_off}",
        {"anyOf": forms},
        lambda seconds: "off" if seconds is None else units.show_duration(seconds),
    )


def percentage(low: float, high: float, *, zero: str = "") -> Leaf:
    """A share in [low, high] of 1, written as a percentage; the word "off" gives None. `zero`: a hint for 0%."""
    bounds = f"a percentage between {units.show_percent(low)} and {units.show_percent(high)} or off"

    def parse(value: object, _: Path) -> float | None:
        if value is False or value == "off":
            return None  # and an empty value does not: a cap that is left blank must not vanish
        share = units.parse_percent(value)
        if share is None:
            raise expected("a percentage such as 10% or off; a number needs its %")
        if not low <= share <= high:
            raise expected(bounds + (zero if share == 0.0 else ""))
        return share

    forms: list[Schema] = [{"type": "string", "pattern": units.PERCENT_PATTERN}, reference(), {"enum": ["off", False]}]
    return Leaf(
        parse,
        "percentage or off",
        {"anyOf": forms},
        lambda share: "off" if share is None else units.show_percent(share),
    )


def size(low: int, high: int) -> Leaf:
    """A number of bytes in [low, high]."""

    def parse(value: object, _: Path) -> int:
        found = units.parse_size(value)
        if found is None:
            raise expected("a size such as 64KiB or 4MB")
        if not low <= found <= high:
            raise expected(f"a size between {units.show_size(low)} and {units.show_size(high)}")
        return found

    forms = [
        {"type": "string", "pattern": units.SIZE_PATTERN},
        {"type": "integer", "minimum": low, "maximum": high},
        reference(),
    ]
    return Leaf(parse, "size", {"anyOf": forms}, units.show_size)


def whole(low: int, high: int, *, nullable: bool = False, off: bool = False) -> Leaf:
    """A whole number in [low, high]; with `nullable` also null, with `off` the word "off": both give None."""
    or_off = " or off" if off else ""

    def parse(value: object, _: Path) -> int | None:
        if (nullable and value is None) or (off and (value is False or value == "off")):
            return None
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise expected(f"a whole number from {low} to {high}{or_off}")
        return value

    forms: list[Schema] = [{"type": "integer", "minimum": low, "maximum": high}, reference()]
    forms += [{"type": "null"}] if nullable else []
    forms += [{"enum": ["off", False]}] if off else []
    label = f"whole number, {low} to {high}{or_off}"
    return Leaf(parse, label, {"anyOf": forms}, lambda number: "off" if off and number is None else _yaml(number))


_FLAGS = {"true": True, "on": True, "false": False, "off": False}


def flag(value: object) -> bool | None:
    """What a switch is set to, however that is written; None where it says something else."""
    return value if isinstance(value, bool) else _FLAGS.get(value) if isinstance(value, str) else None


def _parse_flag(value: object, _: Path) -> bool:
    if (found := flag(value)) is None:
        raise expected(FLAG_WORDS)
    return found


FLAG_WORDS = "true or false, on or off"
FLAG_FORMS: list[Schema] = [{"type": "boolean"}, {"enum": ["on", "off"]}, reference()]
FLAG = Leaf(_parse_flag, "true or false", {"anyOf": FLAG_FORMS})


def one_of(*words: str) -> Leaf:
    """One of a few fixed words."""

    def parse(value: object, _: Path) -> str:
        if value not in words:
            raise expected("one of " + ", ".join(words) if len(words) > 1 else words[0])
        return str(value)

    return Leaf(parse, " or ".join(f"`{word}`" for word in words), {"anyOf": [{"enum": list(words)}, reference()]})


def some_of(*words: str, least: int) -> Leaf:
    """A list of some of a few fixed words, at least so many; one word alone need not be in a list."""
    allowed = ", ".join(words)

    def parse(value: object, _: Path) -> tuple[str, ...]:
        chosen = [value] if value in words else value
        if not isinstance(chosen, list | tuple):
            raise expected(f"some of {allowed}")
        for position, word in enumerate(chosen):
            if word not in words:
                raise problem(f"got {str(word)[:40]!r}; expected one of {allowed}", at=(position,))
        if len(chosen) < least:
            raise problem(f"needs at least one of {allowed}")
        return tuple(dict.fromkeys(chosen))

    word: Schema = {"enum": list(words)}
    listed: Schema = {"type": "array", "items": word, "minItems": least}
    label = "some of " + ", ".join(f"`{word}`" for word in words)
    return Leaf(parse, label, {"anyOf": [listed, word, reference()]}, lambda chosen: f"[{', '.join(chosen)}]")


def check_text(value: object) -> str:
    """A non-empty string without control characters."""
    if isinstance(value, bool | int | float):
        raise expected("text: put the value in quotes")
    if not isinstance(value, str):
        raise expected("text")
    if not value.strip():
        raise problem("is empty")
    if not value.isprintable():
        raise problem("holds a control character")
    return value


def text(*, nullable: bool = True) -> Leaf:
    """A non-empty string; with `nullable` also null."""

    def parse(value: object, _: Path) -> str | None:
        return None if value is None and nullable else check_text(value)

    kinds = ["string", "null"] if nullable else ["string"]
    return Leaf(parse, "text", {"type": kinds, "minLength": 1})


def check_file(value: object, folder: Path) -> Path:
    """An existing readable file; relative paths start from the configuration file's folder."""
    path = folder / Path(check_text(value)).expanduser()
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise problem(f"cannot read {path}: {error.strerror}") from None


def _parse_output(value: object, folder: Path) -> Path | None:
    if value is None:
        return None
    path = folder / Path(check_text(value)).expanduser()
    if not path.parent.is_dir():
        raise problem(f"there is no folder {path.parent}")
    if path.is_dir():
        raise problem(f"{path} is a folder")
    return path


OUTPUT = Leaf(_parse_output, "path", {"type": ["string", "null"], "minLength": 1})
"""A file that will be written; relative paths start from the configuration file's folder."""


def _parse_file(value: object, folder: Path) -> Path | None:
    return None if value is None else check_file(value, folder)


FILE = Leaf(_parse_file, "path", {"type": ["string", "null"], "minLength": 1})
REQUIRED_FILE = Leaf(check_file, "path", {"type": "string", "minLength": 1})


def _parse_paths(value: object, _: Path) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise expected("a list of paths such as [/v1/audio/speech]")
    for position, path in enumerate(value):
        if not isinstance(path, str) or not path.startswith("/") or not _PATH.fullmatch(path):
            raise problem("expected a path such as /v1/audio/speech, without query or '..'", at=(position,))
    return tuple(value)


_PATH = re.compile(r"(?!.*/\.\.(?:/|$))/[\w./~%!$&'()*+,;=:@-]+", re.ASCII)
PATHS = Leaf(
    _parse_paths,
    "list of paths",
    {"type": "array", "items": {"type": "string", "pattern": "^/."}},
    lambda paths: f"[{', '.join(paths)}]",
)


def _parse_names(value: object, _: Path) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise expected("a list of target names such as [openai, azure]")
    if not value:
        raise problem("needs at least one target")
    for position, name in enumerate(value):
        if not isinstance(name, str) or not name:
            raise problem("expected the name of a target", at=(position,))
    return tuple(value)


NAMES = Leaf(
    _parse_names,
    "list of target names",
    {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    lambda names: ", ".join(names),
)
