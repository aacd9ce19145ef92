"""Gates: what each says of an answer, and what comes of asking several."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.answer import Answer
from hedgerow.events import Failure, FailureClass
from hedgerow.policy.failures import Next, next_after
from hedgerow.policy.gates.gate import Gate, Rejection, Verdict, as_gate, judge

GOOD = as_gate(lambda answer: None, "good")


def no_a(answer: Answer) -> str | None:
    return "has an a" if "a" in answer.text else None


def broken(answer: Answer) -> bool:
    raise ValueError(answer.text)


def test_the_first_rejection_is_the_verdict_and_counts_the_gates_before_it() -> None:
    asked: list[str] = []
    last = as_gate(lambda answer: asked.append(answer.text), "last")
    gates = [GOOD, GOOD, as_gate(no_a), last]
    assert judge(gates, Answer("a")) == Verdict(Rejection("no_a", "has an a"), 2)
    assert asked == []
    assert judge(gates, Answer("b")) == Verdict(None, 4)
    assert asked == ["b"]
    assert judge([], Answer("")).good


def test_a_gate_that_raises_has_not_judged_and_what_it_said_is_not_repeated() -> None:
    verdict = judge([as_gate(broken), as_gate(no_a)], Answer("a secret"))
    assert verdict == Verdict(Rejection("no_a", "has an a"), 1, ("gate broken did not judge: ValueError",))
    assert judge([as_gate(broken)], Answer("x")).good


@pytest.mark.parametrize(
    ("said", "rejection"),
    [(None, None), (True, None), (False, Rejection("mine")), ("short", Rejection("mine", "short"))],
)
def test_a_plain_callable_as_a_gate(said: str | bool | None, rejection: Rejection | None) -> None:
    assert judge([as_gate(lambda answer: said, "mine")], Answer("x")).rejection == rejection


def test_a_callable_that_returns_something_else_has_not_judged() -> None:
    odd: Gate = as_gate(lambda answer: 1, "odd")  # type: ignore[arg-type,return-value]
    assert judge([odd], Answer("x")) == Verdict(None, 1, ("gate odd did not judge: TypeError",))


def test_a_gate_must_hold_for_every_choice() -> None:
    several = Answer("b", others=(Answer("b"), Answer("a")))
    assert judge([GOOD, as_gate(no_a)], several) == Verdict(Rejection("no_a", "has an a"), 1)
    assert judge([as_gate(no_a)], msgspec.structs.replace(several, others=(Answer("c"),))).good


def test_a_rejection_is_shown_as_gate_and_detail() -> None:
    assert (str(Rejection("json")), str(Rejection("json", "no"))) == ("json", "json: no")


def test_after_a_rejected_answer_any_target_may_be_asked_unless_it_would_take_effect_twice() -> None:
    rejected = Failure(FailureClass.GATE, "json")
    assert next_after(rejected, replayable=True) is Next.ANYWHERE
    assert next_after(rejected, replayable=False) is Next.NOWHERE
