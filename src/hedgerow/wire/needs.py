"""What a request needs of a model that not every model can, in whatever protocol it is put."""

from __future__ import annotations

import re
from typing import Any

import msgspec

TOOLS, VISION, JSON_SCHEMA = "tools", "vision", "json_schema"


class _Asked(msgspec.Struct, rename={"settings": "generationConfig"}):
    tools: Any = None
    functions: Any = None
    response_format: Any = None
    text: Any = None
    output_format: Any = None
    output_config: Any = None
    settings: Any = None
    generation_config: Any = None
    messages: Any = None
    input: Any = None
    contents: Any = None


_decode = msgspec.json.Decoder(_Asked).decode
_DATA = re.compile(rb"[A-Za-z0-9+/=_-]{1000,}")
"""Files and images in a body: no text goes on for so long without a blank."""
_IMAGES = ("image_url", "input_image", "image", "computer_screenshot")
_SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema")


def needs_of(body: bytes) -> frozenset[str]:
    """Those of `TOOLS`, `VISION` and `JSON_SCHEMA` that the request needs; of a body that is no JSON object, none."""
    try:
        asked = _decode(body)
        found = {
            TOOLS: bool(asked.tools or asked.functions),
            VISION: b"image" in body and any(map(_shows, (asked.messages, asked.input, asked.contents))),
            JSON_SCHEMA: _wants_schema(asked),
        }
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return frozenset()
    return frozenset(name for name, needed in found.items() if needed)


def text_tokens(body: bytes) -> int:
    """An estimate of the prompt's tokens: some four bytes each, without the data of images and files."""
    return (len(body) - sum(len(found[0]) for found in _DATA.finditer(body))) >> 2


def _shows(value: Any) -> bool:
    """Whether there is an image in messages, or in parts of them."""
    if isinstance(value, list):
        return any(map(_shows, value))
    if not isinstance(value, dict):
        return False
    if value.get("type") in _IMAGES or any(map(_is_image, map(value.get, ("inlineData", "inline_data", "fileData")))):
        return True
    return any(_shows(value.get(name)) for name in ("content", "parts", "output"))


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and str(part.get("mimeType") or part.get("mime_type")).startswith("image/")


def _wants_schema(asked: _Asked) -> bool:
    formats = (
        asked.response_format,
        _in(asked.text, "format"),
        asked.output_format,
        _in(asked.output_config, "format"),
    )
    if any(_in(each, "type") == JSON_SCHEMA for each in formats):
        return True
    return any(_in(each, name) is not None for each in (asked.settings, asked.generation_config) for name in _SCHEMAS)


def _in(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
