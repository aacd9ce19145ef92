"""The JSON Schema that a request asks its answer to follow, in any of the protocols' words."""

from __future__ import annotations

from typing import Any

import msgspec

Schema = dict[str, Any] | bool


class _Body(msgspec.Struct, gc=False):
    response_format: Any = None
    text: Any = None
    output_config: Any = None
    output_format: Any = None
    generationConfig: Any = None  # noqa: N815  # as it is called
    generation_config: Any = None


_DECODER = msgspec.json.Decoder(_Body)


def requested_schema(request: bytes) -> Schema | None:
    """The schema; None where the request asks for none, or cannot be read.

    | protocol | where |
    |---|---|
    | chat completions | `response_format.json_schema.schema`; `response_format.schema` with some providers |
    | Responses | `text.format.schema` |
    | Messages | `output_config.format.schema`, before that `output_format.schema` |
    | Gemini | `generationConfig`: `responseJsonSchema`, or `responseSchema`, which is OpenAPI's and is translated |
    """
    try:
        body = _DECODER.decode(request)
    except (msgspec.DecodeError, RecursionError):
        return None
    asked = body.response_format
    for found in (
        _in(asked, "json_schema", "schema"),
        _in(asked, "schema"),
        _in(body.text, "format", "schema"),
        _in(body.output_config, "format", "schema"),
        _in(body.output_format, "schema"),
    ):
        if found is not None:
            return found
    return _of_gemini(body.generationConfig) or _of_gemini(body.generation_config)


def _in(value: Any, *names: str) -> Schema | None:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict | bool) else None


def _of_gemini(config: Any) -> Schema | None:
    for name in ("responseJsonSchema", "response_json_schema"):
        if (found := _in(config, name)) is not None:
            return found
    for name in ("responseSchema", "response_schema"):
        if (found := _in(config, name)) is not None:
            return _from_openapi(found)
    return None


_LISTED = ("anyOf", "any_of", "prefixItems")
_KEPT = ("required", "enum", "minimum", "maximum", "pattern")
_COUNTS = {
    "minItems": "minItems",
    "maxItems": "maxItems",
    "minLength": "minLength",
    "maxLength": "maxLength",
    "minProperties": "minProperties",
    "maxProperties": "maxProperties",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
}


def _from_openapi(schema: Schema) -> Schema:
    """Gemini's `Schema` as JSON Schema: types in capitals, `nullable`, and counts that may be written as text."""
    if not isinstance(schema, dict):
        return True
    made: dict[str, Any] = {name: schema[name] for name in _KEPT if name in schema}
    kind, nullable = schema.get("type"), schema.get("nullable") is True
    if isinstance(kind, str) and kind.upper() != "TYPE_UNSPECIFIED":
        made["type"] = [kind.lower(), "null"] if nullable else kind.lower()
    if nullable and isinstance(made.get("enum"), list):
        made["enum"] = [*made["enum"], None]
    for name, meant in _COUNTS.items():
        value = schema.get(name)
        if isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdigit()):
            made[meant] = int(value)
    if isinstance(properties := schema.get("properties"), dict):
        made["properties"] = {name: _from_openapi(each) for name, each in properties.items()}
    if "items" in schema:
        made["items"] = _from_openapi(schema["items"])
    for name in _LISTED:
        if isinstance(listed := schema.get(name), list):
            choices = [_from_openapi(each) for each in listed]
            if nullable and name != "prefixItems":
                choices.append({"type": "null"})
            made["anyOf" if name == "any_of" else name] = choices
    return made
