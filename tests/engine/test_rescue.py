"""Answers that break off after commit, and what goes on with them: `on_stall`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from hedgerow.engine import Run
from hedgerow.events import (
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
    AttemptLaunched,
    FailureClass,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestBilled,
    RequestFinished,
    Role,
)
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.flight import Flight
from hedgerow.gateway.listening import Loudly
from hedgerow.gateway.rescue import Rescue
from hedgerow.wire.openai_chat import OpenAIChat
from tests.effects.support import Sent, Story, settings, tell
from tests.engine.scripted import JSON, REFUSED, Answer, RecordingExchange, Script
from tests.leftovers import leftovers
from tests.unit.test_wire_continuing import chat, message

CONTINUE = {"routes.<name>.on_stall": "continue", "routes.<name>.targets": ["a", "b"], "targets.b.continues": "prefix"}
RESTART = {
    "routes.<name>.on_stall": "restart",
    "routes.<name>.targets": ["a", "b"],
    "routes.<name>.nonstream_as_stream": True,
}
STREAM = b'{"model":"fast","stream":true,"messages":[{"role":"user","content":"hi"}]}'
WHOLE = STREAM.replace(b'"stream":true,', b"")
ASKED = Sent(0.0, STREAM)
COMMENT = b": continued by hedgerow with target b after 12 characters\n\n"


def begun(*pieces: str, end: str = "hang") -> Answer:
    """A stream that breaks off after these pieces, at a word's middle, and in the middle of an event."""
    whole = chat([*pieces, "never"])
    at = whole.index(b"never") + 2
    return Answer([(0.1, whole[: at // 2]), (0.1, whole[at // 2 : at])], end=end)


def rest(*pieces: str, after: float = 0.5) -> Answer:
    """A whole stream."""
    return Answer([(after, chat(pieces, "other"))])


BEGUN = begun("A hedge ", "is a")
REST = rest(" row of", " shrubs.")
HELD = {"routes.<name>.gates": {"require": ["no_refusal"], "prefix": {"tokens": 3, "time": "1s"}}}
STRICT = {"routes.<name>.gates": {**HELD["routes.<name>.gates"], "strict": True}}
LONG = {"routes.<name>.gates": {"require": ["no_refusal"], "prefix": {"tokens": 3, "time": "90s"}}}
BAD = rest("I cannot help with", " that, sorry.")
Scripts = Mapping[str, Script | Sequence[Script]]


def play(scripts: Scripts, changes: Mapping[str, object] = CONTINUE, sent: Sent = ASKED) -> Story:
    return tell(settings(changes), scripts, [sent])


def text_of(client: RecordingExchange) -> str:
    return OpenAIChat().answer_so_far(client.text).text


def outcomes(story: Story) -> list[tuple[str, Role, Outcome]]:
    return [(each.target, each.role, each.outcome) for each in story.of(AttemptEnded)]


class TestContinue:
    @pytest.mark.parametrize(("end", "at"), [("hang", 30.2), ("reset", 0.2), ("close", 0.2)])
    def test_a_stream_that_stalls_or_breaks_is_gone_on_with(self, end: str, at: float) -> None:
        story = play({"a": begun("A hedge ", "is a", end=end), "b": REST})
        (client,) = story.clients
        assert client.ended_at is not None
        assert client.outcome == "whole"
        assert text_of(client) == "A hedge is a row of shrubs."
        assert client.text.count(COMMENT) == 1
        assert client.text.endswith(b"data: [DONE]\n\n")
        assert client.ended_at == pytest.approx(at + 0.5)
        assert outcomes(story) == [
            ("a", Role.PRIMARY, Outcome.FAILED_AFTER_COMMIT),
            ("b", Role.FAILOVER, Outcome.WON),
        ]
        request_id = story.of(AttemptLaunched)[0].request_id
        assert story.of(AnswerRescued) == [AnswerRescued(request_id, "fast", 1, "b", 12, client.ended_at)]
        (finished,) = story.of(RequestFinished)
        assert (finished.outcome, finished.winner, finished.attempts, finished.status) == (Outcome.WON, 1, 2, 200)
        assert finished.first_token_at == pytest.approx(0.2)

    def test_the_backup_is_asked_to_go_on_from_what_the_client_has(self) -> None:
        story = play({"a": BEGUN, "b": REST})
        (_, _, body) = story.pools["b"].requests[0]
        asked = json.loads(body)
        assert asked["messages"] == [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "A hedge is a", "prefix": True},
        ]
        assert asked["stream"] is True

    def test_every_cut_gives_the_client_whole_events_and_one_answer(self) -> None:
        whole = chat(["Eine Hecke ", "säumt 🌿", " den Weg"])
        done = 0
        for cut in range(len(whole)):
            if b"Hecke" not in whole[: whole.rfind(b"\n\n", 0, cut) + 1]:
                continue  # before commit: a failure like any other
            first = Answer([(0.1, whole[:cut])], end="reset")
            story = play({"a": first, "b": rest("!", "?")})
            (client,) = story.clients
            if story.pools["b"].requests:
                done += 1
                asked = json.loads(story.pools["b"].requests[0][2])["messages"][-1]["content"]
                assert text_of(client) == asked + "!?"
                assert client.outcome == "whole"
            else:
                assert client.outcome == ("whole" if b"[DONE]" in whole[:cut] else "broken")
        assert done > 300

    def test_an_error_in_the_stream_is_not_shown_when_another_goes_on(self) -> None:
        report = b'data: {"error":{"message":"overloaded","type":"server_error","code":503}}\n\n'
        whole = chat(["A hedge ", "is a", "x"])
        at = whole.rindex(b"data: ", 0, whole.index(b'"x"'))
        story = play({"a": Answer([(0.1, whole[:at]), (0.1, report)]), "b": REST})
        (client,) = story.clients
        assert b"overloaded" not in client.text
        assert text_of(client) == "A hedge is a row of shrubs."

    def test_and_is_shown_as_it_came_when_nobody_does(self) -> None:
        report = b'data: {"error":{"message":"overloaded","type":"server_error","code":503}}\n\n'
        whole = chat(["A hedge ", "is a", "x"])
        at = whole.rindex(b"data: ", 0, whole.index(b'"x"'))
        story = play({"a": Answer([(0.1, whole[:at]), (0.1, report)]), "b": REFUSED})
        (client,) = story.clients
        assert client.text == whole[:at] + report
        assert client.outcome == "broken"

    @pytest.mark.parametrize(
        "scripts",
        [
            {"a": BEGUN, "b": REFUSED},
            {"a": BEGUN, "b": Answer([(0.0, b"{}")], status=400, headers=JSON)},
            {"a": BEGUN, "b": Answer(end="hang")},
            {"a": BEGUN, "b": begun(" row", end="reset")},
        ],
        ids=["refused", "bad request", "silent", "breaks too"],
    )
    def test_it_is_tried_once_and_then_the_answer_breaks_off(self, scripts: Scripts) -> None:
        story = play(scripts)
        (client,) = story.clients
        assert client.outcome == "broken"
        assert client.status == 200
        assert b'"error"' in client.text
        assert not client.text.endswith(b"[DONE]\n\n")
        assert [len(pool.requests) for name, pool in story.pools.items() if name in "ab"] == [1, 1]
        assert [each.outcome for each in story.of(RequestFinished)] == [Outcome.FAILED_AFTER_COMMIT]
        assert len(story.of(AttemptEnded)) == 2

    def test_a_backup_that_has_nothing_to_add_ends_the_answer(self) -> None:
        story = play({"a": BEGUN, "b": Answer([(0.1, chat([], "other"))])})
        (client,) = story.clients
        assert (text_of(client), client.outcome) == ("A hedge is a", "whole")

    def test_a_backup_that_answers_with_a_document_is_spliced_too(self) -> None:
        document = OpenAIChat().as_document(chat([" row", "."], "other"))
        story = play({"a": BEGUN, "b": Answer([(0.1, document)], headers=JSON)})
        (client,) = story.clients
        assert (text_of(client), client.outcome) == ("A hedge is a row.", "whole")

    def test_a_target_that_repeats_the_beginning_is_listened_to_from_there_on(self) -> None:
        echo = {**CONTINUE, "targets.b.continues": "prefix_echo"}
        story = play({"a": BEGUN, "b": rest("A hed", "ge is a ro", "w.")}, echo)
        assert text_of(story.clients[0]) == "A hedge is a row."
        story = play({"a": BEGUN, "b": rest("A garden", " is nice.")}, echo)
        assert text_of(story.clients[0]) == "A hedge is a"
        assert story.clients[0].outcome == "broken"

    def test_a_target_that_cannot_is_not_asked(self) -> None:
        story = play({"a": BEGUN, "b": REST}, {**CONTINUE, "targets.b.continues": "off"})
        assert story.pools["b"].requests == []
        assert story.clients[0].outcome == "broken"

    def test_the_target_that_broke_off_is_asked_again_only_if_it_is_listed_twice(self) -> None:
        twice = {"routes.<name>.on_stall": "continue", "targets.a.continues": "prefix"}
        for listed, expected in ((["a", "a"], 2), (["a"], 1), (["a", "b"], 1)):
            story = play({"a": [BEGUN, REST]}, {**twice, "routes.<name>.targets": listed})
            assert len(story.pools["a"].requests) == expected

    def test_a_target_that_was_not_asked_is_preferred_and_one_that_lost_may_be(self) -> None:
        all_can = {**CONTINUE, "targets.c.continues": "prefix", "routes.<name>.targets": ["a", "b", "c"]}
        late = {"a": Answer(end="hang"), "b": BEGUN, "c": REST}
        assert play(late, all_can).of(AnswerRescued)[0].target == "c"
        assert (
            play({**late, "a": [Answer(end="hang"), REST]}, {**CONTINUE, "targets.a.continues": "prefix"})
            .of(AnswerRescued)[0]
            .target
            == "a"
        )

    def test_another_key_of_the_target_that_broke_off_is_asked_after_other_targets(self) -> None:
        keys = {**CONTINUE, "targets.a.api_keys": ["k-1", "k-2"], "targets.a.continues": "prefix"}
        assert play({"a": BEGUN, "b": REST}, keys).of(AnswerRescued)[0].target == "b"
        alone = {**keys, "routes.<name>.targets": ["a"]}
        assert play({"a": [BEGUN, REST]}, alone).of(AnswerRescued)[0].target == "a"

    def test_it_is_paid_for_like_any_attempt_after_a_failure(self) -> None:
        poor = {**CONTINUE, "routes.<name>.failover": {"budget": "0.1%", "burst": 1, "per_minute": 0}}
        story = tell(settings(poor), {"a": BEGUN, "b": REST}, [Sent(at, STREAM) for at in (0.0, 100.0)])
        assert [client.outcome for client in story.clients] == ["whole", "broken"]
        assert [(each.reason, each.role) for each in story.of(HedgeSkipped)] == [(Reason.BUDGET, Role.FAILOVER)]

    @pytest.mark.parametrize("extra", [b'"n":2,', b'"response_format":{"type":"json_object"},', b'"logprobs":true,'])
    def test_what_cannot_be_continued_breaks_off(self, extra: bytes) -> None:
        story = play({"a": BEGUN, "b": REST}, sent=Sent(0.0, STREAM.replace(b"{", b"{" + extra, 1)))
        assert story.clients[0].outcome == "broken"
        assert story.pools["b"].requests == []

    def test_a_client_that_leaves_ends_the_rescue(self) -> None:
        story = play({"a": BEGUN, "b": Answer(end="hang")}, sent=Sent(0.0, STREAM, leaves_after=40.0))
        assert story.pools["b"].cancelled_at == [40.0]
        assert outcomes(story)[-1] == ("b", Role.FAILOVER, Outcome.CLIENT_GONE)

    def test_a_stream_that_nothing_happens_to_is_passed_on_as_it_came(self) -> None:
        whole = b": ping\r\n\r\n" + chat(["A hedge ", "is a"], end=b"\r\n") + b"\n"
        pieces = [(0.01, whole[at : at + 7]) for at in range(0, len(whole), 7)]
        story = play({"a": Answer(pieces)}, {**CONTINUE, "targets.a.stream_usage": False})
        assert story.clients[0].text == whole.rstrip() + b"\r\n\r\n"

    def test_a_usage_that_nobody_asked_for_is_not_shown_after_a_splice(self) -> None:
        story = play({"a": BEGUN, "b": REST})
        assert b'"usage"' not in story.clients[0].text

    def test_claude_goes_on_in_its_own_words(self) -> None:
        whole = message(["A hedge ", "is a", "never"])
        first = Answer([(0.1, whole[: whole.index(b"never")])], end="reset")
        claude: dict[str, Any] = {"protocol": "anthropic"}
        changes = {
            "routes.<name>.on_stall": "continue",
            "routes.<name>.targets": ["a", "b"],
            "targets.a.protocol": "anthropic",
            "targets.b": {"base_url": "http://b.example/v1", **claude, "continues": "last_message"},
        }
        body = b'{"model":"fast","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}'
        second = Answer([(0.1, message([" row", "."], "other"))])
        story = play({"a": first, "b": second}, changes, Sent(0.0, body, path=b"/v1/messages"))
        (client,) = story.clients
        assert client.outcome == "whole"
        assert client.text.count(b"event: message_start") == client.text.count(b"event: message_stop") == 1
        assert b'"text":" row"' in client.text
        asked = json.loads(story.pools["b"].requests[0][2])
        assert asked["messages"][-1] == {"role": "assistant", "content": "A hedge is a"}
        assert asked["max_tokens"] == 47

    @pytest.mark.parametrize("form", ["prefix", "prefix_echo", "continue_final_message"])
    def test_a_way_that_the_api_does_not_have_is_told_once(self, form: str, caplog: pytest.LogCaptureFixture) -> None:
        whole = message(["A hedge ", "is a", "never"])
        first = Answer([(0.1, whole[: whole.index(b"never")])], end="reset")
        changes = {
            "routes.<name>.on_stall": "continue",
            "routes.<name>.targets": ["a", "b"],
            "targets.a.protocol": "anthropic",
            "targets.b": {"base_url": "http://b.example/v1", "protocol": "anthropic", "continues": form},
        }
        body = b'{"model":"fast","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}'
        sent = [Sent(float(at), body, path=b"/v1/messages") for at in range(3)]
        story = tell(settings(changes), {"a": first, "b": first}, sent)
        assert [client.outcome for client in story.clients] == ["broken"] * 3
        assert story.pools["b"].requests == []
        why = f"targets.b.continues: {form} is not for anthropic.messages"
        skipped = story.of(HedgeSkipped)
        assert [(each.reason, each.role, each.detail) for each in skipped] == [(Reason.TARGETS, Role.FAILOVER, why)] * 3
        hear = Loudly()
        with caplog.at_level("WARNING", logger="hedgerow.gateway"):
            caplog.clear()
            for each in skipped:
                hear(each)
        assert [each.getMessage() for each in caplog.records] == [
            f"route fast: no answer is gone on with, now and in future: {why}"
        ]

    def test_the_log_says_in_words_who_goes_on(self, caplog: pytest.LogCaptureFixture) -> None:
        play({"a": BEGUN, "b": REST})
        play({"a": BEGUN, "b": REST}, RESTART, Sent(0.0, WHOLE))
        warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        told = [each.partition(": ")[2] for each in warnings if each.startswith("request ")]
        assert [each.partition(": ")[0] for each in told] == [
            "the answer of target a broke off",
            "target b goes on with the answer, of which its client has 12 characters",
            "the answer of target a broke off",
            "target b begins the answer anew",
        ]

    def test_without_it_nothing_is_different(self) -> None:
        story = play({"a": BEGUN, "b": REST}, {**CONTINUE, "routes.<name>.on_stall": "error"})
        (client,) = story.clients
        assert client.outcome == "broken"
        assert story.pools["b"].requests == []
        assert client.text.startswith(b"".join(data for _, data in BEGUN.chunks))


@pytest.mark.parametrize(
    ("changes", "sent", "backup"),
    [
        (CONTINUE, ASKED, REST),
        (CONTINUE, ASKED, REFUSED),
        (CONTINUE, ASKED, begun(" row")),
        (RESTART, Sent(0.0, WHOLE), REST),
        ({**RESTART, **HELD}, Sent(0.0, WHOLE), REST),
        ({**RESTART, **STRICT}, Sent(0.0, WHOLE), BAD),
    ],
    ids=["continued", "refused", "breaks too", "begun anew", "judged", "rejected"],
)
def test_a_rescued_request_leaves_no_cycle_for_the_collector(
    changes: Mapping[str, object], sent: Sent, backup: Script
) -> None:
    with leftovers() as left:
        story = play({"a": BEGUN, "b": backup}, changes, sent)
        assert len(story.of(AttemptEnded)) == 2
        assert left(Flight, Attempt, Run, Rescue) == Counter()


class TestGates:
    """What is begun anew is judged as any other answer; what goes on with one, with the whole of it."""

    def test_a_restarted_answer_that_is_rejected_is_none_where_gates_are_strict(self) -> None:
        story = play({"a": BEGUN, "b": BAD}, {**RESTART, **STRICT}, Sent(0.0, WHOLE))
        (client,) = story.clients
        assert client.status == 504
        assert b"cannot help" not in client.text
        assert json.loads(client.text)["error"]["code"] == FailureClass.TIMEOUT_STALL
        assert [(each.gate, each.delivered) for each in story.of(AnswerRejected)] == [("no_refusal", False)]
        assert story.of(AnswerRescued) == []
        assert outcomes(story)[-1] == ("b", Role.FAILOVER, Outcome.REJECTED)
        assert [each.outcome for each in story.of(RequestFinished)] == [Outcome.FAILED_AFTER_COMMIT]

    def test_and_is_marked_where_they_are_not(self) -> None:
        story = play({"a": BEGUN, "b": BAD}, {**RESTART, **HELD}, Sent(0.0, WHOLE))
        (client,) = story.clients
        assert client.status == 200
        assert client.answer_headers[b"x-hedgerow-gate"] == b"failed:no_refusal"
        assert b"cannot help with that" in client.text
        assert [each.outcome for each in story.of(RequestFinished)] == [Outcome.WON]

    def test_one_that_is_a_document_is_judged_too(self) -> None:
        document = OpenAIChat().as_document(chat(["I cannot help with that."], "other"))
        bad = Answer([(0.1, document)], headers=JSON)
        story = play({"a": BEGUN, "b": bad}, {**RESTART, **STRICT}, Sent(0.0, WHOLE))
        assert story.clients[0].status == 504

    @pytest.mark.parametrize("gates", [HELD, STRICT])
    def test_a_good_one_is_delivered(self, gates: Mapping[str, object]) -> None:
        story = play({"a": BEGUN, "b": rest("A ", "good ", "hedge.")}, {**RESTART, **gates}, Sent(0.0, WHOLE))
        (client,) = story.clients
        assert json.loads(client.text)["choices"][0]["message"]["content"] == "A good hedge."
        assert b"x-hedgerow-gate" not in client.answer_headers
        assert story.of(AnswerRejected) == []
        assert len(story.of(AnswerRescued)) == 1

    @pytest.mark.parametrize("end", ["reset", "close", "hang"])
    def test_one_that_breaks_off_while_it_is_held_is_none(self, end: str) -> None:
        story = play({"a": BEGUN, "b": begun("A good", end=end)}, {**RESTART, **LONG}, Sent(0.0, WHOLE))
        (client,) = story.clients
        assert client.status == 504
        assert len(story.of(AttemptEnded)) == 2

    def test_a_client_that_leaves_meanwhile_ends_it(self) -> None:
        sent = Sent(0.0, WHOLE, leaves_after=40.0)
        story = play({"a": BEGUN, "b": begun("A good")}, {**RESTART, **LONG}, sent)
        assert story.pools["b"].cancelled_at == [40.0]
        assert outcomes(story)[-1] == ("b", Role.FAILOVER, Outcome.CLIENT_GONE)

    def test_an_answer_that_is_gone_on_with_is_judged_whole(self) -> None:
        gates = {"routes.<name>.gates": {**HELD["routes.<name>.gates"], "require": ["no_refusal", {"min_chars": 99}]}}
        story = play({"a": BEGUN, "b": REST}, {**CONTINUE, **gates})
        assert text_of(story.clients[0]) == "A hedge is a row of shrubs."
        assert [(each.gate, each.delivered) for each in story.of(AnswerRejected)] == [("min_chars", True)]


class TestKeys:
    """Idempotency keys of those who go on with an answer."""

    KEYED: ClassVar = {**CONTINUE, "targets.b.idempotency_header": "Idempotency-Key", "routes.<name>.hedge.delay": "1s"}

    def keys(self, first: Script, second: Script) -> list[bytes]:
        """What target b was sent: for a request that breaks off, and for the same once more a minute later."""
        headers = [(b"idempotency-key", b"order-1")]
        sent = [Sent(at, STREAM, headers) for at in (0.0, 60.0)]
        story = tell(settings(self.KEYED), {"a": [first, second], "b": REST}, sent)
        heads = [head for _, head, _ in story.pools["b"].requests]
        return [line.partition(b": ")[2] for head in heads for line in head.lower().split(b"\r\n") if b"idemp" in line]

    def test_a_continuation_and_a_whole_request_never_share_one(self) -> None:
        continued, whole = self.keys(begun("A hedge ", "is a", end="reset"), Answer(end="hang"))
        assert continued != whole

    def test_nor_do_continuations_of_different_beginnings(self) -> None:
        one, other = self.keys(begun("A hedge ", "is a", end="reset"), begun("A hedge", end="reset"))
        assert one != other

    def test_the_same_one_has_the_same(self) -> None:
        one, other = self.keys(begun("A hedge ", end="reset"), begun("A hedge ", end="reset"))
        assert one == other


class TestRestart:
    def test_a_client_that_has_got_nothing_gets_another_answer_whole(self) -> None:
        story = play({"a": BEGUN, "b": rest("A ", "hedge.")}, RESTART, Sent(0.0, WHOLE))
        (client,) = story.clients
        assert client.status == 200
        assert json.loads(client.text)["choices"][0]["message"]["content"] == "A hedge."
        assert client.answer_headers[b"x-hedgerow-target"] == b"b"
        assert client.answer_headers[b"x-hedgerow-attempts"] == b"2"
        assert [each.chars for each in story.of(AnswerRescued)] == [0]
        assert json.loads(story.pools["b"].requests[0][2])["messages"] == [{"role": "user", "content": "hi"}]

    def test_where_that_fails_too_the_client_is_told_properly(self) -> None:
        story = play({"a": BEGUN, "b": REFUSED}, RESTART, Sent(0.0, WHOLE))
        (client,) = story.clients
        assert client.status == 504
        assert json.loads(client.text)["error"]["code"] == FailureClass.TIMEOUT_STALL

    def test_an_answer_that_is_too_long_is_not_begun_anew(self) -> None:
        small = {**RESTART, "server.limits.answer_bytes": "1KiB"}
        story = play({"a": rest(*["x" * 100] * 9), "b": REST}, small, Sent(0.0, WHOLE))
        assert story.clients[0].status == 502
        assert story.pools["b"].requests == []

    def test_a_stream_is_not_begun_anew(self) -> None:
        story = play({"a": BEGUN, "b": REST}, RESTART)
        assert story.clients[0].outcome == "broken"
        assert story.pools["b"].requests == []

    def test_continue_does_it_too(self) -> None:
        changes = {**RESTART, "routes.<name>.on_stall": "continue"}
        story = play({"a": BEGUN, "b": rest("A ", "hedge.")}, changes, Sent(0.0, WHOLE))
        assert b'"A hedge."' in story.clients[0].text


def test_what_goes_on_with_an_answer_may_cost_all_that_it_was_sent() -> None:
    """The answer so far is in its prompt, a token to a byte at the most."""
    prices = {f"targets.{name}.price": {"input": 10} for name in "ab"}
    story = play({"a": begun("x" * 2_000, end="reset"), "b": begun(" row", end="reset")}, {**CONTINUE, **prices})
    (billed,) = story.of(RequestBilled)
    (body,) = (request[2] for request in story.pools["b"].requests)
    first, second = story.of(AttemptEnded)
    assert (first.input_tokens, second.input_tokens) == (len(STREAM) >> 2, len(body) >> 2)
    assert len(body) > 2_000
    assert [bill.most for bill in billed.bills] == [(len(each) | 3) * 10_000 for each in (STREAM, body)]
