"""The gateway's own pages: is it alive, is it ready, which models does it offer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from hedgerow.errors import RequestError
from hedgerow.gateway import alternatives
from hedgerow.gateway.answers import JSON, refuse
from hedgerow.gateway.headers import speaks_anthropic, speaks_gemini
from hedgerow.http.exchange import Exchange
from hedgerow.wire import TWICE, lookup

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway


class Page(msgspec.Struct, frozen=True, gc=False):
    """An answer of our own; a `private` page is shown only to clients with a key, where keys are asked for."""

    answer: Callable[[Gateway, Exchange], None]
    private: bool


def find(method: bytes, target: bytes) -> Page | None:
    """The page for this request, None when it is not one of ours."""
    path = target.partition(b"?")[0]
    if path == b"/v1/hedgerow" or path.startswith(b"/v1/hedgerow/"):
        return _ALTERNATIVES if method in (b"GET", b"HEAD") and alternatives.request_of(path) else _NOTHING
    if method in (b"GET", b"HEAD"):
        return _GET.get(path) or (_MODEL if path.startswith((b"/v1/models/", b"/v1beta/models/")) else None)
    return _OPTIONS if method == b"OPTIONS" else None


def _nothing(_gateway: Gateway, exchange: Exchange) -> None:
    raise RequestError(404, no_such_path(exchange.target), code="not_found")


def origin_form(target: bytes) -> bytes | None:
    """The path and query of a target that names scheme and host too; None where it does not.

    Clients that take us for a proxy send such targets, and a server must understand them (RFC 9112 section 3.2.2).
    """
    match = _ABSOLUTE.fullmatch(target)
    return None if match is None else b"/" + match[1]


def is_below_v1(target: bytes) -> bool:
    """Whether every upstream will see the target below its base URL, and it says the version of the API once.

    `..`, however it is spelled, could lead out of it: to what our key may do and our clients may not.
    """
    path = target.partition(b"?")[0]
    if path.startswith(TWICE):
        return False
    return path.startswith((b"/v1/", b"/v1beta/", b"/v1alpha/")) and not _UPWARDS.search(unquote_to_bytes(path))


_ABSOLUTE = re.compile(rb"(?i:https?)://[^/?#]*/?(.*)")
_UPWARDS = re.compile(rb"[/\\]\.\.(?:[/\\;#]|\Z)")


def no_such_path(target: bytes) -> str:
    """What to do about a path we do not serve."""
    path = target.partition(b"?")[0]
    shown = path[:100].decode("latin-1")
    if path.startswith(TWICE):
        version = shown.split("/")[1]
        return (
            f"There is nothing at '{shown}': the API's version is there twice. This client adds it to its base URL, "
            f"which is then http://<this host>, without /{version}."
        )
    return f"There is nothing at '{shown}'. Clients use base_url http://<this host>/v1; see also /livez, /readyz."


def _livez(_gateway: Gateway, exchange: Exchange) -> None:
    exchange.respond(200, JSON, b'{"status":"alive"}')


def _readyz(gateway: Gateway, exchange: Exchange) -> None:
    if gateway.draining:
        exchange.respond(503, JSON, b'{"status":"draining"}')
    else:
        exchange.respond(200, JSON, b'{"status":"ready"}')


def _metrics(gateway: Gateway, exchange: Exchange) -> None:
    if gateway.metrics is None:
        refuse(exchange, lookup(exchange.method, exchange.target), RequestError(404, _NO_METRICS, code="no_metrics"))
    else:
        gateway.metrics.answer(exchange)


_NO_METRICS = "There are no metrics here: server.metrics.enabled is false."


def _models(gateway: Gateway, exchange: Exchange) -> None:
    names = list(gateway.model_names)
    shape = _shape(exchange)
    exchange.respond(200, JSON, msgspec.json.encode(shape.listed([shape.one(name) for name in names], names)))


def _model(gateway: Gateway, exchange: Exchange) -> None:
    path = exchange.target.partition(b"?")[0]
    name = unquote_to_bytes(path.partition(b"/models/")[2]).decode("utf-8", "replace")
    if not gateway.serves(name):
        raise RequestError(404, f"There is no route '{name}'.", code="model_not_found", param="model")
    exchange.respond(200, JSON, msgspec.json.encode(_shape(exchange).one(name)))


_Json = dict[str, object]


class _Shape(NamedTuple):
    """How one family's API shows a model, and a list of them with their names."""

    one: Callable[[str], _Json]
    listed: Callable[[list[_Json], list[str]], _Json]


_OPENAI = _Shape(
    lambda name: {"id": name, "object": "model", "created": 0, "owned_by": "hedgerow"},
    lambda models, _: {"object": "list", "data": models},
)
_ANTHROPIC = _Shape(
    lambda name: {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"},
    lambda models, names: {
        "data": models,
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    },
)
_GEMINI = _Shape(
    lambda name: {
        "name": f"models/{name}",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent"],
    },
    lambda models, _: {"models": models},
)


def _shape(exchange: Exchange) -> _Shape:
    if speaks_anthropic(exchange.headers):
        return _ANTHROPIC
    return _GEMINI if speaks_gemini(exchange.target, exchange.headers) else _OPENAI


def _options(_gateway: Gateway, exchange: Exchange) -> None:
    exchange.respond(204, [(b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")], b"")


_GET = {
    b"/livez": Page(_livez, private=False),
    b"/readyz": Page(_readyz, private=False),
    b"/metrics": Page(_metrics, private=False),
    b"/v1/models": Page(_models, private=True),
    b"/v1beta/models": Page(_models, private=True),
}
_ALTERNATIVES = Page(alternatives.answer, private=True)
_NOTHING = Page(_nothing, private=True)
_MODEL = Page(_model, private=True)
_OPTIONS = Page(_options, private=False)
