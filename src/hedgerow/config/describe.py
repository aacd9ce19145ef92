"""The reference of every key, written from the models themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic.fields import FieldInfo

from hedgerow.config.base import Model
from hedgerow.config.docstrings import docstrings_of
from hedgerow.config.fields import Leaf
from hedgerow.config.providers import PROVIDERS
from hedgerow.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its full path with `<name>` for names of your choice, and what the reference says of it."""

    path: str
    kind: str
    default: str
    text: str


@dataclass(frozen=True, slots=True)
class _Section:
    path: str
    text: str
    keys: tuple[Key, ...]


def all_keys() -> list[str]:
    """The path of every key that holds a value, such as `targets.<name>.connections.max`."""
    return [key.path for section in _sections(Settings, "") for key in section.keys]


def sections() -> list[str]:
    """The path of every mapping below the top, such as `targets.<name>.connections`."""
    return [section.path for section in _sections(Settings, "") if section.path]


def describe() -> str:
    """docs/configuration.md, as committed."""
    parts = [_INTRODUCTION]
    for section in _sections(Settings, ""):
        if not section.keys:
            continue
        parts.append(f"## `{section.path}`\n\n{section.text}\n")
        rows = [f"| `{_last(key.path)}` | {key.kind} | {key.default} | {key.text} |" for key in section.keys]
        parts.append("| key | value | default | what it does |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    parts.append(_environment())
    return "\n".join(parts)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _sections(model: type[Model], path: str, text: str = "") -> Iterator[_Section]:
    """`model` and all models below it, in the order of the file."""
    keys: list[Key] = []
    below: list[tuple[type[Model], str, str]] = []
    texts = docstrings_of(model)
    for name, field in model.model_fields.items():
        here = f"{path}.{name}" if path else name
        leaf = next((each for each in field.metadata if isinstance(each, Leaf)), None)
        if leaf is not None:
            keys.append(Key(here, leaf.label, _default(field, leaf), texts.get(name, "")))
            continue
        inner, named = _model_of(field.annotation)
        words = texts.get(name) or (inner.__doc__ or "").strip()
        below.append((inner, f"{here}.<name>" if named else here, words))
    yield _Section(path, text, tuple(keys))
    for inner, here, words in below:
        yield from _sections(inner, here, words)


def models(model: type[Model] = Settings) -> Iterator[type[Model]]:
    """`model` and all models below it."""
    yield model
    for field in model.model_fields.values():
        if not any(isinstance(each, Leaf) for each in field.metadata):
            yield from models(_model_of(field.annotation)[0])


def _model_of(annotation: Any) -> tuple[type[Model], bool]:
    """The model in `annotation`, and whether it stands under names of the user's choice."""
    args = get_args(annotation)
    inner = next(each for each in (annotation, *args) if isinstance(each, type) and issubclass(each, Model))
    return inner, str in args


def _default(field: FieldInfo, leaf: Leaf) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None and "off" not in leaf.label:
        return "none"
    return f"`{leaf.show(value)}`" if value not in ((), {}) else "none"


_INTRODUCTION = """\
<!-- Written by `make docs` from src/hedgerow/config; do not edit. -->
# Configuration

`hedgerow serve` reads `hedgerow.yaml`. `hedgerow init` writes one to start from, `hedgerow check-config` checks one,
`hedgerow import` makes one from a LiteLLM config. Without a file, `serve` uses the API keys it finds in the
environment ([below](#without-a-file)).

```yaml
# yaml-language-server: $schema=hedgerow.schema.json
targets:
  openai:
    base_url: https://api.openai.com/v1
    api_key: ${OPENAI_API_KEY}
    model: gpt-5-mini
  azure:
    base_url: https://example.openai.azure.com/openai/v1
    api_key_file: /run/secrets/azure-key
    model: gpt-5-mini
routes:
  fast:
    targets: [openai, azure]
    hedge: {delay: 2s}
```

A client asks for the model `fast`; hedgerow asks `openai` and, when no first token has come within 2 s, `azure` too.

- **Durations** are `300ms`, `2s`, `1m30s`, `2h`; a plain number is seconds.
- **Percentages** have their sign: `10%`, `0.5%`.
- **Dollars** are `5`, `2.50` or `"$2.50"`, to the billionth of one, and counted exactly.
- **Switches** are `true` or `on`, `false` or `off`.
- **Sizes** are `64KiB`, `64MiB` (1024s), `64KB`, `64MB` (1000s); a plain number is bytes.
- **`${NAME}`** in any value is the environment variable `NAME`, which must be set; `${NAME:-default}` has a default
  for when it is not set or empty; `$${` is a plain `${`. Within `{}` or `[]`, other YAML tools want it quoted.
- **Paths** are relative to the folder of the configuration file.
- YAML is read by its version 1.2 rules: `off`, `no` and `12:30` are text; anchors and `<<` work.
- A faulty file stops the start. All its faults are shown at once, each with its line, and never the value of a key.
- `hedgerow.schema.json` beside this page gives completion and checks in editors.

Since a route's name is what clients write as `model`, three kinds of routes are of use: a name of your own (`fast`),
with targets that say which `model` to send; the name of a real model (`gpt-5-mini`), with targets that leave `model`
out; and patterns (`claude-*`, or `*` for everything else), which keep the name that the client sent. An exact name wins
over patterns, a longer pattern over a shorter one.
"""


def _environment() -> str:
    rows = [
        f"| `{each.key}` | `{each.url}` | {each.base_url} | "
        f"{', '.join(f'`{pattern}`' for pattern in each.models) or 'none of its own'} |"
        for each in PROVIDERS
    ]
    table = "\n".join(rows)
    return f"""\
## Without a file

Each API key in the environment makes a target. The models of a provider keep their names and are hedged to the same
provider; `*`, the rest, goes to OpenRouter if known, else OpenAI, else the first below. With two providers that have a
small model, the route `fast` hedges the first's to the next's.

| key | moves the base URL | base URL | routes |
|---|---|---|---|
{table}
"""
