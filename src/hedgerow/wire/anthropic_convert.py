"""Between an Anthropic message and the stream of events it amounts to.

Values are carried over as the bytes they came in (`Raw`), so numbers keep their spelling and what is not known here
survives. How events add up is what the official SDK's accumulator does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from hedgerow.wire.anthropic_partial import closed
from hedgerow.wire.sse import payloads

Members = dict[str, msgspec.Raw]

_NULL = msgspec.Raw(b"null")
_EMPTY_STRING = msgspec.Raw(b'""')
_EMPTY_LIST = msgspec.Raw(b"[]")
_EMPTY_OBJECT = msgspec.Raw(b"{}")
_OUTCOME = ("stop_reason", "stop_sequence", "stop_details")
"""Of the message; a stream tells them at its end."""
_AT_THE_END = ("output_tokens", "output_tokens_details", "server_tool_use")
"""Of the usage; a stream tells them at its end."""


class _Heard(msgspec.Struct, tag_field="type", tag="content_block_delta", gc=False):
    """Nearly every event of a stream: a delta to a block."""

    index: int
    delta: Members


_decode_heard = msgspec.json.Decoder(_Heard).decode
_decode_members = msgspec.json.Decoder(Members).decode
_encode = msgspec.json.encode


def as_document(stream: bytes) -> bytes:
    """The message that a whole stream amounts to. Raises `ValueError` where it is not whole or not clear."""
    reading = _Message()
    for payload in payloads(stream + b"\n\n"):
        if payload.strip() and reading.read(payload):
            return reading.document()
    raise ValueError("a stream without its end")


class _Message:
    """A message as far as its events have come."""

    __slots__ = ("blocks", "message", "started", "usage")

    def __init__(self) -> None:
        self.started = False
        self.message: Members = {}
        self.usage: Members = {}
        self.blocks: list[_Block] = []

    def read(self, payload: bytes) -> bool:
        """Take in one event; True when it was the last."""
        try:
            heard = _decode_heard(payload)
        except (msgspec.DecodeError, RecursionError):
            return self._add(_members(payload))
        self._block(heard.index).add(heard.delta)
        return False

    def _add(self, event: Members) -> bool:
        kind = _text(event.get("type"))
        if kind == "message_start":
            if self.started:
                raise ValueError("two messages in one stream")
            self.started = True
            self.message = _members(event.get("message"))
            self.usage = _members(self.message.get("usage"))
        elif kind == "error" or "error" in event:
            raise ValueError("an error in the stream")
        elif not self.started:
            if kind != "ping":
                raise ValueError("an event before the message's start")
        elif kind == "content_block_start":
            self._start(_members(event.get("content_block")))
        elif kind == "content_block_delta":
            index = msgspec.json.decode(event.get("index", _NULL))
            self._block(index).add(_members(event.get("delta")))
        elif kind == "message_delta":
            self._change(event)
        return kind == "message_stop"

    def document(self) -> bytes:
        """The whole message."""
        content = [block.done() for block in self.blocks]
        return _encode(self.message | {"content": content, "usage": self.usage})

    def _start(self, block: Members) -> None:
        self.blocks.append(_Block(block))
        if _text(block.get("type")) == "fallback":  # from here on another model answers, and lends its name
            self.message["model"] = _members(block.get("to")).get("model", _NULL)

    def _block(self, index: Any) -> _Block:
        if not isinstance(index, int) or not 0 <= index < len(self.blocks):
            raise ValueError("a delta for a block that has not started")
        return self.blocks[index]

    def _change(self, event: Members) -> None:
        """Whatever the end tells goes to the message itself; counts in the usage are totals and replace others."""
        message, delta = self.message, _members(event.pop("delta", None))
        for name in _OUTCOME:
            if name in delta or name in message:
                message[name] = delta.pop(name, _NULL)
        if "usage" in event:
            self.usage.update(_given(_members(event.pop("usage"))))
        del event["type"]
        message.update(_given(delta))
        message.update(_given(event))


class _Block:
    """A content block as far as its deltas have come."""

    __slots__ = ("_inputs", "_kind", "_strings", "members")

    def __init__(self, members: Members) -> None:
        self.members = members
        self._kind = _text(members.get("type"))
        self._strings: dict[str, list[bytes]] = {}
        self._inputs: list[bytes] = []

    def add(self, delta: Members) -> None:
        """Take in one delta; one of another kind of block says nothing about this one."""
        block, kind = self._kind, _text(delta.get("type"))
        if kind == "text_delta":
            self._append(block == "text", "text", delta)
        elif kind == "thinking_delta":
            self._append(block == "thinking", "thinking", delta)
        elif kind == "input_json_delta":
            if block.endswith("tool_use"):
                self._inputs.append(_quoted(delta.get("partial_json"))[1:-1])
        elif kind == "signature_delta":
            if block == "thinking":
                self.members["signature"] = delta.get("signature", _NULL)
        elif kind == "citations_delta":
            if block == "text":
                self._cite(delta.get("citation", _NULL))
        elif kind == "compaction_delta":
            if block == "compaction":
                self.members.update({name: delta.get(name, _NULL) for name in ("content", "encrypted_content")})
        else:
            raise ValueError("a delta of unknown kind")

    def done(self) -> Members:
        """The whole block."""
        for name, pieces in self._strings.items():
            self.members[name] = msgspec.Raw(b'"%b"' % b"".join(pieces))
        if given := _text(msgspec.Raw(b'"%b"' % b"".join(self._inputs))):
            self.members["input"] = msgspec.Raw(closed(given))
        return self.members

    def _append(self, fits: bool, name: str, delta: Members) -> None:
        if fits:
            start = self._strings.setdefault(name, [_quoted(self.members.get(name))[1:-1]])
            start.append(_quoted(delta.get(name))[1:-1])

    def _cite(self, citation: msgspec.Raw) -> None:
        known = bytes(self.members.get("citations", _NULL)).strip()
        before = known[1:-1].strip() if known.startswith(b"[") else b""
        self.members["citations"] = msgspec.Raw(b"[%b]" % b",".join(filter(None, (before, bytes(citation)))))


def as_stream(document: bytes) -> bytes:
    """The stream that a whole message amounts to. Raises `ValueError` where it is none."""
    message = _members(_compact(document))
    usage = _members(message.get("usage"))
    if "output_tokens" not in usage:
        raise ValueError("a message without its usage")
    blocks = [_members(block) for block in _list(message.get("content"))]
    events = [_event("message_start", message=message | {"content": _EMPTY_LIST, **_begun(message, usage)})]
    for index, block in enumerate(blocks):
        events += _block_events(index, block)
    delta = {name: message[name] for name in _OUTCOME if name in message}
    totals = {name: value for name, value in usage.items() if name in _AT_THE_END}
    events += (_event("message_delta", delta=delta, usage=totals), _event("message_stop"))
    return b"".join(events)


def _begun(message: Members, usage: Members) -> dict[str, Any]:
    """What a message says at its start that it does not know yet."""
    before = {name: msgspec.Raw(b"0") if name == "output_tokens" else _NULL for name in _AT_THE_END if name in usage}
    return {**{name: _NULL for name in _OUTCOME if name in message}, "usage": usage | before}


def _block_events(index: int, block: Members) -> Iterator[bytes]:
    kind = _text(block.get("type"))
    start, deltas = block, []
    if kind == "text":
        cited = _list(block["citations"]) if block.get("citations", _NULL) != _NULL else []
        start = block | {"text": _EMPTY_STRING, **({"citations": _EMPTY_LIST} if cited else {})}
        deltas += _filled("text_delta", text=block.get("text"))
        deltas += [{"type": "citations_delta", "citation": citation} for citation in cited]
    elif kind == "thinking":
        start = block | {"thinking": _EMPTY_STRING, "signature": _EMPTY_STRING}
        deltas += _filled("thinking_delta", thinking=block.get("thinking"))
        deltas += _filled("signature_delta", signature=block.get("signature"))
    elif kind.endswith("tool_use"):
        start = block | {"input": _EMPTY_OBJECT}
        given = bytes(block.get("input", _EMPTY_OBJECT))
        deltas.append({"type": "input_json_delta", "partial_json": "" if given == b"{}" else given.decode()})
    elif not kind:
        raise ValueError("a block without a type")
    yield _event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _filled(kind: str, **field: msgspec.Raw | None) -> list[dict[str, Any]]:
    return [{"type": kind, name: value} for name, value in field.items() if value not in (None, _NULL, _EMPTY_STRING)]


def _event(name: str, **members: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode({"type": name, **members}))


def _given(members: Members) -> Members:
    return {name: value for name, value in members.items() if value != _NULL}


def _members(document: bytes | msgspec.Raw | None) -> Members:
    """The members of a JSON object, each as it is spelled."""
    if document is None:
        raise ValueError("a member is missing")
    try:
        return _decode_members(document)
    except msgspec.ValidationError:
        raise ValueError("not an object") from None
    except (msgspec.DecodeError, RecursionError):
        pass
    found = _loads(document)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return {name: msgspec.Raw(_dumps(value)) for name, value in found.items()}


def _list(document: msgspec.Raw | None) -> list[msgspec.Raw]:
    if document is None:
        raise ValueError("a member is missing")
    try:
        return msgspec.json.decode(document, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        pass
    found = _loads(document)
    if not isinstance(found, list):
        raise ValueError("not a list")
    return [msgspec.Raw(_dumps(value)) for value in found]


def _text(document: msgspec.Raw | None) -> str:
    """A JSON string's value; "" where there is none."""
    if document is None:
        return ""
    try:
        found = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError):
        found = _loads(document)
    return found if isinstance(found, str) else ""


def _quoted(document: msgspec.Raw | None) -> bytes:
    """A JSON string as it is spelled; an empty one where there is none."""
    spelled = b"null" if document is None else bytes(document).strip()
    if spelled == b"null":
        return b'""'
    if not spelled.startswith(b'"'):
        raise ValueError("not a string")
    return spelled


def _compact(document: bytes) -> bytes:
    try:
        return msgspec.json.format(document, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return _dumps(_loads(document))


def _loads(document: bytes | msgspec.Raw) -> Any:
    """What only strict parsers refuse (lone surrogates, NaN, bad UTF-8 inside strings) is read all the same."""
    try:
        return json.loads(bytes(document).decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
