"""docs/library-reference.md, from the library's docstrings: `python scripts/library_reference.py docs` writes it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import griffe

from hedgerow.policy.budget import HEDGES

QUOTES = "\"'"
ROOT = Path(__file__).resolve().parents[1]
HEAD = """\
<!-- Written by `make docs` from the docstrings in src/hedgerow; do not edit. -->
# The library's reference

Every public name of the library, as its docstring has it. [In process](library.md), [In the SDKs'
clients](transports.md) and [Testing your code](testing-your-code.md) lead through them.
Times are seconds unless it says otherwise.
"""
PAGES: Sequence[tuple[str, str, Sequence[str] | None]] = (
    ("hedgerow", "", None),
    ("hedgerow.client.sync", "What `hedge_sync` gives.", ("SyncResult", "SyncWinner", "SyncHeld", "SyncAlternatives")),
    ("hedgerow.client.keeping", "What `Result.alternatives` is.", ("Alternatives",)),
    ("hedgerow.events", "The words of results.", ("Role", "Outcome", "Reason", "FailureClass", "Failure")),
    (
        "hedgerow.transports.httpx2",
        "The same names are in `hedgerow.transports.httpx`, for what is built on httpx.",
        ("HedgeTransport", "SyncHedgeTransport"),
    ),
    ("hedgerow.transports.aiohttp", "", ("HedgeConnector",)),
    ("hedgerow.adapters.pydantic_ai", "", ("HedgedModel",)),
    ("hedgerow.adapters.langchain", "", ("HedgedRunnable", "says_something")),
    ("hedgerow.adapters.litellm", "", ("litellm_target", "says_something")),
    ("hedgerow.asgi", "", ("application", "Application", "AnswerBroken")),
    ("hedgerow.testing", "", None),
    ("hedgerow.testing.labs", "", ("Labs",)),
    ("hedgerow.pytest_plugin", "Fixtures of pytest.", ("virtual_loop", "lab")),
)
"""Modules, what is said of each, and their public names; None: those of `__all__`."""
GIVEN = {
    "Alternatives",
    "Application",
    "EveryAttemptFailed",
    "Held",
    "Scripted",
    "SyncAlternatives",
    "SyncHeld",
    "SyncResult",
    "SyncWinner",
    "Winner",
}
"""Made by hedgerow alone."""
ENGINES = {"blueprint", "breaker_settings", "early", "for_targets", "in_money", "kept_for", "place"}
"""Members that are there for what is below."""
SHOWN = {"_Unsaid(HEDGES.share)": f"{HEDGES.share:g}", "_NONE": "Policy()"}
"""Defaults as they are meant."""


def load() -> griffe.Module:
    """The package, read and not imported, so that no extra is needed."""
    return cast("griffe.Module", griffe.load("hedgerow", search_paths=[ROOT / "src"], resolve_aliases=True))


def public(package: griffe.Module) -> Iterator[tuple[str, str, Any]]:
    """Module, name and object of all that the page tells of."""
    for path, _, names in PAGES:
        module: Any = package if path == "hedgerow" else package[path.removeprefix("hedgerow.")]
        for name in sorted(module.exports or ()) if names is None else names:
            found = module[name]
            if found.is_module:  # a function that has the name of the module it is in
                found = found[name]
            yield path, name, found.final_target if found.is_alias else found


def reference() -> str:
    """The page."""
    parts, before, said = [HEAD], "", {path: words for path, words, _ in PAGES}
    for path, name, found in public(load()):
        if path != before:
            parts += [f"## {path}\n", *([said[path] + "\n"] if said[path] else [])]
            before = path
        parts += [f"### {name}\n", *_told(name, found)]
    return "\n".join(parts)


def _told(name: str, found: Any) -> Iterator[str]:
    if found.is_class and not _is_enum(found):
        yield from _class(name, found)
    elif found.is_class:
        yield _prose(found)
        yield "\n".join(_members_of_enum(found)) + "\n"
    else:
        yield _code(_signature(name, found))
        yield from _gives(found)
        yield _prose(found)


def _class(name: str, found: Any) -> Iterator[str]:
    made = found.all_members.get("__init__")
    fields = [*map(_field, _fields(found))]
    if name in GIVEN:
        pass
    elif made is not None and made.is_function:
        yield _code(_signature(name, made, bound=True, returns=False))
    elif fields:
        yield _code(_call(name, ["*", *fields] if "kw_only=True" in found.source.split(":\n", 1)[0] else fields, ""))
    yield _prose(found)
    if made is not None and made.is_function and made.docstring is not None:
        yield _prose(made)
    for each in found.all_members.values():
        if _is_told(each):
            yield _member(each.name, each)


def _member(name: str, each: Any) -> str:
    if each.is_attribute:
        return f"* **`{name}`**: {_line(each)}\n"
    signature = " ".join(_signature(name, each, bound=True).split()).replace("( ", "(").replace(", )", ")")
    return f"* **`{signature}`**: {_line(each)}\n"


def _is_told(each: Any) -> bool:
    """Whether a member is for callers, and says something of itself."""
    if each.is_alias:
        each = each.final_target
    if each.name == "__call__":
        return bool(each.docstring is not None)
    if each.name.startswith("_") or each.name in ENGINES:
        return False
    return bool(each.docstring is not None) and (each.is_function or each.is_attribute)


def _is_enum(found: Any) -> bool:
    return any("Enum" in str(base) for base in found.bases)


def _members_of_enum(found: Any) -> Iterator[str]:
    for each in found.members.values():
        if each.is_attribute and not each.name.startswith("_"):
            words = f": {_line(each)}" if each.docstring is not None else ""
            yield f"* `{str(each.value).strip(QUOTES)}`{words}"


def _fields(found: Any) -> list[Any]:
    """Of a struct, those of the structs it extends before its own; nothing of other classes."""
    return [
        each
        for each in found.all_members.values()
        if each.is_attribute and each.annotation is not None and "property" not in each.labels and each.name[0] != "_"
    ]


def _field(field: Any) -> str:
    return _argument(field.name, field.annotation, field.value)


def _argument(name: str, annotation: Any, default: Any) -> str:
    said = "" if default is None else f" = {SHOWN.get(str(default), default)}"
    return f"{name}: {annotation}{said}".replace("'", '"')


def _signature(name: str, function: Any, *, bound: bool = False, returns: bool = True) -> str:
    parts, star = [], False
    for parameter in list(function.parameters)[1 if bound and function.parameters[0].name in ("self", "cls") else 0 :]:
        kind = parameter.kind.value
        star = star or kind == "variadic positional"
        if kind == "keyword-only" and not star:
            parts.append("*")
            star = True
        mark = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        if parameter.name != "unknown":  # which are refused in words
            parts.append(
                _argument(f"{mark}{parameter.name}", parameter.annotation, None if mark else parameter.default)
            )
    word = "async " if "async" in function.labels else ""
    return word + _call(name, parts, f" -> {function.returns}" if returns and function.returns is not None else "")


def _call(name: str, parts: Sequence[str], returns: str) -> str:
    line = f"{name}({', '.join(parts)}){returns}"
    return line if len(line) <= 110 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def _gives(function: Any) -> Iterator[str]:
    """What it gives for each kind of target, where that differs."""
    kinds = list(dict.fromkeys(str(each.returns) for each in function.overloads or ()))
    if len(kinds) > 1:
        words = [f"`{kind}`" for kind in kinds]
        yield f"Gives {', '.join(words[:-1])} or {words[-1]}.\n"


def _prose(found: Any) -> str:
    """The docstring; its paragraphs are one line each, its code is as it is."""
    if found.docstring is None:
        return ""
    parts = textwrap.dedent(found.docstring.value).strip().split("\n\n")
    told, code = [], False
    for part in parts:
        code = code or part.startswith("```")
        told.append(
            part if code else textwrap.fill(" ".join(part.split()), 130, break_long_words=False, break_on_hyphens=False)
        )
        code = code and not part.endswith("```")
    return "\n\n".join(told) + "\n"


def _line(found: Any) -> str:
    return " ".join(found.docstring.value.split())


def _code(text: str) -> str:
    return f"```text\n{text}\n```\n"


def main(folder: Path) -> None:
    """Write the page into `folder`."""
    (folder / "library-reference.md").write_text(reference(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
