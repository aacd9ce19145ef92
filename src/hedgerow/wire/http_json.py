"""Any endpoint whose whole answer can be judged by its form: rerank, moderation, speech, images, translation..."""

from __future__ import annotations

import json
import math
import re
from typing import Any, ClassVar

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Ending, Facts, Family, Scanner, Verdict
from hedgerow.wire.body import replace_model
from hedgerow.wire.failures import classify_frame
from hedgerow.wire.openai_base import OpenAIProtocol
from hedgerow.wire.override import Tree, override
from hedgerow.wire.sse import BOM
from hedgerow.wire.thoughts import output_with_reasoning
from hedgerow.wire.whole import WholeBody, not_json
from hedgerow.wire.words import NO_WORDS, Words

_BINARY = ("audio/", "image/", "video/", "application/octet-stream")
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")
_LONGEST = max(map(len, _HTML))
_BLANK = b" \t\r\n" + BOM
_PART_STREAM = re.compile(
    rb'name="?stream"?\r?\n(?:[^\r\n]{1,256}+\r?\n){0,4}+\r?\n[ \t]*+true[ \t]*+\r?\n', re.IGNORECASE
)
"""A part of a form. Bounded, and never tried twice: a body may repeat its start a million times."""
_UNKNOWN = Facts(None, False)
_STREAM = "a stream of unknown form"


class _Request(msgspec.Struct, gc=False):
    model: Any = None
    stream: Any = None
    stream_format: Any = None


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_any = msgspec.json.Decoder(msgspec.Raw).decode


class JsonEndpoint(OpenAIProtocol):
    """An endpoint of which only this much is known: asking it twice does nothing twice."""

    name = "http"

    def __init__(self, family: Family = Family.HTTP) -> None:
        self.family = family

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Model and stream flag where the body is JSON, or a form, that has them; never raises."""
        start = body[:64].lstrip()
        if start.startswith(b"--"):
            streamed = b"stream" in body and _PART_STREAM.search(body) is not None
            return Facts(None, True, _STREAM) if streamed else _UNKNOWN
        if not start.startswith(b"{"):
            return _UNKNOWN
        try:
            request = _decode_request(body)
        except (msgspec.DecodeError, RecursionError):
            return _UNKNOWN
        model = request.model if isinstance(request.model, str) else None
        stream = bool(request.stream) or request.stream_format == "sse"
        return Facts(model, stream, _STREAM if stream else None)

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body with every top-level `model` replaced, where it had one."""
        if model is None or facts.model is None or model == facts.model:
            return body
        return replace_model(body, model)

    def override(self, body: bytes, tree: Tree) -> bytes:
        """The body with a target's own fields, where it is JSON."""
        return override(body, tree) if _is_object(body) else body

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for a whole body, or for a stream of which nothing is known."""
        return OpaqueStream(headers) if facts.stream else AnyBody(headers)

    def error_frame(self, failure: Failure) -> bytes:
        """Nothing: the answer's format is not known, so a cut is shown by cutting."""
        return b""


class OpaqueStream:
    """A stream that is not understood: its first byte decides, or the first few if they may start an HTML page."""

    __slots__ = ("_headers", "_start")
    sign: ClassVar[int | None] = 0  # any: nothing is looked for, but there is a first byte to wait for

    def __init__(self, headers: Headers) -> None:
        self._headers = headers
        self._start = b""

    def feed(self, data: bytes) -> Verdict | None:
        """Any byte that is not blank will do, but those of an HTML page."""
        start = self._start = (self._start + data).lstrip(_BLANK)[:_LONGEST]
        if not start:
            return None
        if _is_html(self._headers, start):
            return Failure(FailureClass.PROTOCOL, "an HTML page")
        return None if any(page.startswith(start.lower()) for page in _HTML) else ACCEPTED

    def eof(self, held: bytes) -> Verdict:
        """Nothing came, or no more than may start a page."""
        return ACCEPTED if self._start else Failure(FailureClass.PROTOCOL, "the answer has no body")

    def watch(self, data: bytes) -> bool:
        """Nothing is known of its end."""
        return False

    def ending(self, clean: bool) -> Ending:
        """Whole is what was closed cleanly."""
        return Ending(None if clean else Failure(FailureClass.PROTOCOL, "the answer broke off"), None)

    def words(self) -> Words:
        """Nothing of it is understood."""
        return NO_WORDS

    def tier(self) -> str | None:
        return None


