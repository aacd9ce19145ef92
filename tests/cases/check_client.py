"""What the client got, against `expect.client`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.cases.case import ClientExpected, ErrorExpected, given
from tests.cases.seen import Run
from tests.cases.words import Difference, differs


def check_client(expected: ClientExpected, run: Run) -> Iterator[Difference]:
    """Everything that differs."""
    for key, value in given(expected).items():
        for difference in CLIENT_CHECKS[key](value, run):
            yield difference.within(key)


def _status(expected: int | None, run: Run) -> Iterator[Difference]:
    yield from differs(expected, run.got.status)


def _error(expected: ErrorExpected | None, run: Run) -> Iterator[Difference]:
    got, told = run.got, run.answer.error
    if expected is None:
        if told is not None:
            yield Difference("no error", told)
        elif not got.whole and not got.left:
            yield Difference("a whole answer", "one that breaks off")
    elif told is None:
        yield Difference(given(expected), "no error" if got.whole else "no error, and an answer that breaks off")
    else:
        for key, value in given(expected).items():
            yield from differs(value, getattr(told, key), key)


def _text_by_choice(expected: dict[str, str], run: Run) -> Iterator[Difference]:
    came = {choice: text for choice, text in run.answer.texts.items() if text}
    for choice in expected.keys() | came.keys():
        yield from differs(expected.get(choice), came.get(choice), choice)


def _text_one_of(expected: list[str], run: Run) -> Iterator[Difference]:
    if run.answer.text not in expected:
        yield Difference(expected, run.answer.text)


def _must_contain(texts: list[str], run: Run) -> Iterator[Difference]:
    for text in texts:
        if text not in run.got.text:
            yield Difference(text, run.got.text[-300:])


def _must_not_contain(texts: list[str], run: Run) -> Iterator[Difference]:
    for text in texts:
        if text in run.got.text:
            yield Difference(f"no {text!r}", run.got.text[-300:])


def _order(texts: list[str], run: Run) -> Iterator[Difference]:
    at = 0
    for text in texts:
        found = run.got.text.find(text, at)
        if found < 0:
            yield Difference(texts, f"no {text!r} after {run.got.text[:at][-60:]!r}")
            return
        at = found + len(text)


def _count(counts: dict[str, int], run: Run) -> Iterator[Difference]:
    for text, count in counts.items():
        yield from differs(count, run.got.text.count(text), text)


def _content_type(expected: str, run: Run) -> Iterator[Difference]:
    came = run.got.headers.get("content-type", "none")
    if expected != came and expected != came.partition(";")[0].strip():
        yield Difference(expected, came)


def _header_equals(expected: dict[str, str], run: Run) -> Iterator[Difference]:
    for name, value in expected.items():
        yield from differs(value, run.got.headers.get(name.lower()), name)


def _header_contains(expected: dict[str, str], run: Run) -> Iterator[Difference]:
    for name, value in expected.items():
        if value not in (came := run.got.headers.get(name.lower(), "")):
            yield Difference(value, came, name)


def _headers_absent(names: list[str], run: Run) -> Iterator[Difference]:
    for name in names:
        if name.lower() in run.got.headers:
            yield Difference("no such header", run.got.headers[name.lower()], name)


def _done_by_ms(limit: float, run: Run) -> Iterator[Difference]:
    if (came := run.ms(run.got.done_at)) > limit:
        yield Difference(limit, f"{came:.0f} ms")


def _terminator(expected: str, run: Run) -> Iterator[Difference]:
    if expected != "any" and run.answer.ended != (expected == "required"):
        yield Difference(expected, "the end marker came" if run.answer.ended else "no end marker")


CLIENT_CHECKS: Mapping[str, Callable[[Any, Run], Iterator[Difference]]] = {
    "status": _status,
    "text": lambda expected, run: differs(expected, run.answer.text),
    "text_by_choice": _text_by_choice,
    "text_one_of": _text_one_of,
    "text_length": lambda expected, run: differs(expected, len(run.answer.text)),
    "finish": lambda expected, run: differs(expected, run.answer.finish),
    "error": _error,
    "must_contain": _must_contain,
    "must_not_contain": _must_not_contain,
    "order": _order,
    "count": _count,
    "content_type": _content_type,
    "header_equals": _header_equals,
    "header_contains": _header_contains,
    "headers_absent": _headers_absent,
    "done_by_ms": _done_by_ms,
    "terminator": _terminator,
}
