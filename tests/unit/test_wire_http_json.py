"""Endpoints of which little is known: a whole body is judged by its form, a stream by its first byte."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Ending, Facts, Family, Verdict
from hedgerow.wire.http_json import JsonEndpoint

HTTP = JsonEndpoint()
TARGET = b"/v1/rerank"
RESULTS = b'{"results":[{"index":0,"relevance_score":0.9}]}'
STREAM = Facts("m", True, "a stream of unknown form")


def media(content_type: str) -> Headers:
    return [(b"content-type", content_type.encode())]


THINKING = {"prompt_tokens": 5, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 5}}
JSON = media("application/json; charset=utf-8")


def judge(body: bytes, headers: Headers = JSON) -> tuple[Verdict, Usage | None]:
    """As the gateway does: nothing is decided before the end."""
    scanner = HTTP.scanner(Facts(None, False), headers)
    assert scanner.sign is None
    return scanner.eof(body), scanner.ending(True).usage


def form(**fields: str) -> bytes:
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    ]
    return "".join([*parts, "--b--\r\n"]).encode()


@pytest.mark.parametrize(
    ("body", "facts"),
    [
        (b'{"model":"rerank-v3","query":"q","documents":[]}', Facts("rerank-v3", False)),
        (b'{"model":"m","stream":false}', Facts("m", False)),
        (b'{"model":"m","stream":true}', STREAM),
        (b'{"model":"m","stream_format":"sse"}', STREAM),
        (b'{"model":"m","stream_format":"audio"}', Facts("m", False)),
        (b'{"model":["odd"],"stream":null}', Facts(None, False)),
        (b'{"text":["Hallo"],"target_lang":"EN"}', Facts(None, False)),
        (b"", Facts(None, False)),
        (b"[]", Facts(None, False)),
        (b"{", Facts(None, False)),
        (b"\xff\xfe", Facts(None, False)),
        (b"auth_key=k&text=Hallo&stream=true", Facts(None, False)),
        (form(model="whisper-1", file="RIFF"), Facts(None, False)),
        (form(stream="false", prompt="true"), Facts(None, False)),
        (form(model="gpt-4o-transcribe", stream="true"), Facts(None, True, "a stream of unknown form")),
        (
            form(stream="True").replace(b"\r\n\r\nT", b"\r\ncontent-type: text/plain\r\n\r\nT"),
            Facts(None, True, "a stream of unknown form"),
        ),
    ],
)
def test_the_facts_are_read_where_there_are_any(body: bytes, facts: Facts) -> None:
    assert HTTP.facts(TARGET, body) == facts


def test_only_a_model_that_is_there_is_replaced() -> None:
    body = b'{"query":"q", "model" : "a", "documents":[{"model":"x"}]}'
    assert HTTP.rewrite(body, HTTP.facts(TARGET, body), "b") == body.replace(b'"a"', b'"b"')
    assert HTTP.rewrite(body, HTTP.facts(TARGET, body), None) is body
    for other in (b'{"text":"x"}', form(model="a"), b'{"model":1}'):
        assert HTTP.rewrite(other, HTTP.facts(TARGET, other), "b") is other


def test_the_family_is_as_told() -> None:
    assert (HTTP.family, JsonEndpoint(Family.OPENAI).family) == (Family.HTTP, Family.OPENAI)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (RESULTS, JSON),
        (b"\xef\xbb\xbf " + RESULTS, JSON),
        (RESULTS, []),
        (RESULTS, media("text/plain")),
        (RESULTS, media("application/vnd.api+json")),
        (b"[]", JSON),
        (b"null", JSON),
        (b'"Hello"', JSON),
        (b'{"scores":[NaN]}', JSON),
        (b'[NaN,"\\ud83d"]', JSON),
        (b'{"text":"\\ud83d"}', JSON),
        (b'{"error":null,"errors":[],"text":"x"}', JSON),
        (b'{"error":{},"text":"x"}', JSON),
        (b'{"error":"","text":"x"}', JSON),
        (b'{"error":0}', JSON),
        (b'{"errors":[{"index":1}],"results":[{"index":0}]}', JSON),
        (b'{"errors":{"object":"list"}}', JSON),
        (b"ID3\x04\x00\xff\xfb", media("audio/mpeg")),
        (b"{\x00\x01 sound", media("audio/pcm")),
        (b"   [\x80", media("application/octet-stream")),
        (b"\x89PNG\r\n\x1a\n", media("image/png")),
        (b'<svg xmlns="x"/>', media("image/svg+xml")),
        (b"<speak>Hello</speak>", media("application/ssml+xml")),
        (b"[Music] Hello", media("text/plain; charset=utf-8")),
        (b"Hello", media("text/plain")),
        (b"Hello", []),
    ],
)
def test_an_adequate_body_is_accepted(body: bytes, headers: Headers) -> None:
    assert judge(body, headers)[0] is ACCEPTED


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (b"", JSON, "the answer has no body"),
        (b"", media("audio/mpeg"), "the answer has no body"),
        (b" \r\n", [], "the answer has no body"),
        (b"<!DOCTYPE html><html>", JSON, "an HTML page"),
        (b"<!DOCTYPE html><html>", media("audio/mpeg"), "an HTML page"),
        (b"\xef\xbb\xbf\n<HTML>", [], "an HTML page"),
        (b"Just a moment", media("text/html; charset=utf-8"), "an HTML page"),
        (b"<error/>", JSON, "an HTML page instead of JSON"),
        (b"upstream connect error", JSON, "the body is not JSON"),
        (RESULTS[:-1], JSON, "the body is not whole JSON"),
        (RESULTS[:-1], [], "the body is not whole JSON"),
        (RESULTS[:-1], media("text/plain"), "the body is not whole JSON"),
        (RESULTS + b"x", JSON, "the body is not whole JSON"),
        (b"[1, 2", [], "the body is not whole JSON"),
        (b"[" * 100_000, JSON, "the body is not whole JSON"),
        (b"data: {}\n\n", JSON, "the body is not JSON"),
    ],
)
def test_what_is_no_adequate_body_is_broken(body: bytes, headers: Headers, why: str) -> None:
    assert judge(body, headers)[0] == Failure(FailureClass.PROTOCOL, why)


@pytest.mark.parametrize(
    ("body", "headers", "kind", "status"),
    [
        (b'{"error":{"message":"x","code":429}}', JSON, FailureClass.RATE_LIMITED, 429),
        (b'{"error":{"type":"invalid_request_error"}}', JSON, FailureClass.FATAL_REQUEST, 400),
        (b'{"error":"model is loading"}', JSON, FailureClass.SERVER_ERROR, 500),
        (b'{"error":true,"message":"x","code":503}', JSON, FailureClass.SERVER_ERROR, 503),
        (b'{"error":{"code":503},"data":[1]}', JSON, FailureClass.SERVER_ERROR, 503),
        (b'{"error":{"code":503}}', media("audio/mpeg"), FailureClass.SERVER_ERROR, 503),
        (b'{"error":{"code":503},"x":NaN}', [], FailureClass.SERVER_ERROR, 500),
        (b'{"data":null,"errors":[{"message":"x","code":404}]}', JSON, FailureClass.UPSTREAM_MISSING_MODEL, 404),
        (b'{"success":false,"errors":["x"],"result":null,"messages":[]}', JSON, FailureClass.SERVER_ERROR, 500),
    ],
)
def test_an_error_with_status_200_is_the_error_it_stands_for(
    body: bytes, headers: Headers, kind: FailureClass, status: int
) -> None:
    verdict = judge(body, headers)[0]
    assert isinstance(verdict, Failure)
    assert (verdict.kind, verdict.status, verdict.body) == (kind, status, body)


@pytest.mark.parametrize(
    ("members", "usage"),
    [
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}, Usage(5, 2)),
        ({"usage": {"input_tokens": 5, "output_tokens": 2}}, Usage(5, 2)),
        ({"usage": {"prompt_tokens": 5, "total_tokens": 5}}, Usage(5, 0)),
        ({"usage": {"total_tokens": 15}}, Usage(15, 0)),
        ({"usage": {"input_tokens": 5}}, Usage(5, None)),
        ({"usage": {"input_tokens": 10**400}}, Usage(10**400, None)),
        ({"usage": {"type": "duration", "seconds": 3}}, None),
        ({"usage": {"total_tokens": True}}, None),
        ({"usage": None}, None),
        ({"usage": [1]}, None),
        ({"meta": {"billed_units": {"search_units": 1}}}, None),
        ({"meta": {"billed_units": {"input_tokens": 12.0}}}, Usage(12, 0)),
        ({"meta": {"billed_units": {}, "tokens": {"input_tokens": 8, "output_tokens": 3}}}, Usage(8, 3)),
        ({"meta": "odd"}, None),
        ({"usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8}}, Usage(8, 0)),
        ({"usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 3}}, Usage(8, 3)),
        ({"usageMetadata": {"promptTokenCount": 8, "thoughtsTokenCount": 5}}, Usage(8, 5, reasoning_tokens=5)),
        ({"usage": THINKING | {"total_tokens": 12}}, Usage(5, 7, reasoning_tokens=5)),
        ({"usage": THINKING | {"total_tokens": 13}}, Usage(5, 2, reasoning_tokens=5)),
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 12}}, Usage(5, 2)),
        ({"usageMetadata": {"totalTokenCount": 8}}, None),
        ({"usageMetadata": 8}, None),
    ],
)
def test_usage_is_read_where_its_form_is_known(members: dict[str, Any], usage: Usage | None) -> None:
    assert judge(json.dumps({"results": [], **members}).encode()) == (ACCEPTED, usage)


def test_the_first_byte_of_a_stream_decides() -> None:
    scanner = HTTP.scanner(STREAM, media("text/event-stream"))
    assert scanner.sign is not None  # or `feed` would not be called
    assert scanner.feed(b"\r\n ") is None
    assert scanner.feed(b"\x00") is ACCEPTED
    assert scanner.watch(b"") is False
    assert scanner.ending(True) == Ending(None, None)
    assert scanner.ending(False) == Ending(Failure(FailureClass.PROTOCOL, "the answer broke off"), None)


def test_the_reads_do_not_tell_whether_a_stream_is_a_page() -> None:
    page = b"\xef\xbb\xbf\r\n<!DOCTYPE html><html>"
    scanner = HTTP.scanner(STREAM, [])
    told = [scanner.feed(page[at : at + 1]) for at in range(19)]
    assert told == [None] * 18 + [Failure(FailureClass.PROTOCOL, "an HTML page")]
    scanner = HTTP.scanner(STREAM, [])
    assert [scanner.feed(b"<h"), scanner.feed(b"1>")] == [None, ACCEPTED]
    scanner = HTTP.scanner(STREAM, [])
    assert (scanner.feed(b"<"), scanner.eof(b"<")) == (None, ACCEPTED)


def test_a_form_that_starts_one_part_over_and_over_is_read_in_no_time() -> None:
    started = time.process_time()
    for line in (b"name=stream\r\n", b"name=stream\r\n\r\n", b"name=stream\n" + b"a" * 256 + b"\n"):
        assert HTTP.facts(TARGET, b"--b\r\n" + line * 20_000) == Facts(None, False)
    assert time.process_time() - started < 2, "a tenth of a second; a minute and more if each start reads on to the end"


def test_a_stream_that_is_none() -> None:
    assert HTTP.scanner(STREAM, []).eof(b"\n") == Failure(FailureClass.PROTOCOL, "the answer has no body")
    for headers, body in ((media("text/html"), b"Just"), ([], b"<!DOCTYPE html>")):
        assert HTTP.scanner(STREAM, headers).feed(body) == Failure(FailureClass.PROTOCOL, "an HTML page")


def test_errors_of_ours_look_like_openais_and_a_cut_is_shown_by_cutting() -> None:
    told = json.loads(HTTP.error_body(504, "Too late.", kind="timeout_error", code="timeout_total"))
    assert told == {"error": {"message": "Too late.", "type": "timeout_error", "param": None, "code": "timeout_total"}}
    assert HTTP.error_frame(Failure(FailureClass.PROTOCOL, "cut")) == b""


BODIES = st.binary(max_size=80) | st.from_regex(
    rb'[{\[]"(error|errors|usage|meta)":[\[\]{}0-9",a-zN:]*', fullmatch=True
)


@given(BODIES, st.sampled_from([JSON, [], media("audio/mpeg"), media("text/plain"), media("\xff")]))
def test_random_bodies_never_raise(body: bytes, headers: Headers) -> None:
    assert isinstance(judge(body, headers)[0], Failure) or judge(body, headers)[0] is ACCEPTED
    told = HTTP.facts(TARGET, body)
    assert HTTP.rewrite(body, told, "other") == body or told.model is not None
