"""A response as one document and as a stream of events, each made of the other."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hedgerow.wire.body import edit
from hedgerow.wire.sse import BOM, payloads

_LINE_ENDS_AS_BLANKS = bytes.maketrans(b"\r\n", b"  ")


class _Part(msgspec.Struct):
    """What of an event makes the document."""

    type: str | None = None
    response: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    item: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    output_index: int | None = None
    error: Any = None


class _Output(msgspec.Struct):
    output: list[msgspec.Raw] | None = None


_part = msgspec.json.Decoder(_Part).decode
_output = msgspec.json.Decoder(_Output).decode


def as_document(stream: bytes) -> bytes:
    """The response that the stream's last event holds, byte for byte.

    Some servers leave its output out: it is then the items that the stream has finished. Raises `ValueError` where the
    stream has no such event, or reports an error before it.
    """
    items: dict[int, bytes] = {}
    for payload in _events(stream):
        if all(payload.find(key) < 0 for key in (b'"response"', b'"item"', b'"error"')):
            continue
        part = _read(payload)
        if part.error or part.type == "error":
            raise ValueError("the stream reports an error")
        if part.type == "response.output_item.done" and part.item and part.output_index is not None:
            items[part.output_index] = bytes(part.item)
        elif part.type in ("response.completed", "response.incomplete", "response.failed"):
            return _with_items(bytes(part.response or b""), [items[index] for index in sorted(items)])
    raise ValueError("the stream has no end")


def error_document(stream: bytes) -> bytes | None:
    """The first error that a stream reports, as the body of an HTTP error; None when it reports none."""
    for payload in _events(stream):
        if payload.find(b'"error"') < 0:
            continue
        try:
            part = _read(payload)
        except ValueError:
            return None
        if part.error:
            return payload
        if part.type == "error":
            return b'{"error":' + payload + b"}"
    return None


def as_stream(document: bytes) -> bytes:
    """The events of a finished response; the last one holds the document byte for byte, but for its line ends.

    Raises `ValueError` where it is no response, or one that has failed or is under way.
    """
    try:
        return _as_stream(document, _loads(document))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _as_stream(document: bytes, response: dict[str, Any]) -> bytes:
    status = response.get("status")
    output = response.get("output")
    if status not in (None, "completed", "incomplete") or response.get("error") or not isinstance(output, list):
        raise ValueError("not a finished response")
    if not all(isinstance(item, dict) for item in output):
        raise ValueError("an output item that is no object")
    unknown_yet = dict.fromkeys(("incomplete_details", "usage", "completed_at") & response.keys())
    begun = {**response, "status": "in_progress", "output": [], **unknown_yet}
    events = _Events()
    events.add("response.created", response=begun)
    events.add("response.in_progress", response=begun)
    for index, item in enumerate(output):
        _add_item(events, index, item)
    # A line end in JSON is a blank between two tokens; in an event it would end the data.
    raw = document.removeprefix(BOM).strip().translate(_LINE_ENDS_AS_BLANKS)
    events.end("response.incomplete" if status == "incomplete" else "response.completed", raw)
    return b"".join(events.lines)


class _Events:
    """A stream in the making."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def add(self, kind: str, **fields: Any) -> None:
        data = {"type": kind, "sequence_number": len(self.lines), **fields}
        self.lines.append(f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode())

    def end(self, kind: str, response: bytes) -> None:
        name = kind.encode()
        self.lines.append(
            b'event: %b\ndata: {"type":"%b","sequence_number":%d,"response":%b}\n\n'
            % (name, name, len(self.lines), response)
        )


_UNSAID: dict[str, dict[str, Any]] = {
    "message": {"content": []},
    "reasoning": {"summary": [], "content": [], "encrypted_content": None},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "mcp_call": {"arguments": "", "output": None},
    "code_interpreter_call": {"code": "", "outputs": None},
    "image_generation_call": {"result": None},
}
"""What items hold when they are added, before anything of them was said."""

_SPELLED = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
    "mcp_call": ("arguments", "response.mcp_call_arguments"),
    "code_interpreter_call": ("code", "response.code_interpreter_call_code"),
}
"""Items of which one text is streamed: where it stands, and what its events are called."""

