"""Google's Gemini API: `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import msgspec

from hedgerow.answer import Answer
from hedgerow.errors import RequestError
from hedgerow.events import Failure, Headers
from hedgerow.wire import gemini_document, gemini_errors
from hedgerow.wire.base import Facts, Family, Protocol, Scanner
from hedgerow.wire.gemini_array import GeminiArray
from hedgerow.wire.gemini_reading import GeminiReading, gemini_answer
from hedgerow.wire.gemini_scan import GeminiBody, GeminiStream
from hedgerow.wire.override import Tree, override, twin_of
from hedgerow.wire.reading import Reading
from hedgerow.wire.request import Reader, Routed
from hedgerow.wire.skipped import Skipped

_TARGET = re.compile(
    rb"(?P<path>(?P<before>/v1(?:alpha|beta)?\d*/(?:[^?#:]*?/)??)(?P<kind>models|tunedModels)/(?P<name>[^?#]+))"
    rb":(?P<method>generateContent|streamGenerateContent)(?:\?(?P<query>[^#]*))?"
)
_ALT = re.compile(rb"(?:\A|(?<=&))(?:\$|%24)?alt=([^&]*)(?:&|\Z)")
_STREAM = b"streamGenerateContent"
_CLIENT_TOOLS = ("functionDeclarations", "function_declarations")
"""What the client executes, after one answer was chosen; all else in a tool is done by Google, and acts or costs."""
_FILE = re.compile(rb'"file(?:U|_u)ri"\s*:\s*"([^"]{0,512})"')
_TUNED = "tunedModels/"


class GeminiFacts(Facts, frozen=True, gc=False):
    """What is known of a request; `array`: its stream is wanted as one JSON array."""

    array: bool = False


class _Path(NamedTuple):
    before: bytes
    model: str
    """As in "models/{model}"; that of a tuned one with "tunedModels/" before it."""
    stream: bool
    query: bytes
    alt: bytes


# Google reads both spellings of a key.


class _Config(msgspec.Struct, gc=False, rename="camel"):
    candidate_count: Any = None
    snake_candidate_count: Any = msgspec.field(default=None, name="candidate_count")
    max_output_tokens: Any = None
    snake_max_output_tokens: Any = msgspec.field(default=None, name="max_output_tokens")
    response_modalities: Any = None
    snake_response_modalities: Any = msgspec.field(default=None, name="response_modalities")


_Tool = dict[str, Skipped]


class _Request(Routed, rename="camel"):
    tools: list[_Tool] | _Tool | None = None
    generation_config: _Config | None = None
    snake_generation_config: _Config | None = msgspec.field(default=None, name="generation_config")
    cached_content: Any = None
    snake_cached_content: Any = msgspec.field(default=None, name="cached_content")
    continuation_token: Any = None
    snake_continuation_token: Any = msgspec.field(default=None, name="continuation_token")
    generation_output_config: Skipped = None
    snake_generation_output_config: Skipped = msgspec.field(default=None, name="generation_output_config")


_read = Reader(_Request).read


class Gemini(Protocol):
    """Content generation, streamed or whole. Model and stream flag are in the path."""

    name = "gemini.generate"
    family = Family.GEMINI
    retargets = True
    converts = True

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Raises `RequestError` (400) for a path without a usable model, broken JSON, wrong types."""
        path = _path(target)
        request = _read(body)
        config = request.generation_config or request.snake_generation_config or _Config()
        limit = config.max_output_tokens or config.snake_max_output_tokens
        return GeminiFacts(
            path.model,
            path.stream,
            _side_effects(request) or _uploaded(body),
            limit if isinstance(limit, int) else None,
            _needs(config),
            array=path.stream and path.alt != b"sse",
        )

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body as it is: the path says all that a target may want otherwise."""
        return body

    def override(self, body: bytes, tree: Tree) -> bytes:
        """The body with a target's own fields, spelled as the client spells them."""
        return override(body, tree, twin_of)

    def retarget(self, target: bytes, facts: Facts, model: str | None, *, stream: bool = False) -> bytes:
        """The path with `model` in it; with `stream`, that of a stream of events."""
        path = _path(target)
        as_stream = stream and not path.stream
        if not as_stream and (model is None or model == path.model):
            return target
        query = path.query
        if as_stream:
            query = b"&".join(filter(None, (_ALT.sub(b"", query).strip(b"&"), b"alt=sse")))
        method = _STREAM if as_stream or path.stream else b"generateContent"
        return b"".join((path.before, _resource(model or path.model), b":", method, b"?" if query else b"", query))

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for what was asked for: events, an array in pieces, or a whole body."""
        if not facts.stream:
            return GeminiBody(headers)
        shape = GeminiArray if isinstance(facts, GeminiFacts) and facts.array else GeminiStream
        return shape(headers, reasoning_counts=reasoning_counts, alone="n" not in facts.needs)

    def classify(self, status: int, headers: Headers, body: bytes) -> Failure:
        """What a non-2xx answer means."""
        return gemini_errors.classify(status, headers, body)

    def error_body(
        self, status: int, message: str, *, kind: str, code: str | None = None, param: str | None = None
    ) -> bytes:
        """Google's error JSON."""
        return gemini_errors.error_body(status, message, code=code)

    def error_frame(self, failure: Failure) -> bytes:
        """An event with Google's error JSON. In an array it is no JSON at all: that looks as broken as it is."""
        return gemini_errors.error_frame(failure)

    def answer(self, document: bytes) -> Answer:
        """What a gate sees of a whole answer."""
        return gemini_answer(document)

    def reading(self) -> Reading:
        """What a gate sees of a stream while it comes."""
        return GeminiReading()

    def as_document(self, stream: bytes) -> bytes:
        """The one answer that a stream amounts to."""
        return gemini_document.as_document(stream)

    def as_stream(self, document: bytes) -> bytes:
        """One event: an answer is a chunk that says it all."""
        return gemini_document.as_stream(document)


