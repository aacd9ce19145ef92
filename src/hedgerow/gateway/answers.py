"""What the client is answered: the winner's head, an upstream's own error, or ours when none answered."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import msgspec

from hedgerow.errors import RequestError
from hedgerow.events import Failure, FailureClass, Headers
from hedgerow.gateway.headers import to_client
from hedgerow.gateway.keeping import alternatives_path
from hedgerow.http.exchange import Exchange
from hedgerow.policy.failures import client_status
from hedgerow.unshown import Unshown
from hedgerow.wire.base import Protocol
from hedgerow.wire.failures import as_json
from hedgerow.wire.whole import is_event_stream

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.landing import Landing

JSON: Headers = [(b"content-type", b"application/json")]
_JSON = b"content-type: application/json\r\n"
_ALONE = b"\r\nx-hedgerow-attempts: 1\r\nx-hedgerow-hedged: false\r\n"


class Answer(Unshown, msgspec.Struct, frozen=True, gc=False):
    """A whole answer; `fields` as for `Exchange.respond`."""

    status: int
    fields: bytes
    body: bytes


def refuse(exchange: Exchange, protocol: Protocol, error: RequestError) -> None:
    """Answer a request that is not sent anywhere."""
    kind = "authentication_error" if error.status == 401 else "invalid_request_error"
    body = protocol.error_body(error.status, error.message, kind=kind, code=error.code, param=error.param)
    exchange.respond(error.status, JSON, body)


def marks(flight: Landing, answered_by: Attempt) -> bytes:
    """Our own response header fields, as lines."""
    count = len(flight.attempts)
    counts = _ALONE
    if count > 1:
        hedged = b"true" if flight.hedged else b"false"
        counts = b"\r\nx-hedgerow-attempts: %d\r\nx-hedgerow-hedged: %b\r\n" % (count, hedged)
    if (rejection := answered_by.rejection) is not None:
        counts += b"x-hedgerow-gate: failed:%b\r\n" % rejection.gate.encode()
    if flight.aftermath is not None and flight.aftermath.keeps:
        counts += b"x-hedgerow-alternatives: %b\r\n" % alternatives_path(flight.request_id).encode()
    if flight.skipped is not None:
        counts += b"x-hedgerow-hedge-skipped: %b\r\n" % flight.skipped.encode()
    return b"".join((answered_by.target.mark, b"x-hedgerow-request-id: ", flight.request_id.encode(), counts))


def unbuffered(headers: Headers) -> bytes:
    """Header fields that a stream needs to get through proxies piece by piece, unless the upstream set them."""
    cached, buffered = b"cache-control: no-cache\r\n", b"x-accel-buffering: no\r\n"
    for name, _ in headers:
        if name == b"cache-control":
            cached = b""
        elif name == b"x-accel-buffering":
            buffered = b""
    return cached + buffered


def failure_answer(flight: Landing, attempt: Attempt, failure: Failure) -> Answer:
    """The answer when every attempt failed: the upstream's own status and body where one answered."""
    own = marks(flight, attempt)
    # Our attempts are used up: without this the official SDKs would start all of them again, twice. A rate limit that
    # says when it ends is another matter: to wait that long and to ask again is what the client should do.
    used_up = len(flight.attempts) > 1 and not (
        failure.kind is FailureClass.RATE_LIMITED and failure.retry_after is not None
    )
    if used_up:
        own += b"x-should-retry: false\r\n"
    if failure.status is not None and (told := _told(flight, attempt, failure)) is not None:
        headers, body = told
        if used_up:
            headers = [field for field in headers if field[0] != b"x-should-retry"]
        return Answer(failure.status, to_client(headers) + own, body)
    if failure.retry_after is not None:
        own += b"retry-after: %d\r\n" % ceil(failure.retry_after)
    status = client_status(failure)
    if failure.status is None or failure.status < 400:
        own += b"x-hedgerow-failure: %b\r\n" % _class(failure)
    return Answer(status, _JSON + own, _own_body(flight, attempt, failure, status))


def _class(failure: Failure) -> bytes:
    """Why nobody answered, for machines: the failure's class, but "closed" for a connection that was and broke."""
    closed = failure.kind is FailureClass.CONNECT and not failure.unsent
    return b"closed" if closed else failure.kind.encode()


def _told(flight: Landing, attempt: Attempt, failure: Failure) -> tuple[Headers, bytes] | None:
    """The upstream's own header fields and body, where the client can do something with them."""
    body = failure.body
    # A redirect is no answer: it would lead clients, with their keys, past us.
    if body is None or 300 <= (failure.status or 0) < 400 or _is_page(body):
        return None
    headers = failure.headers
    if headers is None:
        headers = attempt.headers if failure.kind is FailureClass.EMPTY else JSON
    if flight.question.collects and is_event_stream(body):
        try:
            return as_json(headers), flight.protocol.as_document(body)
        except ValueError:  # a stream of nothing may amount to nothing
            return None
    return headers, body


def _is_page(body: bytes) -> bool:
    """Whether an error is told in HTML, for people: a proxy's, no API's. Clients of an API cannot read it."""
    return body[:64].lstrip()[:1] == b"<"


def _own_body(flight: Landing, attempt: Attempt, failure: Failure, status: int) -> bytes:
    message = _explain(flight, attempt, failure)
    return flight.protocol.error_body(status, message, kind=_type(status), code=failure.kind)


def _explain(flight: Landing, attempt: Attempt, failure: Failure) -> str:
    tried = f" (last of {len(flight.attempts)} attempts)" if len(flight.attempts) > 1 else ""
    unknown = ""
    if flight.facts.forbids_hedge is not None and not failure.unsent and (failure.status or 0) < 400:
        unknown = ". Whether the request has taken effect is not known: look before you send it again"
    return f"No usable answer from target '{attempt.target.name}'{tried}: {failure.message}{unknown}"


def _type(status: int) -> str:
    if status == 504:
        return "timeout_error"
    return "upstream_error" if status >= 500 else "invalid_request_error"