_PARTS = {
    "output_text": ("text", "response.output_text"),
    "refusal": ("refusal", "response.refusal"),
    "reasoning_text": ("text", "response.reasoning_text"),
}
"""The same for the parts of a message or of reasoning."""


def _add_item(events: _Events, index: int, item: dict[str, Any]) -> None:
    kind = str(item.get("type"))
    spelled = kind in _SPELLED and bool(item.get("id"))  # events of an item without an id would name none
    unsaid = _UNSAID.get(kind, {}) if spelled or kind not in _SPELLED else {}
    added = {**item, **{key: value for key, value in unsaid.items() if key in item}}
    if unsaid and "status" in item:
        added["status"] = "in_progress"
    events.add("response.output_item.added", output_index=index, item=added)
    at = {"item_id": item.get("id") or f"item_{index}", "output_index": index}
    if kind in ("message", "reasoning"):
        for number, part in enumerate(_objects(item, "summary")):
            _add_summary(events, {**at, "summary_index": number}, part)
        for number, part in enumerate(_objects(item, "content")):
            _add_part(events, {**at, "content_index": number}, part)
    elif spelled:
        key, name = _SPELLED[kind]
        _add_text(events, name, at, key, item.get(key))
    events.add("response.output_item.done", output_index=index, item=item)


def _add_part(events: _Events, at: dict[str, Any], part: dict[str, Any]) -> None:
    key, name = _PARTS.get(str(part.get("type")), ("", ""))
    begun = dict(part)
    extra: dict[str, Any] = {}
    if name:
        begun[key] = ""
    if name == "response.output_text":
        begun["annotations"] = []
        if "logprobs" in part:
            begun["logprobs"] = []
        extra["logprobs"] = part.get("logprobs") or []
    events.add("response.content_part.added", **at, part=begun)
    if name:
        _add_text(events, name, at, key, part.get(key), extra, _objects(part, "annotations"))
    events.add("response.content_part.done", **at, part=part)


def _add_summary(events: _Events, at: dict[str, Any], part: dict[str, Any]) -> None:
    events.add("response.reasoning_summary_part.added", **at, part={**part, "text": ""})
    _add_text(events, "response.reasoning_summary_text", at, "text", part.get("text"))
    events.add("response.reasoning_summary_part.done", **at, part=part)


def _add_text(
    events: _Events,
    name: str,
    at: dict[str, Any],
    key: str,
    text: Any,
    extra: dict[str, Any] | None = None,
    annotations: list[dict[str, Any]] | None = None,
) -> None:
    if not isinstance(text, str):
        return
    if text:
        events.add(f"{name}.delta", **at, delta=text, **(extra or {}))
    for number, annotation in enumerate(annotations or ()):
        events.add(f"{name}.annotation.added", **at, annotation_index=number, annotation=annotation)
    events.add(f"{name}.done", **at, **{key: text}, **(extra or {}))


def _objects(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = holder.get(key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _events(stream: bytes) -> list[bytes]:
    return payloads(stream.removeprefix(BOM) + b"\n\n")


def _read(payload: bytes) -> _Part:
    """Raises `ValueError` where it is no JSON object."""
    try:
        return _part(payload)
    except (msgspec.DecodeError, RecursionError):
        pass
    event = _loads(payload)
    found = {key: _raw(event[key]) for key in ("response", "item") if key in event}
    index, kind = event.get("output_index"), event.get("type")
    return _Part(
        type=kind if isinstance(kind, str) else None,
        output_index=index if isinstance(index, int) else None,
        error=event.get("error"),
        **found,
    )


def _with_items(response: bytes, items: list[bytes]) -> bytes:
    """Raises `ValueError` where the response is no object."""
    if not response.lstrip().startswith(b"{"):
        raise ValueError("the last event has no response")
    if not items or _has_output(response):
        return response
    return edit(response, {"output": b"[" + b",".join(items) + b"]"})


def _has_output(response: bytes) -> bool:
    try:
        return bool(_output(response).output)
    except (msgspec.DecodeError, RecursionError):
        return bool(_loads(response).get("output"))


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode())


def _loads(document: bytes) -> dict[str, Any]:
    """Lenient as many servers are. Raises `ValueError` where it is no JSON object."""
    try:
        loaded = json.loads(document.removeprefix(BOM).decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(loaded, dict):
        raise ValueError("no JSON object")
    return loaded
