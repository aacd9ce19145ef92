"""The JSON Schema of hedgerow.yaml, for completion and checks in editors."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from hedgerow.config.describe import models
from hedgerow.config.docstrings import docstrings_of
from hedgerow.config.fields import SAME_AS
from hedgerow.config.settings import Settings

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Without defaults: several are typed values that JSON cannot show; the reference page has them."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def json_schema() -> dict[str, Any]:
    """The schema, as committed in docs/hedgerow.schema.json."""
    schema = Settings.model_json_schema(schema_generator=_Generator)
    for model in set(models()):
        each = schema if model is Settings else schema["$defs"][model.__name__]
        texts = docstrings_of(model)
        each["properties"] = {
            name: _may_be_empty(dict(sorted({**inner, "description": texts[name]}.items())) if name in texts else inner)
            for name, inner in each["properties"].items()
        }
    _tidy(schema)
    return {"$schema": _DRAFT, "title": "hedgerow.yaml", **schema}


def _may_be_empty(schema: dict[str, Any]) -> dict[str, Any]:
    """`server:` with nothing below it means the defaults; some sections may be a word."""
    if "$ref" not in schema:
        return schema
    words = next((each.in_short for each in models() if schema["$ref"] == f"#/$defs/{each.__name__}"), ())
    return {"anyOf": [schema, {"type": "null"}, *([{"enum": list(words)}] if words else [])]}


def _tidy(schema: Any) -> None:
    """Titles only repeat the keys and make hovers in editors longer; what is the same as another part refers to it."""
    match schema:
        case dict():
            if isinstance(schema.get("title"), str):
                del schema["title"]
            if (place := schema.pop(SAME_AS, None)) is not None:
                schema["$ref"] = f"#/$defs/{place}"
            for each in schema.values():
                _tidy(each)
        case list():
            for each in schema:
                _tidy(each)
