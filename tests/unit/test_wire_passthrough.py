"""Endpoints that are not understood are handed on untouched, once."""

from __future__ import annotations

import json

import pytest

from hedgerow.events import Failure, FailureClass
from hedgerow.wire import lookup
from hedgerow.wire.base import ACCEPTED, Facts

OTHER = lookup(b"POST", b"/v1/batches")
WHY = "endpoint"


@pytest.mark.parametrize(
    ("body", "facts"),
    [
        (b"", Facts(None, False, WHY)),
        (b'--boundary\r\n{"model":"x"}', Facts(None, False, WHY)),
        (b'{"model":"x","stream":true}', Facts("x", True, WHY)),
        (b' {"model":3}', Facts(None, False, WHY)),
        (b'{"model":"x"', Facts(None, False, WHY)),
        (b'{"input_file_id":"file-1"}', Facts(None, False, WHY)),
        (b'{"a":' + b"[" * 100_000, Facts(None, False, WHY)),
    ],
)
def test_the_facts_are_what_can_be_read(body: bytes, facts: Facts) -> None:
    assert OTHER.facts(b"/v1/files", body) == facts


def test_the_model_is_replaced_where_there_is_one() -> None:
    for body, edited in ((b'{"model":"x","model":"x"}', b'{"model":"y","model":"y"}'), (b"\x00raw", b"\x00raw")):
        assert OTHER.rewrite(body, OTHER.facts(b"/v1/files", body), "y") == edited


def test_the_head_decides_and_only_a_broken_connection_is_a_failure() -> None:
    assert (OTHER.accepts_head, OTHER.hedgeable) == (True, False)
    scanner = OTHER.scanner(Facts(None, False), [])
    assert (scanner.feed(b"x"), scanner.eof(b""), scanner.watch(b"x")) == (ACCEPTED, ACCEPTED, False)
    assert scanner.ending(True).failure is None
    failure = scanner.ending(False).failure
    assert failure is not None
    assert failure.kind is FailureClass.PROTOCOL


def test_errors_have_the_shape_of_the_endpoints_family() -> None:
    assert json.loads(OTHER.error_body(502, "No.", kind="upstream_error"))["error"]["type"] == "upstream_error"
    messages = lookup(b"POST", b"/v1/messages/count_tokens?beta=true")
    for status, kind in ((404, "not_found_error"), (418, "invalid_request_error"), (502, "api_error")):
        told = json.loads(messages.error_body(status, "No.", kind="ignored"))
        assert told == {"type": "error", "error": {"type": kind, "message": "No."}}


def test_no_error_frame_is_invented_for_an_unknown_format() -> None:
    assert OTHER.error_frame(Failure(FailureClass.PROTOCOL, "x")) == b""
