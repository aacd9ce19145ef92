"""Assertions about what became of a call, whose messages tell all its attempts."""

from __future__ import annotations

from typing import Any

import msgspec

_BY_DELAY_OR_TOGETHER = ("hedge", "racer")


class _Told(msgspec.Struct, frozen=True):
    """What a call came to: `winner` is None where every attempt failed, `reason` why a hedge that was due was not
    launched.
    """

    hedged: bool
    winner: str | None
    reason: str | None
    lines: list[str]


def assert_hedged(result: Any) -> None:
    """An attempt was launched by delay or together with the first, whoever won.

    Like all of these it takes a `Result` or `Completion`, an `EveryAttemptFailed`, and an HTTP response of the gateway
    or of a transport (an SDK's `with_raw_response` gives it), by its headers.
    """
    __tracebackhide__ = True
    told = _told(result)
    if not told.hedged:
        why = "no hedge was due" if told.reason is None else f"a hedge was due and not launched: {told.reason}"
        raise AssertionError(_message(f"not hedged ({why})", told))


def assert_not_hedged(result: Any, *, reason: str | None = None) -> None:
    """No attempt was launched by delay or together with the first. With `reason`, such as "budget": one was due, and
    not launched for that.
    """
    __tracebackhide__ = True
    told = _told(result)
    if told.hedged:
        raise AssertionError(_message("hedged", told))
    if reason is not None and told.reason != reason:
        why = "no hedge was due" if told.reason is None else f"the reason is {told.reason}"
        raise AssertionError(_message(f"{why}, not {reason}", told))


def assert_winner(result: Any, target: str) -> None:
    """The answer is from the target of this name."""
    __tracebackhide__ = True
    told = _told(result)
    if told.winner != target:
        won = "every attempt failed" if told.winner is None else f"{told.winner} won"
        raise AssertionError(_message(f"{won}, not {target}", told))


def _message(what: str, told: _Told) -> str:
    return "\n  ".join([what, *told.lines])


def _told(result: Any) -> _Told:
    fields = getattr(result, "headers", None)
    if fields is not None and "x-hedgerow-attempts" in fields:
        return _by_headers(fields)
    attempts = getattr(result, "attempts", None)
    if attempts is None or isinstance(attempts, int):
        raise TypeError(f"a {type(result).__name__} does not say what became of a call: give a Result, or a response")
    winner = getattr(result, "target", None) or getattr(result, "provider", None)
    reason = getattr(result, "reason", None)
    hedged = any(each.role in _BY_DELAY_OR_TOGETHER for each in attempts[1:])
    return _Told(hedged, winner, None if reason is None else str(reason), [_line(each) for each in attempts])


def _by_headers(fields: Any) -> _Told:
    winner, attempts = fields.get("x-hedgerow-target"), fields["x-hedgerow-attempts"]
    hedged = fields.get("x-hedgerow-hedged") == "true"
    return _Told(hedged, winner, fields.get("x-hedgerow-hedge-skipped"), [f"attempts: {attempts}, winner: {winner}"])


def _line(attempt: Any) -> str:
    what = "runs" if attempt.outcome is None else str(attempt.outcome)
    ended = "" if attempt.ended is None else f" at {attempt.ended:.3g} s"
    why = "" if attempt.failure is None else f" ({attempt.failure.message})"
    said = f"#{attempt.attempt} {attempt.target} as {attempt.role}, launched at {attempt.launched:.3g} s: "
    return f"{said}{what}{ended}{why}"
