"""Gates in virtual time: who may win, who waits, and what is delivered when nobody is good enough."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from math import inf
from time import process_time
from typing import Any

import pytest

from hedgerow.answer import Answer as Seen
from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AttemptEnded,
    Failure,
    FailureClass,
    Outcome,
    RequestFinished,
)
from hedgerow.gatekeeper import AnyGate, OnLoop
from hedgerow.policy.gates.gate import Gate, as_gate
from hedgerow.policy.gates.settings import GateSettings, Prefix
from hedgerow.policy.health import Health
from hedgerow.policy.plan import Candidate
from hedgerow.policy.settings import Policy
from tests.engine.scripted import JSON, Answer, RecordingExchange, Scripts, World, play

WHOLE = b'{"model":"fast","messages":[]}'
STREAM = b'{"model":"fast","stream":true,"messages":[]}'


def document(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice]}).encode()


def whole(text: str, after: float) -> Answer:
    return Answer([(0.0, document(text))], headers=JSON, head_after=after)


def delta(text: str) -> bytes:
    return b'data: {"id":"x","choices":[{"index":0,"delta":{"content":%b}}]}\n\n' % json.dumps(text).encode()


STOP = b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def has(word: str) -> Gate:
    return as_gate(lambda seen: word in seen.text or f"no {word}", name=f"has_{word}")


def settled(text: str) -> Gate:
    """A gate that says no to the starts of streams as well."""
    return as_gate(lambda seen: text not in seen.text, name="settled")


def ask(
    scripts: Scripts, gates: Sequence[AnyGate], body: bytes = WHOLE, *, delay: float = 1.0, **settings: Any
) -> tuple[RecordingExchange, World]:
    clients: list[RecordingExchange] = []

    async def story(world: World) -> None:
        clients.append(world.request(body))

    policy = Policy(delay=delay, first_token=50.0, stall=10.0, total=60.0, gates=GateSettings(**settings))
    world = play(scripts, story, policy=policy, gates=gates)
    return clients[0], world


def text_of(client: RecordingExchange) -> str:
    return str(json.loads(client.text)["choices"][0]["message"]["content"])


def outcomes(world: World) -> list[Outcome]:
    return [event.outcome for event in sorted(world.of(AttemptEnded), key=lambda event: event.attempt)]


def test_a_good_answer_wins_at_once() -> None:
    client, world = ask({"a": whole("good", 0.5), "b": whole("good", 0.5)}, [has("good")])
    assert (text_of(client), client.ended_at) == ("good", 0.5)
    assert b"x-hedgerow-gate" not in client.answer_headers
    assert world.of(AnswerRejected) == []


def test_a_fast_bad_answer_loses_to_a_slow_good_one() -> None:
    client, world = ask({"a": whole("good", 4.0), "b": whole("bad", 0.5)}, [has("good")])
    assert (text_of(client), client.ended_at) == ("good", 4.0)
    assert client.answer_headers[b"x-hedgerow-target"] == b"a"
    assert b"x-hedgerow-gate" not in client.answer_headers
    assert outcomes(world) == [Outcome.WON, Outcome.REJECTED]
    request_id = world.of(AttemptEnded)[0].request_id
    rejected = AnswerRejected(request_id, "fast", 1, "b", "has_good", "no good", 1.5, delivered=False)
    assert world.of(AnswerRejected) == [rejected]
    assert [event.gate for event in world.of(RequestFinished)] == [None]


def test_a_rejected_answer_with_no_rival_sends_the_next_target_off_at_once() -> None:
    client, world = ask({"a": whole("bad", 0.5), "b": whole("good", 0.5)}, [has("good")], delay=5.0)
    assert (text_of(client), client.ended_at) == ("good", 1.0)
    assert outcomes(world) == [Outcome.REJECTED, Outcome.WON]


def test_when_all_are_rejected_the_best_is_delivered_and_marked() -> None:
    gates = [has("x"), has("y")]
    client, world = ask({"a": whole("x", 2.0), "b": whole("neither", 0.5)}, gates)
    assert (text_of(client), client.ended_at) == ("x", 2.0)
    assert client.status == 200
    assert client.answer_headers[b"x-hedgerow-gate"] == b"failed:has_y"
    assert outcomes(world) == [Outcome.WON, Outcome.REJECTED]
    assert [event.gate for event in world.of(RequestFinished)] == ["has_y"]


def test_a_strict_route_answers_with_an_error_instead() -> None:
    client, world = ask({"a": whole("bad", 0.5), "b": whole("bad", 0.5)}, [has("good")], strict=True)
    assert client.status == 502
    error = json.loads(client.text)["error"]
    assert error["code"] == "gate"
    assert "gate has_good: no good" in error["message"]
    assert "bad" not in error["message"]
    assert outcomes(world) == [Outcome.REJECTED, Outcome.REJECTED]


def test_a_rejected_answer_waits_no_longer_than_its_time() -> None:
    client, world = ask({"a": whole("good", 20.0), "b": whole("bad", 0.5)}, [has("good")], wait=3.0)
    assert (text_of(client), client.ended_at) == ("bad", 4.5)
    assert client.answer_headers[b"x-hedgerow-gate"] == b"failed:has_good"
    assert world.pools["a"].cancelled_at == [4.5]


def test_a_gate_that_raises_has_not_judged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_seen: Seen) -> bool:
        raise RuntimeError("secret words of the answer")

    client, _ = ask({"a": whole("anything", 0.5), "b": whole("", 0.5)}, [as_gate(broken)])
    assert text_of(client) == "anything"
    assert "gate broken did not judge: RuntimeError" in caplog.text
    assert "secret words" not in caplog.text


def test_all_failing_but_one_rejected_delivers_that() -> None:
    failing = Answer([(0.0, b"{}")], status=500, headers=JSON, head_after=0.5)
    client, _ = ask({"a": whole("bad", 0.2), "b": failing}, [has("good")])
    assert (client.status, text_of(client), client.ended_at) == (200, "bad", 0.7)


def test_a_client_that_leaves_while_an_answer_waits_leaves_nothing_behind() -> None:
    async def story(world: World) -> None:
        client = world.request(WHOLE)
        await asyncio.sleep(2.0)
        client.leave()

    scripts = {"a": whole("good", 20.0), "b": whole("bad", 0.5)}
    policy = Policy(delay=1.0, total=60.0, gates=GateSettings())
    world = play(scripts, story, policy=policy, gates=[has("good")])
    assert outcomes(world) == [Outcome.CLIENT_GONE, Outcome.CLIENT_GONE]


@pytest.mark.parametrize("unhealthy", [False, True])
def test_a_rejection_counts_against_its_target_only_if_told_to(unhealthy: bool) -> None:
    told: list[Failure] = []

    class Watching(Health):
        def failed(self, _candidate: Candidate, failure: Failure, *_: object, **__: object) -> None:  # type: ignore[override]
            told.append(failure)

    async def story(world: World) -> None:
        world.hedger.health = Watching()
        world.request(WHOLE)

    policy = Policy(delay=inf, gates=GateSettings(unhealthy=unhealthy))
    play({"a": whole("bad", 0.5)}, story, policy=policy, gates=[has("good")])
    assert [failure.kind for failure in told] == [FailureClass.GATE] * unhealthy


def slowly(said: str | None, seconds: float) -> OnLoop:
    """A gate of one's own that takes its time."""

    async def check(_seen: Seen, _request: bytes) -> str | None:
        await asyncio.sleep(seconds)
        return said

    return OnLoop("slowly", check, 5.0)


