"""routes.<name>.gates.*: who may win, what is held back, and what becomes of a rejected answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hedgerow.events import AnswerNotJudged, AnswerRejected
from tests.effects.support import QUICK, STREAM, WHOLE, Sent, asked, effect_of, every, play, settings, tell, token
from tests.engine.scripted import JSON, Answer

REQUIRE = "routes.<name>.gates.require"
AT_ONCE = {"routes.<name>.hedge.delay": "1s"}


def whole(text: str, after: float = 0.1, finish: str = "stop", **message: Any) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return Answer([(0.0, json.dumps({"choices": [choice]}).encode())], headers=JSON, head_after=after)


def text_in(body: bytes) -> Any:
    return json.loads(body)["choices"][0]["message"]["content"]


SCHEMA = {"type": "object", "required": ["name"]}
GATES: list[tuple[object, Answer, str]] = [
    ("finished", whole("cut", finish="length"), "whole"),
    ("non_empty", whole(" \n"), "something"),
    ({"min_chars": 5}, whole("four"), "fiver"),
    ({"min_tokens": 2}, whole("four"), "more than four"),
    ("json", whole("{"), "{}"),
    ({"json_schema": "schema.json"}, whole("{}"), '{"name": 1}'),
    ({"required_fields": ["name"]}, whole("{}"), '{"name": 1}'),
    ({"matches": "^yes"}, whole("no"), "yes"),
    ({"not_matches": "(?i)as an ai"}, whole("As an AI"), "yes"),
    ("no_refusal", whole("I can't help with that."), "I can"),
    ("no_refusal", whole("", refusal="No."), "I can"),
    ({"python": "tests.effects.own_gates:polite"}, whole("now"), "please"),
]


@effect_of(REQUIRE)
@pytest.mark.parametrize(("gate", "bad", "good"), GATES)
def test_a_fast_bad_answer_loses_to_a_slow_good_one(
    key: str, gate: object, bad: Answer, good: str, tmp_path: Path
) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    made = settings({key: [gate], **AT_ONCE}, folder=tmp_path)
    _, client = play(made, {"a": whole(good, 3.0), "b": bad}, WHOLE)
    assert text_in(client.text) == good
    assert client.answer_headers[b"x-hedgerow-target"] == b"a"
    _, client = play(settings(AT_ONCE), {"a": whole(good, 3.0), "b": bad}, WHOLE)
    assert client.answer_headers[b"x-hedgerow-target"] == b"b"


@effect_of(REQUIRE)
def test_a_rejected_answer_sends_the_next_target_off_at_once(key: str) -> None:
    made = settings({key: "json", "routes.<name>.hedge.delay": "off"})
    pools, client = play(made, {"a": whole("no"), "b": whole("{}")}, WHOLE)
    assert asked(pools) == [("a", 0.0), ("b", 0.1)]
    assert text_in(client.text) == "{}"


@effect_of(REQUIRE)
def test_only_as_many_as_the_budget_of_failovers_allows(key: str) -> None:
    budget = {"routes.<name>.failover.budget": "10%", "routes.<name>.failover.burst": 1}
    per_minute = {"routes.<name>.failover.per_minute": 0, "routes.<name>.hedge.delay": "off"}
    made = settings({key: "json", **budget, **per_minute})
    story = tell(made, {"a": whole("no"), "b": whole("{}")}, every(1.0, 20, like=Sent(body=WHOLE)))
    assert len(story.failed_over()) == 2  # one saved up, and a tenth of each before
    marked = [client.answer_headers.get(b"x-hedgerow-gate") for client in story.clients]
    assert marked.count(b"failed:json") == 18


@effect_of(REQUIRE)
def test_a_gate_of_ones_own_is_given_the_request_and_its_time(key: str) -> None:
    made = settings({key: [{"python": "tests.effects.own_gates:asked_for"}], **AT_ONCE})
    scripts = {"a": whole("no"), "b": whole("please")}
    assert text_in(play(made, scripts, b'{"model":"fast","user":"please","messages":[]}')[1].text) == "please"
    assert text_in(play(made, scripts, WHOLE)[1].text) == "no"


@effect_of(REQUIRE)
def test_a_gate_of_ones_own_that_is_late_has_not_judged(key: str) -> None:
    gate = {"python": {"call": "tests.effects.own_gates:polite", "timeout": "200ms"}}
    story = tell(settings({key: [gate, "json"], **AT_ONCE}), {"a": whole("{}", 0.25)}, [Sent(body=WHOLE)])
    assert (text_in(story.clients[0].text), story.clients[0].ended_at) == ("{}", 0.45)
    (event,) = story.of(AnswerNotJudged)
    assert event.why == "gate tests.effects.own_gates:polite did not judge: it took more than 0.2 s"


@effect_of(REQUIRE)
def test_an_answer_that_is_being_judged_is_not_hedged(key: str) -> None:
    made = settings({key: [{"python": "tests.effects.own_gates:polite"}], **AT_ONCE})
    pools, client = play(made, {"a": whole("please", 0.8)}, WHOLE)
    assert (asked(pools), client.ended_at) == ([("a", 0.0)], 1.3)


REFUSES = Answer([(0.1, token("I can't help")), (0.4, token(" with that")), (9.0, b"data: [DONE]\n\n")])
TOKENS = "routes.<name>.gates.prefix.tokens"


@effect_of(TOKENS)
def test_the_start_of_a_stream_is_held_back_and_judged(key: str) -> None:
    made = settings({REQUIRE: "no_refusal", key: 5, "routes.<name>.gates.prefix.time": "5s", **AT_ONCE})
    pools, client = play(made, {"a": REFUSES, "b": QUICK})
    assert asked(pools) == [("a", 0.0), ("b", 0.5)]
    assert client.answer_headers[b"x-hedgerow-target"] == b"b"
    assert client.text.count(b"hello") == 1
    assert b"can't" not in client.text


@effect_of(TOKENS)
def test_without_it_a_stream_is_delivered_at_once_and_reported_on(key: str) -> None:
    story = tell(settings({REQUIRE: "no_refusal", **AT_ONCE}), {"a": REFUSES}, [Sent(body=STREAM)])
    assert key == TOKENS
    assert story.clients[0].pieces[0] == (0.1, token("I can't help"))
    (event,) = story.of(AnswerRejected)
    assert (event.gate, event.delivered) == ("no_refusal", True)


@effect_of("routes.<name>.gates.prefix.time")
@pytest.mark.parametrize(("time", "at"), [("1s", 1.1), ("3s", 3.1)])
def test_a_stream_is_held_no_longer_than_that(key: str, time: str, at: float) -> None:
    slow = Answer([(0.1, token("Well")), (4.0, token(" then")), (0.0, b"data: [DONE]\n\n")])
    made = settings({REQUIRE: "no_refusal", TOKENS: 100, key: time, **AT_ONCE})
    pools, client = play(made, {"a": slow})
    assert client.pieces[0] == (at, token("Well"))
    assert asked(pools) == [("a", 0.0)]  # what shows tokens and is held is not late


@effect_of("routes.<name>.gates.wait")
@pytest.mark.parametrize(("wait", "at"), [("1s", 2.1), ("4s", 5.1)])
def test_a_rejected_answer_waits_no_longer_than_that(key: str, wait: str, at: float) -> None:
    made = settings({REQUIRE: "json", key: wait, **AT_ONCE})
    _, client = play(made, {"a": whole("{}", 30.0), "b": whole("no")}, WHOLE)
    assert client.ended_at == at
    assert client.answer_headers[b"x-hedgerow-gate"] == b"failed:json"


@effect_of("routes.<name>.gates.strict")
@pytest.mark.parametrize(("strict", "status"), [(False, 200), (True, 502)])
def test_a_strict_route_delivers_nothing_that_was_rejected(key: str, strict: bool, status: int) -> None:
    bad = whole("no")
    _, client = play(settings({REQUIRE: "json", key: strict}), {"a": bad, "b": bad, "c": bad}, WHOLE)
    assert client.status == status
    assert client.answer_headers[b"x-hedgerow-gate"] == b"failed:json"
    assert (json.loads(client.text).get("error") is not None) is strict


@effect_of("routes.<name>.gates.unhealthy")
@pytest.mark.parametrize(("unhealthy", "asked_of_a"), [(False, 20), (True, 10)])
def test_rejections_open_the_breaker_only_if_told_to(key: str, unhealthy: bool, asked_of_a: int) -> None:
    breaker = {"targets.<name>.breaker.minimum": 10, "targets.<name>.breaker.failures": 100}
    made = settings({REQUIRE: "json", key: unhealthy, **breaker})
    story = tell(made, {"a": whole("no"), "b": whole("{}")}, every(0.2, 20, like=Sent(body=WHOLE)))
    assert len(story.pools["a"].requests) == asked_of_a
