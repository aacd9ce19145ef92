"""The lines of the log: for people, for machines, and without secrets."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from typing import Any

import pytest

from hedgerow.config import loads
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.logs import secrets_in
from hedgerow.telemetry.log_lines import Console, Json, Redactor, Writer

KEY = "a-key-that-nobody-must-see"


def record(message: str, *args: object, name: str = "hedgerow.gateway", error: bool = False, **about: Any) -> Any:
    """A record as the gateway makes them."""
    info = None
    if error:
        try:
            raise ValueError(f"no good: {KEY}")
        except ValueError as caught:
            info = (ValueError, caught, caught.__traceback__)
    made = logging.LogRecord(name, logging.WARNING, "file.py", 1, message, args, info)
    vars(made).update(about)
    return made


def redactor() -> Redactor:
    known = Redactor()
    known.knows([KEY])
    return known


def test_a_line_for_machines_has_what_it_is_about_in_fields() -> None:
    about: dict[str, Any] = {"request_id": "r-1", "status": 500, "usage": None}
    made = record("request %s: target %s failed", "r-1", "a", **about)
    made.created = 1_800_000_000.1239
    assert json.loads(Json(redactor()).format(made)) == {
        "time": "2027-01-15T08:00:00.123Z",
        "level": "warning",
        "logger": "hedgerow.gateway",
        "message": "request r-1: target a failed",
        "request_id": "r-1",
        "status": 500,
    }


def test_a_line_for_machines_is_one_line_whatever_is_in_it() -> None:
    line = Json(redactor()).format(record("two\nlines %s", '"', error=True, route="a\u2028b", odd=object()))
    assert len(line.splitlines()) <= 2  # U+2028 is no end of a line in JSON
    assert "\n" not in line
    said = json.loads(line)
    assert said["message"] == 'two\nlines "'
    assert said["exception"].startswith("Traceback")
    assert said["exception"].endswith("ValueError: no good: [redacted]")
    assert said["odd"].startswith("<object")


def test_a_line_for_people_ends_where_it_should() -> None:
    line = Console(redactor()).format(record("model %s", "a\n2026-12-01 ERROR forged\x1b[2J", error=True))
    first, *traceback = line.splitlines()
    assert first.endswith(r"WARNING hedgerow.gateway model a\n2026-12-01 ERROR forged\x1b[2J")
    assert traceback[0].startswith("Traceback")
    assert traceback[-1] == "ValueError: no good: [redacted]"


def test_an_access_line_for_people_has_its_fields_in_pairs() -> None:
    about: dict[str, Any] = {
        "method": "POST",
        "path": "/v1/x",
        "status": 200,
        "model": 'a "b" c=1',
        "hedged": False,
        "total_ms": 1.5,
    }
    line = Console(redactor()).format(record("POST /v1/x 200", name="hedgerow.access", **about))
    assert line.endswith(r'hedgerow.access POST /v1/x 200 model="a \"b\" c=1" hedged=false total_ms=1.5')


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"x {KEY}y", "x [redacted]y"),
        ("authorization: Bearer abc.def-123", "authorization: Bearer [redacted]"),
        ("redis://user:pa:ss@host/0", "redis://user:[redacted]@host/0"),
        ("http://:word@proxy:3128", "http://:[redacted]@proxy:3128"),
        ("key sk-proj-0123456789abcdefgh is bad", "key [redacted] is bad"),
        ("http://host:8080/v1 and a@b", "http://host:8080/v1 and a@b"),
        ("request hr-2cc68b249d-1: target task-based failed", "request hr-2cc68b249d-1: target task-based failed"),
    ],
)
def test_secrets_and_what_looks_like_one_are_taken_out(text: str, shown: str) -> None:
    assert redactor()(text) == shown


def test_words_and_dates_among_the_secrets_do_not_blank_the_log() -> None:
    short = Redactor()
    short.knows(["production", "2026-12-01", ""])
    assert short("2026-12-01 production") == "2026-12-01 production"


def test_every_secret_of_a_configuration_is_known_to_the_log() -> None:
    config = """
        targets:
          a: {base_url: "https://a.example/v1", api_keys: [SECRET-1, SECRET-2], headers: {x-team: SECRET-3},
              proxy: "http://me:SECRET%2D4@proxy:3128"}
        routes: {fast: {targets: [a, a], losers: keep, hedge: {mode: race}}}
        server:
          api_keys: [SECRET-5]
          admin: {token: SECRET-6-of-16-letters}
          redis: redis://:SECRET-7@host/0
          traces: {headers: {authorization: Bearer SECRET-8}}
    """
    found = " ".join(secrets_in(blueprint_of(loads(config, {}))))
    assert all(f"SECRET-{number}" in found for number in range(1, 9)), found


def test_lines_are_written_in_their_order_and_to_the_last_one() -> None:
    stream = io.StringIO()
    writer = Writer(stream, "json")
    for number in range(1000):
        writer.handle(record("%d", number))
    writer.close()
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == [str(n) for n in range(1000)]


def test_a_pipe_that_nobody_reads_holds_nobody_and_what_is_lost_is_said() -> None:
    reader, written = os.pipe()
    stream = os.fdopen(written, "w")
    writer = Writer(stream, "console", room=10)
    for _ in range(100):  # 1 MB: far more than a pipe holds
        writer.handle(record("x" * 10_000))
    said: list[bytes] = []
    with os.fdopen(reader, "rb") as pipe:
        reading = threading.Thread(target=lambda: said.append(pipe.read()))
        reading.start()
        writer.close()
        stream.close()
        reading.join()
    lines = said[0].splitlines()
    notices = [line for line in lines if line.endswith(b" lines were lost")]
    lost = sum(int(line.split()[-4]) for line in notices)
    assert len(lines) - len(notices) + lost == 100
    assert lost > 50