def _path(target: bytes) -> _Path:
    match = _TARGET.fullmatch(target)
    if match is None:
        raise RequestError(400, "The path names no model: /v1beta/models/{model}:generateContent.", param="model")
    try:
        model = unquote_to_bytes(match["name"]).decode()
    except UnicodeDecodeError:
        raise RequestError(400, "The model in the path is not UTF-8.", param="model") from None
    # Two dots, however they are spelled, could lead out of the target's base URL.
    if any(segment in ("", ".") for segment in model.split("/")) or b".." in unquote_to_bytes(match["path"]):
        raise RequestError(400, "The model in the path is none: it has an empty segment or dots.", param="model")
    query = match["query"] or b""
    alt = _ALT.search(query)
    form = alt[1].lower() if alt is not None else b"json"
    if form not in (b"json", b"sse"):
        raise RequestError(400, "Only alt=sse and alt=json are served.", param="alt", code="invalid_value")
    if match["kind"] == b"tunedModels":
        model = _TUNED + model
    return _Path(match["before"], model, match["method"] == _STREAM, query, form)


def _resource(model: str) -> bytes:
    """A model as the path names it; a tuned one says so itself."""
    kind = b"models/"
    if model.startswith(_TUNED):
        kind, model = _TUNED.encode(), model.removeprefix(_TUNED)
    return kind + quote(model.removeprefix("models/"), safe=":@").encode()


def _side_effects(request: _Request) -> str | None:
    """Why this request must not be sent twice on a mere delay; None when nothing speaks against it."""
    tools = request.tools or ()
    for tool in (tools,) if isinstance(tools, dict) else tools:
        for name, value in tool.items():
            if name not in _CLIENT_TOOLS and value is not None:
                return f"hosted tool {name[:40]!a}"
    if request.cached_content or request.snake_cached_content:
        return "cachedContent"
    if request.continuation_token or request.snake_continuation_token:
        return "continuationToken"
    if request.generation_output_config is not None or request.snake_generation_output_config is not None:
        return "generationOutputConfig"
    return None


def _uploaded(body: bytes) -> str | None:
    """Files that were uploaded belong to one account: another would answer that it must not read them."""
    if body.find(b'"fileUri"') < 0 and body.find(b'"file_uri"') < 0:
        return None
    for match in _FILE.finditer(body):
        uri = match[1].replace(b"\\/", b"/")
        if uri.startswith(b"files/") or (b"generativelanguage" in uri and b"/files/" in uri):
            return "an uploaded file"
    return None


def _needs(config: _Config) -> tuple[str, ...]:
    needs: tuple[str, ...] = ()
    count = str(config.candidate_count or config.snake_candidate_count or 1)
    if not count.isdecimal() or int(count) > 1:
        needs = ("n",)
    modalities = config.response_modalities or config.snake_response_modalities
    found = modalities if isinstance(modalities, list) else [modalities]
    if any(str(modality).upper() in ("AUDIO", "3") for modality in found):
        needs = (*needs, "audio")
    return needs