def test_an_answer_that_is_being_judged_is_not_hedged_nor_late() -> None:
    client, world = ask({"a": whole("good", 0.5), "b": whole("good", 0.1)}, [slowly(None, 3.0)])
    assert (text_of(client), client.ended_at) == ("good", 3.5)
    assert len(world.of(AttemptEnded)) == 1


def test_an_answer_that_is_rejected_after_a_while_sends_the_next_off_then() -> None:
    client, _ = ask({"a": whole("bad", 0.5), "b": whole("bad", 0.1)}, [slowly("no", 3.0)])
    assert (client.ended_at, client.answer_headers[b"x-hedgerow-gate"]) == (6.6, b"failed:slowly")
    assert client.answer_headers[b"x-hedgerow-target"] == b"a"  # of equals the first


def test_one_that_is_judged_loses_to_one_that_passes_sooner() -> None:
    first = [slowly(None, 3.0)]
    client, world = ask({"a": whole("good", 2.5), "b": whole("good", 0.5)}, first)  # b is here at 1.5
    assert (client.answer_headers[b"x-hedgerow-target"], client.ended_at) == (b"b", 4.5)
    assert outcomes(world) == [Outcome.SUPERSEDED, Outcome.WON]


def test_a_gate_that_is_late_has_not_judged() -> None:
    client, world = ask({"a": whole("bad", 0.5)}, [slowly("no", 9.0), has("bad")])
    assert (text_of(client), client.ended_at) == ("bad", 5.5)
    (event,) = world.of(AnswerNotJudged)
    assert (event.why, event.target) == ("gate slowly did not judge: it took more than 5 s", "a")


