"""Corrupts what a case expects, one key at a time: the runner must notice each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tests.cases.case import Expected
from tests.cases.seen import StepSeen

Corrupted = tuple[str, Expected]
"""The path of the key, and the whole expectation with that key wrong."""


def corruptions(expected: Expected, step: StepSeen) -> Iterator[Corrupted]:
    """Every key that is there, made wrong in every way that belongs to it."""
    right: dict[str, Any] = msgspec.to_builtins(expected)
    for path, value in _leaves(right, ()):
        for wrong in _wrong(path, value, step):
            changed = copy.deepcopy(right)
            place = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = wrong
            yield ".".join(path), msgspec.convert(changed, Expected)


_WHOLE = {"contacted", "body_json_contains"}
"""Keys whose value is changed as a whole although it has parts."""


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and (not path or path[-1] not in _WHOLE):
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
        if path and path[-1] == "error":
            yield path, value
    else:
        yield path, value


def _wrong(path: tuple[str, ...], value: Any, step: StepSeen) -> Iterator[Any]:
    kind = next((key for key in reversed(path) if key in _WAYS), "")
    body = step.runs[-1].got.text
    if kind == "must_not_contain":
        if body:
            yield [*value, body[:8]]
    elif kind == "contacted_counts":
        yield 10**6 if path[-1].endswith("_min") else -1
    elif kind in _WAYS:
        yield from _WAYS[kind](value)
    else:
        raise AssertionError(f"nobody knows how to corrupt {'.'.join(path)}")


def _other(*words: Any) -> Callable[[Any], list[Any]]:
    return lambda value: [next(word for word in words if word != value)]


def _more(value: Any) -> list[Any]:
    return [value + 1]


def _window(value: list[float]) -> list[Any]:
    return [[value[1] + 9000, value[1] + 9999], [-9999, -9000]]


def _each_changed(texts: list[str]) -> list[Any]:
    return [[*texts[:at], text + "\0", *texts[at + 1 :]] for at, text in enumerate(texts)]


def _nothing(_value: Any) -> list[Any]:
    return []


_WAYS: Mapping[str, Callable[[Any], list[Any]]] = {
    "winner": lambda value: [] if value == "any" else _other("primary", "backup")(value),
    "contacted": lambda names: [[], [*names, "backup"], names[::-1]] if len(names) == 2 else [["backup"]],
    "contacted_counts": _nothing,  # depends on the bound
    "backup_start_ms": _window,
    "first_token_ms": _window,
    "outcomes": _other("won", "failed", "not_started"),
    "status": lambda value: [200 if value is None else value + 1],
    "text": lambda text: [text + "x"],
    "text_by_choice": lambda text: [text + "x"],
    "text_one_of": lambda texts: [[text + "x" for text in texts]],
    "text_length": _more,
    "finish": _other("stop", "length"),
    "error": lambda value: [{"in_stream": True}] if value is None else [None],
    "in_stream": lambda value: [not value],
    "code": _other("other"),
    "type": _other("other"),
    "must_contain": _each_changed,
    "must_not_contain": _nothing,  # depends on what came
    "order": lambda texts: [texts[::-1], *_each_changed(texts)],
    "count": _more,
    "content_type": _other("text/other"),
    "header_equals": lambda value: [value + "x"],
    "header_contains": lambda value: [value + "x"],
    "headers_absent": lambda names: [[*names, "Content-Type"]],
    "done_by_ms": lambda _: [0],
    "terminator": lambda value: [] if value == "any" else _other("required", "forbidden")(value),
    "upstream_closed_by_ms": lambda _: [0],
    "body_json_contains": lambda value: [{**value, "never": 1}, *({**value, key: "\0"} for key in value)],
    "body_bytes_contain": _each_changed,
    "body_sha256_equals": _nothing,  # a test of its own changes the body
    "open_upstream_sockets_max": lambda _: [-1],
    "log_must_not_contain": lambda texts: [[*texts, "request_finished"]],
    "error_class": _other("server_error", "connect"),
    "http_status": _more,
    "requests_seen": _more,
    "input": _more,
    "output": _more,
    "input_min": lambda _: [10**9],
    "output_min": lambda _: [10**9],
    "source": _other("reported", "partial"),
    "request_status": _other("ok", "error"),
    "hedge_skipped": _other("endpoint", "budget"),
    "hedge_won": lambda value: [not value],
    "breaker": lambda value: [word for word in ("ignored", "counts", "pinned") if word != value],
    "breaker_state": lambda value: [word for word in ("closed", "open", "half_open") if word != value],
    "cooldown_ms": _window,
    "cooldown_capped": lambda value: [not value],
    "latency_sample": lambda value: [not value],
    "failures": _more,
    "transparent_retries": _more,
    "hedges_denied_by_budget": _more,
    "hedges_denied_by_throttle": _more,
    "billed": lambda value: [word for word in ("yes", "no", "likely", "unknown") if word != value],
    "cost_is_lower_bound": lambda value: [not value],
}