class AnyBody(WholeBody):
    """A whole body: not empty, no HTML page, whole JSON where it is JSON, and no error in it."""

    __slots__ = ()

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate answer."""
        start = body[:64].removeprefix(BOM).lstrip()[:1]
        if not start and not body.strip():
            return not_json(b"")
        if _is_html(self.headers, body):
            return Failure(FailureClass.PROTOCOL, "an HTML page")
        media = _media_type(self.headers)
        binary = media.startswith(_BINARY)
        promised = media.endswith(("/json", "+json"))
        if not promised and (start not in (b"{", b"[") or (start == b"[" and media.startswith("text/"))):
            return ACCEPTED
        try:
            members = _members(body.removeprefix(BOM))
        except ValueError:
            if binary:  # the first byte of sound may be any
                return ACCEPTED
            return not_json(body) if start not in (b"{", b"[") else _cut()
        return self._judge_members(members, body)

    def _judge_members(self, members: dict[str, Any], body: bytes) -> Verdict:
        error = _value(members.get("error"))
        if error and isinstance(error, dict | str | bool):
            return classify_frame(body, self.headers)
        errors = _value(members.get("errors"))
        if errors and isinstance(errors, list) and not _says_more(members):
            failure = classify_frame(json.dumps({"error": errors[0]}).encode(), self.headers)
            return msgspec.structs.replace(failure, body=body)
        self.usage = _usage_in(members)
        return ACCEPTED


def _members(body: bytes) -> dict[str, Any]:
    """The members of a JSON object, not decoded; none for other JSON. Raises `ValueError` when it is no JSON."""
    try:
        if body.lstrip()[:1] == b"{":
            return _decode_members(body)
        _decode_any(body)
        return {}
    except (msgspec.DecodeError, RecursionError):
        pass
    try:  # NaN, a lone surrogate
        found = json.loads(body.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return found if isinstance(found, dict) else {}


def _is_object(body: bytes) -> bool:
    try:
        return body[:64].lstrip()[:1] == b"{" and bool(_members(body) or True)
    except ValueError:
        return False


def _value(member: Any) -> Any:
    if not isinstance(member, msgspec.Raw):
        return member
    try:
        return msgspec.json.decode(member)
    except (msgspec.DecodeError, RecursionError):
        return None


def _says_more(members: dict[str, Any]) -> bool:
    """Whether there is more in an answer than its errors: then these are of a part of it only."""
    for name, member in members.items():
        if name != "errors" and (value := _value(member)) and isinstance(value, dict | list):
            return True
    return False


def _usage_in(members: dict[str, Any]) -> Usage | None:
    """Tokens as OpenAI, Jina and Voyage (`usage`), Cohere (`meta`) or Gemini (`usageMetadata`) report them."""
    usage = _value(members.get("usage"))
    if isinstance(usage, dict):
        given = _first(usage, "prompt_tokens", "input_tokens")
        made = _first(usage, "completion_tokens", "output_tokens")
        total = _first(usage, "total_tokens")
        if given is None and made is None:
            return None if total is None else Usage(total, 0)
        if made is None and total is not None and given is not None:
            made = max(total - given, 0)
        details = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
        thought = _first(details, "reasoning_tokens") if isinstance(details, dict) else None
        # Here a total may be of anything: only reasoning explains what it has more.
        return Usage(given, output_with_reasoning(given, made, thought or 0, total), reasoning_tokens=thought)
    meta = _value(members.get("meta"))
    for key in ("billed_units", "tokens"):
        units = meta.get(key) if isinstance(meta, dict) else None
        if isinstance(units, dict) and (given := _first(units, "input_tokens")) is not None:
            return Usage(given, _first(units, "output_tokens") or 0)
    counts = _value(members.get("usageMetadata"))
    if not isinstance(counts, dict) or (given := _first(counts, "promptTokenCount")) is None:
        return None
    thought = _first(counts, "thoughtsTokenCount")
    return Usage(given, (_first(counts, "candidatesTokenCount") or 0) + (thought or 0), reasoning_tokens=thought)


def _first(tokens: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = tokens.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return int(value)  # Cohere writes 5.0
    return None


def _is_html(headers: Headers, body: bytes) -> bool:
    return body[:256].removeprefix(BOM).lstrip().lower().startswith(_HTML) or _media_type(headers) == "text/html"


def _media_type(headers: Headers) -> str:
    for name, value in headers:
        if name == b"content-type":
            return value.partition(b";")[0].strip().lower().decode("latin-1")
    return ""


def _cut() -> Failure:
    return Failure(FailureClass.PROTOCOL, "the body is not whole JSON")