def test_a_client_that_leaves_while_its_answer_is_judged_leaves_nothing_behind() -> None:
    async def story(world: World) -> None:
        client = world.request(WHOLE)
        await asyncio.sleep(1.0)
        client.leave()
        await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("gate")] == []

    policy = Policy(delay=9.0, total=60.0, gates=GateSettings())
    world = play({"a": whole("good", 0.5)}, story, policy=policy, gates=[slowly(None, 3.0)])
    assert outcomes(world) == [Outcome.CLIENT_GONE]


def test_the_limit_of_all_time_holds_for_an_answer_that_is_judged() -> None:
    policy = Policy(delay=9.0, total=2.0, gates=GateSettings())
    clients: list[RecordingExchange] = []

    async def story(world: World) -> None:
        clients.append(world.request(WHOLE))

    play({"a": whole("good", 0.5)}, story, policy=policy, gates=[slowly(None, 3.0)])
    assert (clients[0].status, clients[0].ended_at) == (504, 2.0)


def test_what_is_only_handed_through_is_not_judged() -> None:
    async def story(world: World) -> None:
        client = world.request(b"", target=b"/v1/files/1/content", method=b"GET")
        await asyncio.sleep(5)
        assert client.outcome == "whole"

    body = Answer([(0.1, b"a file's content")], headers=[(b"content-type", b"text/plain")])
    gated = Policy(delay=9.0, gates=GateSettings())
    assert play({"a": body}, story, policy=gated, gates=[has("good")]).of(AnswerRejected) == []


