"""One request through the gateway core in virtual time: scripted upstreams, exact times, exact bytes."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from hedgerow.engine import Run
from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    FailureClass,
    Headers,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestFinished,
    Role,
    TargetTakenOut,
    Usage,
)
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.core import Limits
from hedgerow.gateway.flight import Flight
from hedgerow.policy.settings import Policy
from tests.engine.scripted import JSON, REFUSED, SSE, Answer, RecordingExchange, Script, Scripts, World, play
from tests.leftovers import leftovers


def chunk(delta: str, finish: str = "null") -> bytes:
    return (
        b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n' % (delta.encode(), finish.encode())
    )


ROLE = chunk('{"role":"assistant","content":""}')
FINISH = chunk("{}", '"stop"')
DONE = b"data: [DONE]\n\n"


def token(text: str) -> bytes:
    return chunk(f'{{"content":"{text}"}}')


def stream(name: str, first_after: float = 0.5, gap: float = 0.1) -> Answer:
    """Role chunk at once, the first token after `first_after` seconds, then the rest."""
    return Answer([(0.0, ROLE), (first_after, token(f"{name}1")), (gap, token(f"{name}2")), (gap, FINISH + DONE)])


def body_of(answer: Answer) -> bytes:
    return b"".join(data for _, data in answer.chunks)


STALLED = Answer([(0.0, ROLE)], end="hang")
WHOLE = (
    b'{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,'
    b'"completion_tokens":2,"total_tokens":14}}'
)
PLAIN = b'{"model":"fast","messages":[]}'


def error(status: int, message: str, headers: Headers | None = None, after: float = 0.1) -> Answer:
    body = b'{"error":{"message":"%b","type":"x","param":null,"code":null}}' % message.encode()
    return Answer([(0.0, body)], status=status, headers=JSON + (headers or []), head_after=after)


def one(
    scripts: Scripts, *, policy: Policy | None = None, limits: Limits | None = None, **request: object
) -> tuple[World, RecordingExchange]:
    """Play one request."""
    seen: list[RecordingExchange] = []

    async def story(world: World) -> None:
        seen.append(world.request(**request))  # type: ignore[arg-type]  # the request's own keywords

    world = play(scripts, story, policy=policy, limits=limits)
    return world, seen[0]


class TestStreaming:
    def test_a_fast_primary_is_forwarded_byte_for_byte_and_alone(self) -> None:
        answer = stream("P")
        world, client = one({"a": answer, "b": stream("B")})
        assert client.status == 200
        assert client.text == body_of(answer)
        assert client.outcome == "whole"
        assert world.pools["b"].requests == []

    def test_nothing_reaches_the_client_before_the_first_token(self) -> None:
        _, client = one({"a": stream("P", first_after=1.5), "b": stream("B")})
        assert client.pieces[0] == (1.5, ROLE + token("P1"))
        assert client.pieces[1] == (1.6, token("P2"))

    def test_a_role_only_stall_is_beaten_at_delay_plus_backup_time(self) -> None:
        backup = stream("B", first_after=0.5)
        world, client = one({"a": STALLED, "b": backup})
        assert client.pieces[0][0] == 2.5
        assert client.text == body_of(backup)
        assert world.pools["a"].cancelled_at == [2.5]
        assert client.answer_headers[b"x-hedgerow-target"] == b"b"
        assert client.answer_headers[b"x-hedgerow-attempts"] == b"2"
        assert client.answer_headers[b"x-hedgerow-hedged"] == b"true"

    def test_each_attempt_is_sent_with_its_targets_model_and_key_and_nothing_else_changed(self) -> None:
        body = b'{ "messages": [ {"role":"user","content":"\\ud83d \xc3\xa9"} ], "model" : "fast", "stream":true}'
        world, _ = one(
            {"a": STALLED, "b": stream("B")},
            body=body,
            headers=[(b"x-custom", b"1"), (b"authorization", b"Bearer mine")],
        )
        for name in ("a", "b"):
            (_, head, sent) = world.pools[name].requests[0]
            assert sent == body.replace(b'"fast"', b'"model-%b"' % name.encode())
            assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nhost: %b\r\n" % name.encode())
            assert b"\r\nauthorization: Bearer key-%b\r\n" % name.encode() in head
            assert b"mine" not in head
            assert b"\r\nx-custom: 1\r\n" in head
            assert head.endswith(b"content-length: %d\r\n\r\n" % len(sent))

    def test_events_tell_the_whole_story(self) -> None:
        usage = b'data: {"id":"c1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
        backup = Answer([(0.0, ROLE), (0.5, token("B1")), (0.1, FINISH + usage + DONE)])
        world, _ = one({"a": STALLED, "b": backup})
        launched = [(e.target, e.role, e.at) for e in world.of(AttemptLaunched)]
        assert launched == [("a", Role.PRIMARY, 0.0), ("b", Role.HEDGE, 2.0)]
        ended = {e.target: e for e in world.of(AttemptEnded)}
        assert (ended["a"].outcome, ended["a"].ended_at, ended["a"].first_token_at) == (Outcome.SUPERSEDED, 2.5, None)
        assert (ended["b"].outcome, ended["b"].first_token_at, ended["b"].ended_at) == (Outcome.WON, 2.5, 2.6)
        assert ended["b"].usage == Usage(7, 2)
        (finished,) = world.of(RequestFinished)
        assert (finished.winner, finished.attempts, finished.first_token_at, finished.ended_at) == (1, 2, 2.5, 2.6)
        assert finished.outcome is Outcome.WON

    def test_the_answer_ends_at_done_although_the_upstream_lingers(self) -> None:
        lingering = Answer([(0.0, ROLE), (0.5, token("P1")), (0.1, DONE)], end="hang")
        world, client = one({"a": lingering, "b": stream("B")})
        assert (client.outcome, client.ended_at) == ("whole", 0.6)
        assert world.pools["a"].cancelled_at == [2.6]

    @pytest.mark.parametrize("cut", range(1, len(DONE)))
    @pytest.mark.parametrize("tokens", [1, 13])
    def test_the_end_is_seen_with_its_last_byte_however_it_is_cut(self, cut: int, tokens: int) -> None:
        pieces = [ROLE + token("P0"), *(token(f"P{i}") for i in range(1, tokens)), FINISH + DONE[:cut], DONE[cut:]]
        world, client = one({"a": Answer([(0.125, piece) for piece in pieces], end="hang"), "b": stream("B")})
        assert (client.outcome, client.ended_at) == ("whole", 0.125 * len(pieces))
        assert client.text == b"".join(pieces)
        (ended,) = world.of(AttemptEnded)
        assert (ended.outcome, ended.received_bytes) == (Outcome.WON, len(client.text))


class TestBrokenStreams:
    def test_a_clean_close_without_done_is_a_cut_and_looks_like_one(self) -> None:
        cut = Answer([(0.0, ROLE), (0.5, token("P1"))])
        world, client = one({"a": cut, "b": stream("B")})
        assert client.outcome == "broken"
        assert client.text.startswith(body_of(cut) + b'data: {"error":')
        assert b"[DONE]" not in client.text
        assert world.pools["b"].requests == []
        assert world.of(RequestFinished)[0].outcome is Outcome.FAILED_AFTER_COMMIT

    def test_a_cut_inside_an_event_still_leaves_a_readable_error_frame(self) -> None:
        cut = Answer([(0.0, ROLE), (0.5, token("P1")), (0.1, b'data: {"id":"c1","cho')], end="reset")
        _, client = one({"a": cut, "b": stream("B")})
        assert b'"cho\n\ndata: {"error":' in client.text

    def test_the_upstreams_own_error_frame_is_not_followed_by_ours(self) -> None:
        frame = b'data: {"error":{"message":"lost","type":"server_error","code":503}}\n\n'
        _, client = one({"a": Answer([(0.0, ROLE), (0.5, token("P1")), (0.1, frame)]), "b": stream("B")})
        assert client.text.endswith(frame)
        assert client.text.count(b'"error"') == 1
        assert client.outcome == "broken"

    def test_a_stall_after_commit_is_told_and_nothing_is_launched(self) -> None:
        world, client = one({"a": Answer([(0.0, token("P1"))], end="hang"), "b": stream("B")})
        assert client.ended_at == 10.0
        assert b"nothing came for 10 s" in client.text
        assert client.outcome == "broken"
        assert world.pools["a"].cancelled_at == [10.0]
        assert world.pools["b"].requests == []

    def test_a_stream_that_never_ends_is_cut_at_the_total_limit(self) -> None:
        endless = Answer([(0.0, token("P1"))] + [(1.0, token("x"))] * 500)
        _, client = one({"a": endless, "b": stream("B")}, policy=Policy(total=30.0, stall=10.0))
        assert (client.ended_at, client.outcome) == (30.0, "broken")


class TestFailuresBeforeCommit:
    def test_a_500_sends_the_request_to_the_backup_at_once(self) -> None:
        backup = stream("B")
        world, client = one({"a": error(500, "boom"), "b": backup})
        assert client.pieces[0][0] == 0.6
        assert client.text == body_of(backup)
        assert client.answer_headers[b"x-hedgerow-hedged"] == b"false"
        assert world.of(AttemptEnded)[0].failure.kind is FailureClass.SERVER_ERROR

    def test_an_error_whose_body_never_ends_counts_by_its_status_soon(self) -> None:
        endless = Answer([(0.0, b'{"error":')], status=503, headers=JSON, head_after=0.1, end="hang")
        good = Answer([(0.5, WHOLE)], headers=JSON)
        world, client = one({"a": endless, "b": good}, body=PLAIN, policy=Policy(total=120.0))
        assert (client.status, client.ended_at) == (200, 5.6)
        assert world.pools["a"].cancelled_at == [5.1]
        assert world.of(AttemptEnded)[0].failure.kind is FailureClass.SERVER_ERROR

    def test_the_wait_for_an_errors_body_ends_with_its_attempt(self) -> None:
        async def story(world: World) -> None:
            client = world.request(PLAIN)
            await asyncio.sleep(1.0)
            client.leave()
            world.gateway.close()  # the timer by which delays are learned
            handles = [handle for handle in world.loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]  # asyncio's own heap
            assert handles == []

        endless = Answer([(0.0, b'{"error":')], status=503, headers=JSON, head_after=0.1, end="hang")
        world = play({"a": endless}, story, policy=Policy())
        assert [e.outcome for e in world.of(AttemptEnded)] == [Outcome.CLIENT_GONE]

    def test_a_400_is_returned_as_the_upstream_said_it_and_nobody_else_is_asked(self) -> None:
        world, client = one({"a": error(400, "bad", [(b"x-request-id", b"r1")]), "b": stream("B")})
        assert (client.status, client.text) == (400, body_of(error(400, "bad")))
        assert client.answer_headers[b"x-request-id"] == b"r1"
        assert b"x-should-retry" not in client.answer_headers
        assert world.pools["b"].requests == []

    def test_an_error_frame_before_the_first_token_fails_over_unseen(self) -> None:
        frame = b'data: {"error":{"message":"overloaded","type":"server_error","code":503}}\n\n'
        backup = stream("B")
        _, client = one({"a": Answer([(0.0, ROLE), (0.3, frame)]), "b": backup})
        assert client.text == body_of(backup)
        assert client.pieces[0][0] == 0.8

    def test_an_error_never_beats_a_running_rival(self) -> None:
        primary = stream("P", first_after=5.0)
        _, client = one({"a": primary, "b": error(500, "boom")})
        assert client.text == body_of(primary)

    def test_when_all_fail_the_last_real_answer_is_told_and_sdks_are_told_not_to_retry(self) -> None:
        _, client = one({"a": REFUSED, "b": error(503, "down")})
        assert (client.status, client.text) == (503, body_of(error(503, "down")))
        assert client.answer_headers[b"x-should-retry"] == b"false"

    def test_two_rate_limits_tell_the_shorter_wait(self) -> None:
        scripts = {"a": error(429, "slow", [(b"retry-after", b"9")]), "b": error(429, "slow", [(b"retry-after", b"3")])}
        world, client = one(scripts)
        assert (client.status, client.answer_headers[b"retry-after"]) == (429, b"3")
        assert b"x-should-retry" not in client.answer_headers  # to wait and ask again is right here
        assert [(e.target, e.until - e.at) for e in world.of(TargetTakenOut)] == [("a", 9.0), ("b", 3.0)]

    def test_when_nobody_answers_the_error_is_ours_in_openai_shape(self) -> None:
        _, client = one({"a": REFUSED, "b": REFUSED})
        assert client.status == 502
        told = msgspec.json.decode(client.text)["error"]
        assert told["code"] == "connect"
        assert (
            told["message"] == "No usable answer from target 'b' (last of 2 attempts): 127.0.0.1:1: connection refused"
        )

    def test_first_token_timeouts_end_in_504(self) -> None:
        _, client = one({"a": STALLED, "b": STALLED}, policy=Policy(delay=0.3, first_token=0.7))
        assert (client.status, client.ended_at) == (504, 1.0)

    def test_a_stream_that_closes_before_a_token_fails_over(self) -> None:
        backup = stream("B")
        _, client = one({"a": Answer([(0.0, ROLE)]), "b": backup})
        assert client.text == body_of(backup)

    def test_an_empty_answer_is_delivered_when_everybody_is_empty(self) -> None:
        empty = Answer([(0.0, ROLE), (0.1, FINISH + DONE)])
        world, client = one({"a": empty, "b": empty})
        assert (client.status, client.text) == (200, body_of(empty))
        assert len(world.of(AttemptLaunched)) == 2

    def test_too_many_bytes_before_a_first_token_fail_the_attempt(self) -> None:
        flood = Answer([(0.1, b": " + b"x" * 600 + b"\n\n")] * 3, end="hang")
        backup = stream("B")
        world, client = one({"a": flood, "b": backup}, limits=Limits(held_bytes=1000))
        assert client.text == body_of(backup)
        assert world.pools["a"].cancelled_at == [0.2]

    def test_a_target_that_is_out_is_not_asked_until_its_time_has_come(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            for pause in (0.0, 5.0, 5.0):
                await asyncio.sleep(pause)
                clients.append(world.request())

        scripts: Scripts = {"a": [error(429, "slow", [(b"retry-after", b"7")]), stream("P")], "b": stream("B")}
        world = play(scripts, story)
        assert [at for at, _, _ in world.pools["a"].requests] == [0.0, 10.0]
        assert [at for at, _, _ in world.pools["b"].requests] == [0.1, 5.0]


class TestWholeAnswers:
    def test_a_whole_answer_is_delivered_unchanged(self) -> None:
        answer = Answer([(1.0, WHOLE)], headers=[*JSON, (b"x-request-id", b"r1"), (b"connection", b"keep-alive")])
        world, client = one({"a": answer, "b": answer}, body=PLAIN)
        assert (client.status, client.text, client.ended_at) == (200, WHOLE, 1.0)
        assert client.answer_headers[b"x-request-id"] == b"r1"
        assert b"connection" not in client.answer_headers
        assert world.of(AttemptEnded)[0].usage == Usage(12, 2)

    def test_a_slow_whole_answer_is_hedged_too(self) -> None:
        slow, fast = Answer([(9.0, WHOLE)], headers=JSON), Answer([(0.5, WHOLE)], headers=JSON)
        world, client = one({"a": slow, "b": fast}, body=PLAIN)
        assert client.ended_at == 2.5
        assert world.pools["a"].cancelled_at == [2.5]

    def test_html_with_status_200_is_a_failure(self) -> None:
        html = Answer([(0.1, b"<html>busy</html>")], headers=[(b"content-type", b"text/html")])
        good = Answer([(0.5, WHOLE)], headers=JSON)
        _, client = one({"a": html, "b": good}, body=PLAIN)
        assert (client.text, client.ended_at) == (WHOLE, 0.6)

    def test_first_token_limits_do_not_cut_whole_answers(self) -> None:
        slow = Answer([(30.0, WHOLE)], headers=JSON)
        _, client = one({"a": slow, "b": slow}, body=PLAIN, policy=Policy(first_token=5.0, total=60.0))
        assert (client.text, client.ended_at) == (WHOLE, 30.0)

    def test_an_answer_over_the_limit_fails(self) -> None:
        big = Answer([(0.1, WHOLE)], headers=JSON)
        _, client = one({"a": big, "b": big}, body=PLAIN, limits=Limits(answer_bytes=100))
        assert client.status == 502
        assert b"more than 100 bytes" in client.text


class TestClientLeaves:
    @pytest.mark.parametrize(
        ("leaves_at", "cancelled"), [(1.0, {"a": [1.0], "b": []}), (2.2, {"a": [2.2], "b": [2.2]})]
    )
    def test_before_the_first_token_every_attempt_is_cancelled_at_once(
        self, leaves_at: float, cancelled: dict[str, list[float]]
    ) -> None:
        async def story(world: World) -> None:
            client = world.request()
            await asyncio.sleep(leaves_at)
            client.leave()

        world = play({"a": STALLED, "b": STALLED}, story)
        assert {name: pool.cancelled_at for name, pool in world.pools.items()} == cancelled
        assert {e.outcome for e in world.of(AttemptEnded)} == {Outcome.CLIENT_GONE}
        assert world.of(RequestFinished)[0].outcome is Outcome.CLIENT_GONE

    def test_in_mid_stream_the_winner_is_cancelled_at_once(self) -> None:
        async def story(world: World) -> None:
            client = world.request()
            await asyncio.sleep(0.55)
            client.leave()

        world = play({"a": stream("P"), "b": stream("B")}, story)
        assert world.pools["a"].cancelled_at == [0.55]

    def test_a_slow_reader_pauses_its_upstream_and_resumes_it(self) -> None:
        async def story(world: World) -> None:
            client = world.request()
            await asyncio.sleep(0.55)
            assert client.listener is not None
            client.listener.on_pause()
            assert world.pools["a"].paused == 1
            client.listener.on_resume()
            assert world.pools["a"].paused == 0

        play({"a": stream("P"), "b": stream("B")}, story)

    @pytest.mark.parametrize(("resumed_at", "outcome", "ended_at"), [(5.5, "whole", 6.1), (2.0, "broken", 3.0)])
    def test_the_silence_of_a_slow_reader_is_no_stall_of_its_upstream(
        self, resumed_at: float, outcome: str, ended_at: float
    ) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.append(world.request())
            await asyncio.sleep(0.55)
            listener = clients[0].listener
            assert listener is not None
            listener.on_pause()
            await asyncio.sleep(resumed_at - 0.55)
            listener.on_resume()

        slow = Answer([(0.0, ROLE), (0.5, token("P1")), (5.5, token("P2")), (0.1, FINISH + DONE)])
        play({"a": slow, "b": stream("B")}, story, policy=Policy(stall=1.0))
        assert clients[0].outcome == outcome
        assert clients[0].ended_at == pytest.approx(ended_at)


def test_the_log_tells_of_hedges_and_failures_by_request_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="hedgerow.gateway"):
        one({"a": STALLED, "b": error(500, "boom"), "c": stream("C")}, policy=Policy(delay=2.0, max_attempts=3))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "request test-1: hedge at target b after 2.000 s"),
        ("INFO", "request test-1: target b failed: server_error, HTTP 500 (x)"),
        ("INFO", "request test-1: failover at target c after 2.100 s"),
        ("DEBUG", "request test-1: won on route fast, status 200, 2.800 s"),
    ]


def test_a_race_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="hedgerow.gateway"):
        one({"a": STALLED, "b": stream("B")}, policy=Policy(width=2))
    assert caplog.records == []


class TestNotHedged:
    def test_a_client_may_opt_out(self) -> None:
        primary = stream("P", first_after=5.0)
        world, client = one({"a": primary, "b": stream("B")}, headers=[(b"x-hedgerow-hedge", b"off")])
        assert client.text == body_of(primary)
        assert [e.reason for e in world.of(HedgeSkipped)] == [Reason.CLIENT_OPT_OUT]
        assert b"x-hedgerow" not in world.pools["a"].requests[0][1]

    def test_stored_completions_are_not_hedged(self) -> None:
        body = b'{"model":"fast","stream":true,"store":true,"messages":[]}'
        world, client = one({"a": stream("P", first_after=5.0), "b": stream("B")}, body=body)
        assert client.pieces[0][0] == 5.0
        (skipped,) = world.of(HedgeSkipped)
        assert skipped.reason is Reason.SIDE_EFFECTS
        assert "store" in skipped.detail

    def test_other_paths_go_to_the_primary_once_whatever_it_answers(self) -> None:
        answer = Answer([(3.0, b"no"), (0.1, b"pe")], status=500, headers=[(b"content-length", b"4")])
        world, client = one({"a": answer, "b": stream("B")}, target=b"/v1/files?x=1", body=b"--form--")
        assert (client.status, client.text, client.outcome) == (500, b"nope", "whole")
        assert client.answer_headers[b"content-length"] == b"4"
        _, head, body = world.pools["a"].requests[0]
        assert head.startswith(b"POST /v1/files?x=1 HTTP/1.1\r\n")
        assert body == b"--form--"
        assert world.pools["b"].requests == []

    def test_a_model_that_is_no_route_is_not_rewritten_on_an_endpoint_that_is_passed_through(self) -> None:
        answer = Answer([(0.1, b"{}")], headers=JSON)
        body = b'{"model":"text-embedding-3-small","input":"x"}'
        world, _ = one({"a": answer, "b": answer}, target=b"/v1/images/generations", body=body)
        assert world.pools["a"].requests[0][2] == body

    def test_a_route_named_on_another_path_is_rewritten(self) -> None:
        answer = Answer([(0.1, b"{}")], headers=JSON)
        world, _ = one({"a": answer}, target=b"/v1/images/generations", body=b'{"model":"fast","input":"x"}')
        assert world.pools["a"].requests[0][2] == b'{"model":"model-a","input":"x"}'


class TestRefusals:
    def test_an_unknown_model_is_told_what_there_is(self) -> None:
        _, client = one({"a": STALLED}, body=b'{"model":"slow","messages":[]}')
        assert client.status == 404
        told = msgspec.json.decode(client.text)["error"]
        assert told["code"] == "model_not_found"
        assert told["message"] == (
            "There is no route 'slow'. Ask for one of 'fast' as model, or add a route (or '*') to the config."
        )

    def test_a_body_that_is_no_json_is_told_so_and_sent_nowhere(self) -> None:
        world, client = one({"a": STALLED}, body=b"{nope")
        assert client.status == 400
        assert msgspec.json.decode(client.text)["error"]["type"] == "invalid_request_error"
        assert world.pools["a"].requests == []

    @pytest.mark.parametrize(
        "path",
        ["../admin", "..", "f/../../admin", "%2e%2E/admin", "f%2f..%2f..", "..;/admin", "a\\..\\b", "..#a", "..?a"],
    )
    def test_no_path_leads_out_of_the_base_url(self, path: str) -> None:
        world, client = one({"a": Answer([(0.0, b"{}")])}, target=b"/v1/" + path.encode(), method=b"GET", body=b"")
        assert client.status == 404
        assert world.pools["a"].requests == []

    @pytest.mark.parametrize("path", ["files/a..b", "files/..a", "files?name=/../", "files/a%2Fb", "."])
    def test_two_dots_in_a_name_are_only_a_name(self, path: str) -> None:
        world, _ = one({"a": Answer([(0.0, b"{}")])}, target=b"/v1/" + path.encode(), method=b"GET", body=b"")
        assert world.pools["a"].requests[0][1].startswith(b"GET /v1/" + path.encode() + b" HTTP/1.1\r\n")

    def test_a_target_in_absolute_form_is_taken_for_its_path(self) -> None:
        answer = stream("P")
        world, client = one({"a": answer}, target=b"HTTP://gateway.example:8080/v1/chat/completions?x=1")
        assert client.text == body_of(answer)
        assert world.pools["a"].requests[0][1].startswith(b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nhost: a\r\n")
        _, page = one({"a": STALLED}, target=b"http://gateway.example/livez", method=b"GET", body=b"")
        assert page.status == 200

    def test_a_path_outside_v1_is_told_the_base_url(self) -> None:
        _, client = one({"a": STALLED}, target=b"/chat/completions")
        assert client.status == 404
        assert b"base_url http://<this host>/v1" in client.text


class TestPages:
    @pytest.mark.parametrize(
        ("path", "status", "told"),
        [
            (b"/livez", 200, {"status": "alive"}),
            (b"/readyz", 200, {"status": "ready"}),
            (
                b"/v1/models",
                200,
                {"object": "list", "data": [{"id": "fast", "object": "model", "created": 0, "owned_by": "hedgerow"}]},
            ),
            (b"/v1/models/fast", 200, {"id": "fast", "object": "model", "created": 0, "owned_by": "hedgerow"}),
        ],
    )
    def test_pages(self, path: bytes, status: int, told: dict[str, object]) -> None:
        _, client = one({"a": STALLED}, target=path, method=b"GET", body=b"")
        assert client.status == status
        assert msgspec.json.decode(client.text) == told

    def test_a_model_that_is_no_route_is_404(self) -> None:
        _, client = one({"a": STALLED}, target=b"/v1/models/slow", method=b"GET", body=b"")
        assert client.status == 404


def test_ten_thousand_mixed_requests_leave_nothing_behind() -> None:
    """Answers, failures, stalls, cuts and clients that leave at random moments, on one gateway."""
    import random

    chance = random.Random(7)
    kinds: list[Script] = [
        stream("P"),
        STALLED,
        error(500, "x"),
        Answer([(0.0, token("c"))]),
        REFUSED,
        stream("S", first_after=4.0),
    ]

    async def story(world: World) -> None:
        async def client() -> None:
            exchange = world.request()
            await asyncio.sleep(chance.expovariate(0.5))
            if exchange.outcome is None:
                exchange.leave()

        for _ in range(100):
            async with asyncio.TaskGroup() as group:
                for _ in range(100):
                    group.create_task(client())

    scripts = {name: [chance.choice(kinds) for _ in range(20_000)] for name in "ab"}
    world = play(scripts, story)
    assert len(world.of(RequestFinished)) == 10_000
    assert len(world.of(AttemptEnded)) == len(world.of(AttemptLaunched))
    ended = [(e.request_id, e.attempt) for e in world.of(AttemptEnded)]
    assert len(set(ended)) == len(ended)
    outcomes = {e.outcome for e in world.of(RequestFinished)}
    assert outcomes == {Outcome.WON, Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT, Outcome.CLIENT_GONE}


@pytest.mark.parametrize("body", [PLAIN, b'{"model":"fast","stream":true,"messages":[]}'], ids=["whole", "stream"])
def test_a_finished_request_leaves_no_cycle_for_the_collector(body: bytes) -> None:
    answer = Answer([(0.1, WHOLE)], headers=JSON) if body == PLAIN else stream("P")

    async def story(world: World) -> None:
        with leftovers() as left:
            for _ in range(20):
                world.request(body)
                await asyncio.sleep(5.0)
            assert left(Flight, Attempt, Run) == Counter()

    play({"a": answer, "b": answer}, story)


@pytest.mark.parametrize("end", ["reset", "hang"])
def test_an_error_whose_body_is_cut_short_counts_by_its_status(end: str) -> None:
    wait = [(b"retry-after", b"7")]
    said = [(0.0, b"x" * 600)] * (2 if end == "hang" else 1)
    limits = Limits(held_bytes=1000)
    limited = Answer(said, status=429, headers=JSON + wait, end=end)
    world, client = one({"a": limited}, limits=limits)
    assert (client.status, client.answer_headers[b"retry-after"]) == (429, b"7")
    assert msgspec.json.decode(client.text)["error"]["code"] == "rate_limited"
    assert [event.until for event in world.of(TargetTakenOut)] == [7.0]
    fatal = Answer(said, status=400, headers=JSON, end=end)
    world, client = one({"a": fatal, "b": stream("B")}, limits=limits)
    assert client.status == 400
    assert world.pools["b"].requests == []


def test_a_redirect_is_not_passed_on() -> None:
    away = Answer([(0.0, b"")], status=307, headers=[(b"location", b"http://elsewhere/")])
    _, client = one({"a": away})
    assert client.status == 502
    assert b"location" not in client.answer_headers
    _, client = one({"a": away, "b": stream("B")})
    assert client.answer_headers[b"x-hedgerow-target"] == b"b"


@pytest.mark.parametrize(
    ("method", "target", "body", "twice"),
    [
        (b"GET", b"/v1/files", b"", True),
        (b"HEAD", b"/v1/files", b"", True),
        (b"DELETE", b"/v1/files/1", b"", False),
        (b"POST", b"/v1/images/generations", b"{}", False),
        (b"POST", b"/v1/chat/completions", PLAIN, True),
        (b"POST", b"/v1/chat/completions", b'{"model":"fast","messages":[],"store":true}', False),
    ],
)
def test_only_what_changes_nothing_is_sent_again_when_a_connection_was_stale(
    method: bytes, target: bytes, body: bytes, twice: bool
) -> None:
    world, _ = one({"a": Answer([(0.0, WHOLE)])}, method=method, target=target, body=body)
    assert world.pools["a"].resend == [twice]


def test_an_error_that_is_handed_through_does_not_bring_a_target_back() -> None:
    async def story(world: World) -> None:
        world.request()
        await asyncio.sleep(1.0)
        world.request(b"{}", target=b"/v1/images/generations")
        await asyncio.sleep(1.0)
        world.request()

    world = play({"a": error(401, "wrong key"), "b": stream("B")}, story)
    assert [at for at, _, _ in world.pools["a"].requests] == [0.0, 1.0]


def test_a_body_has_a_second_to_end_after_its_end_marker() -> None:
    late = Answer([(0.0, token("P1")), (0.5, DONE), (1.0 - 1e-3, b"")])
    endless = Answer([(0.0, token("P1")), (0.5, DONE)], end="hang")
    begun = (0.0, 0.3, 0.9, 2.8)

    async def story(world: World) -> None:
        for at in begun:
            world.loop.call_at(at, world.request)
        await asyncio.sleep(100)

    assert play({"a": late}, story).pools["a"].cancelled_at == []
    cancelled = play({"a": endless}, story).pools["a"].cancelled_at
    waited = [then - (at + 0.5) for at, then in zip(begun, cancelled, strict=True)]
    assert all(1.0 <= seconds <= 2.0 for seconds in waited), waited


def test_a_client_that_reads_slowly_does_not_keep_the_rest_of_a_body_from_being_read() -> None:
    async def story(world: World) -> None:
        client = world.request()
        await asyncio.sleep(0.2)
        assert client.listener is not None
        client.listener.on_pause()
        assert world.pools["a"].paused == 1
        await asyncio.sleep(1.0)
        assert client.outcome == "whole"
        assert world.pools["a"].paused == 0

    play({"a": Answer([(0.1, token("P1")), (0.2, DONE)], end="hang")}, story)


def test_an_answer_handed_through_may_begin_later_than_the_stall_limit() -> None:
    policy = Policy(stall=10.0, total=120.0)
    slow = Answer([(9.0, b"a"), (9.0, b"b")], headers=JSON, head_after=15.0)
    _, client = one({"a": slow}, policy=policy, target=b"/v1/files")
    assert (client.outcome, client.text, client.ended_at) == ("whole", b"ab", 33.0)
    silent = Answer([(11.0, b"a")], headers=JSON, head_after=15.0)
    _, client = one({"a": silent}, policy=policy, target=b"/v1/files")
    assert (client.outcome, client.text, client.ended_at) == ("broken", b"", 25.0)


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie"])
def test_no_credential_of_the_client_reaches_an_upstream(name: bytes) -> None:
    world, _ = one({"a": stream("P")}, headers=[(name, b"secret"), (b"x-kept", b"1")])
    head = world.pools["a"].requests[0][1]
    assert b"\r\nx-kept: 1\r\n" in head
    assert b"secret" not in head


def test_what_any_connection_field_lists_stops_here() -> None:
    fields = [(b"connection", b"close, x-one"), (b"connection", b"X-Two"), (b"x-one", b"1"), (b"x-two", b"2")]
    world, client = one({"a": Answer([(0.0, token("P1")), (0.1, DONE)], headers=SSE + fields)}, headers=fields)
    assert not {b"x-one", b"x-two"} & set(client.answer_headers)
    assert b"x-one" not in world.pools["a"].requests[0][1]
    assert b"x-two" not in world.pools["a"].requests[0][1]


def test_every_response_header_of_the_winner_that_matters_is_kept() -> None:
    kept = [(b"x-ratelimit-remaining-requests", b"9"), (b"openai-processing-ms", b"12"), (b"content-type", SSE[0][1])]
    dropped = [
        (b"connection", b"close, x-odd"),
        (b"x-odd", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"x-hedgerow-target", b"z"),
        (b"set-cookie", b"a=b"),
    ]
    answer = Answer([(0.0, token("P1")), (0.1, DONE)], headers=kept + dropped)
    _, client = one({"a": answer})
    for name, value in kept:
        assert client.answer_headers[name] == value
    assert client.answer_headers[b"x-hedgerow-target"] == b"a"
    assert not {b"x-odd", b"transfer-encoding", b"connection", b"set-cookie"} & set(client.answer_headers)
