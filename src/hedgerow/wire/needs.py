"""What a request needs of a model that not every model can, in whatever protocol it is put."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hedgerow.wire.lenient import read

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


_DECODER = msgspec.json.Decoder(_Asked)
_LONG = re.compile(rb"[A-Za-z0-9+/=_\\-]{1000}")
"""What may be an image or a file; or text without blanks, so it has to be looked where it stands."""
_HOLDERS = (
    "image_url",
    "video_url",
    "audio_url",
    "input_audio",
    "file",
    "file_data",
    "source",
    "inlineData",
    "inline_data",
)
"""The fields that images, sounds and files are sent in, of the parts of a message."""
_HELD = ("url", "data", "file_data")
_INNER = ("content", "parts", "output", "images", "functionResponse", "function_response")
"""Where parts are found in messages and in other parts."""
_IMAGES = ("image_url", "input_image", "image", "computer_screenshot")
_SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema")


def needs_of(body: bytes) -> frozenset[str]:
    """Those of `TOOLS`, `VISION` and `JSON_SCHEMA` that the request needs; of a body that is no JSON object, none."""
    if (asked := _asked(body)) is None:
        return frozenset()
    found = {
        TOOLS: bool(asked.tools or asked.functions),
        VISION: b"image" in body and any(map(_shows, (asked.messages, asked.input, asked.contents))),
        JSON_SCHEMA: _wants_schema(asked),
    }
    return frozenset(name for name, needed in found.items() if needed)


def text_tokens(body: bytes) -> int:
    """An estimate of the prompt's tokens: some four bytes each, without the data of images, sounds and files.

    Those are told by the fields they stand in, whatever they look like: text counts though it looks like them.
    """
    asked = _asked(body) if _LONG.search(body) else None
    data = 0 if asked is None else sum(map(_data, (asked.messages, asked.input, asked.contents)))
    return max(len(body) - data, 0) >> 2


def _asked(body: bytes) -> _Asked | None:
    """What matters of a body; None of what is no JSON object."""
    try:
        return read(body, _DECODER, _Asked)
    except ValueError:
        return None


def _data(value: Any) -> int:
    """The characters of images, sounds and files in messages, or in parts of them."""
    if isinstance(value, list):
        return sum(map(_data, value))
    if not isinstance(value, dict):
        return 0
    made = value.get("result") if value.get("type") == "image_generation_call" else None
    return (
        _held(made) + sum(_held(value.get(name)) for name in _HOLDERS) + sum(_data(value.get(name)) for name in _INNER)
    )


def _held(value: Any) -> int:
    """The characters of what stands in one of `_HOLDERS`: data, or an object with data, or a document that is text."""
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, dict):
        return 0
    if value.get("type") in ("text", "content"):
        return _data(value.get("content"))
    return sum(len(text) for text in map(value.get, _HELD) if isinstance(text, str))


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