class TestPrefix:
    """Streams whose start is held back and judged."""

    def stream(self, *pieces: tuple[float, str], end: str = "close") -> Answer:
        chunks = [(pause, delta(text)) for pause, text in pieces]
        return Answer([*chunks, (0.5, STOP)] if end == "close" else chunks, end=end)

    def test_nothing_reaches_the_client_before_enough_is_there(self) -> None:
        one = self.stream((1.0, "good"), (0.5, "and more"), (0.5, "!"))
        client, _ = ask({"a": one}, [has("good")], STREAM, prefix=Prefix(3))
        assert [at for at, _ in client.pieces] == [1.5, 2.0, 2.5]
        assert client.text == delta("good") + delta("and more") + delta("!") + STOP
        assert client.outcome == "whole"

    def test_time_is_enough_too(self) -> None:
        one = self.stream((1.0, "good"), (5.0, "and more"))
        client, _ = ask({"a": one}, [has("good")], STREAM, prefix=Prefix(100, 0.5))
        assert client.pieces[0] == (1.5, delta("good"))

    def test_a_stream_that_ends_first_is_judged_whole(self) -> None:
        one = self.stream((1.0, "good"))
        client, _ = ask({"a": one}, [has("good")], STREAM, prefix=Prefix(100))
        assert client.pieces == [(1.5, delta("good") + STOP)]
        assert client.outcome == "whole"

    def test_a_rejected_start_loses_to_a_good_stream(self) -> None:
        bad = self.stream((0.5, "I cannot help with that"), (3.0, "..."))
        good = self.stream((1.0, "good and plenty"), (0.5, "..."))
        client, world = ask({"a": bad, "b": good}, [has("good")], STREAM, prefix=Prefix(3))
        assert client.text == delta("good and plenty") + delta("...") + STOP
        assert outcomes(world) == [Outcome.REJECTED, Outcome.WON]
        assert world.pools["a"].paused == 1
        assert world.pools["a"].cancelled_at == [1.5]

    def test_the_best_rejected_stream_is_delivered_whole_and_reads_on(self) -> None:
        bad = self.stream((0.5, "I cannot help with that"), (3.0, "..."))
        failing = Answer([(0.0, b"{}")], status=500, headers=JSON, head_after=0.5)
        client, world = ask({"a": bad, "b": failing}, [has("good")], STREAM, prefix=Prefix(3))
        assert client.text == delta("I cannot help with that") + delta("...") + STOP
        assert client.outcome == "whole"
        assert client.answer_headers[b"x-hedgerow-gate"] == b"failed:has_good"
        assert world.pools["a"].paused == 0

    def test_a_stream_cut_while_it_is_held_is_a_failure_and_the_next_is_asked(self) -> None:
        cut = self.stream((0.5, "go"), end="reset")
        good = self.stream((0.5, "good and plenty"))
        client, world = ask({"a": cut, "b": good}, [has("good")], STREAM, prefix=Prefix(3))
        assert client.text == delta("good and plenty") + STOP
        assert outcomes(world) == [Outcome.FAILED, Outcome.WON]

    def test_a_stream_that_is_held_is_not_hedged_however_long(self) -> None:
        thinking = self.stream((0.5, "go"), (3.0, "od"), (3.0, " and plenty"))
        client, world = ask({"a": thinking, "b": thinking}, [has("good")], STREAM, prefix=Prefix(3))
        assert client.pieces[0] == (6.5, delta("go") + delta("od") + delta(" and plenty"))
        assert outcomes(world) == [Outcome.WON]

    def test_a_stream_that_stalls_while_it_is_held_is_judged_when_its_time_is_over(self) -> None:
        stalls = self.stream((0.5, "go"), end="hang")
        good = self.stream((0.5, "good and plenty"))
        client, _ = ask({"a": stalls, "b": good}, [settled("go")], STREAM, prefix=Prefix(3, 2.0))
        assert client.answer_headers[b"x-hedgerow-gate"] == b"failed:settled"  # b was no better
        assert client.pieces[0][0] == 3.0

    def test_the_work_is_linear_in_the_pieces_while_they_are_held(self) -> None:
        reasoning = b'data: {"id":"x","choices":[{"index":0,"delta":{"reasoning_content":"hmm"}}]}\n\n'
        long = Answer([(0.0, reasoning)] * 5_000 + [(0.0, delta("good and plenty")), (0.0, STOP)])
        began = process_time()
        client, _ = ask({"a": long}, [has("good")], STREAM, prefix=Prefix(3))
        assert client.outcome == "whole"
        assert process_time() - began < 5  # reading all of it anew with every piece took a minute

    def test_without_a_prefix_a_stream_is_delivered_and_only_reported(self) -> None:
        bad = self.stream((0.5, "I cannot help with that"))
        client, world = ask({"a": bad, "b": bad}, [has("good")], STREAM)
        assert client.pieces[0][0] == 0.5
        assert client.outcome == "whole"
        (event,) = world.of(AnswerRejected)
        assert (event.gate, event.delivered, event.at) == ("has_good", True, 1.0)
