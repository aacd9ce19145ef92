"""routes.<name>.*: who is asked when, and when patience ends; exact times in virtual time."""

from __future__ import annotations

import json

import pytest

from tests.effects.support import (
    BROKEN,
    HELLO,
    QUICK,
    SILENT,
    STALLS,
    STREAM,
    WHOLE,
    asked,
    effect_of,
    play,
    settings,
    token,
)
from tests.engine.scripted import JSON, Answer

STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
ALL_SILENT = {"a": SILENT, "b": SILENT, "c": SILENT}


@effect_of("routes.<name>.targets")
def test_targets_are_asked_in_their_order(key: str) -> None:
    pools, client = play(settings({key: ["b", "a"]}), {"b": BROKEN})
    assert asked(pools) == [("b", 0.0), ("a", 0.1)]
    assert client.answer_headers[b"x-hedgerow-target"] == b"a"


@effect_of("routes.<name>.hedge.delay")
@pytest.mark.parametrize(("delay", "expected"), [("2s", 2.0), ("300ms", 0.3), (0, 0.0)])
def test_a_hedge_starts_after_the_delay(key: str, delay: object, expected: float) -> None:
    pools, client = play(settings({key: delay}), {"a": SILENT})
    assert asked(pools) == [("a", 0.0), ("b", expected)]
    assert client.pieces[0][0] == expected + 0.1


@effect_of("routes.<name>.hedge.delay")
def test_without_a_delay_nothing_is_hedged(key: str) -> None:
    pools, _ = play(settings({key: "off"}), {"a": SILENT})
    assert asked(pools) == [("a", 0.0), ("b", 60.0)]  # after the first_token timeout


@effect_of("routes.<name>.hedge.max_hedges")
@pytest.mark.parametrize(("most", "expected"), [(0, ["a"]), (1, ["a", "b"]), (2, ["a", "b", "c"])])
def test_no_more_than_max_hedges_start(key: str, most: int, expected: list[str]) -> None:
    pools, _ = play(settings({key: most}), ALL_SILENT)
    assert [name for name, at in asked(pools) if at < 60.0] == expected


@effect_of("routes.<name>.hedge.budget")
@pytest.mark.parametrize(("budget", "expected"), [("10%", 12), ("50%", 24), ("100%", 30), ("off", 30)])
def test_hedges_are_ten_and_a_share_of_the_requests(key: str, budget: str, expected: int) -> None:
    unworried = {
        "routes.<name>.hedge.delay": "2s",
        "routes.<name>.hedge.outage.max_tokens": 1000,
        "routes.<name>.hedge.per_minute": 0,
        "routes.<name>.hedge.burst": 10,
        "targets.<name>.breaker.minimum": 100,
    }
    pools, _ = play(settings({key: budget, **unworried}), {"a": SILENT}, again=29, every=3.0)
    after = [at % 3.0 for name, at in asked(pools) if name == "b"]
    assert after.count(2.0) == expected
    assert after.count(0.0) == 30 - expected  # after the first_token timeout


@effect_of("routes.<name>.hedge.warmup.delay")
@pytest.mark.parametrize("delay", ["1s", "2s"])
def test_at_a_guess_no_more_than_half_of_the_burst_is_spent(key: str, delay: str) -> None:
    unworried = {"routes.<name>.hedge.per_minute": 0, "routes.<name>.hedge.burst": 10, "targets.a.breaker.minimum": 100}
    pools, _ = play(settings({key: delay, **unworried}), {"a": SILENT}, again=29, every=3.0)
    hedged = [at for name, at in asked(pools) if name == "b" and at % 3.0 == float(delay[:-1])]
    assert len(hedged) == 8  # six of ten, until fewer than half are left, and a tenth of 30 requests, less the last


@effect_of("routes.<name>.max_attempts")
@pytest.mark.parametrize(("most", "status"), [(1, 500), (2, 500), (3, 200)])
def test_no_more_than_max_attempts_are_made(key: str, most: int, status: int) -> None:
    pools, client = play(settings({key: most}), {"a": BROKEN, "b": BROKEN, "c": QUICK})
    assert len(asked(pools)) == most
    assert client.status == status


@effect_of("routes.<name>.timeouts.first_token")
@pytest.mark.parametrize(("limit", "seconds"), [("60s", 60.0), ("5s", 5.0)])
def test_an_attempt_without_a_first_token_in_time_fails(key: str, limit: str, seconds: float) -> None:
    pools, _ = play(settings({key: limit}), ALL_SILENT)
    assert asked(pools) == [("a", 0.0), ("b", 2.0), ("c", seconds)]
    assert pools["a"].cancelled_at == [seconds]


@effect_of("routes.<name>.timeouts.stall")
@pytest.mark.parametrize(("limit", "seconds"), [("30s", 30.0), ("5s", 5.0)])
def test_a_stream_that_falls_silent_is_broken_off(key: str, limit: str, seconds: float) -> None:
    _, client = play(settings({key: limit}), {"a": STALLS})
    assert (client.ended_at, client.outcome) == (seconds, "broken")


@effect_of("routes.<name>.timeouts.total")
@pytest.mark.parametrize(("limit", "seconds"), [("10m", 600.0), ("70s", 70.0)])
def test_a_request_ends_at_its_total_limit(key: str, limit: str, seconds: float) -> None:
    _, client = play(settings({key: limit}), ALL_SILENT, WHOLE)
    assert (client.ended_at, client.status) == (seconds, 504)


@effect_of("routes.<name>.hedge.allow")
@pytest.mark.parametrize(("allow", "expected"), [([], ["a"]), (["audio"], ["a"]), (["n"], ["a", "b"])])
def test_what_costs_more_is_hedged_where_the_route_allows_it(key: str, allow: list[str], expected: list[str]) -> None:
    several = STREAM.replace(b'"stream"', b'"n":2,"stream"')
    pools, _ = play(settings({key: allow}), ALL_SILENT, several)
    assert [name for name, at in asked(pools) if at < 60.0] == expected


@effect_of("routes.<name>.reasoning_counts")
@pytest.mark.parametrize(("counts", "winner"), [(True, b"a"), (False, b"b")])
def test_thinking_is_a_first_token_or_not(key: str, counts: bool, winner: bytes) -> None:
    thinks = token("hmm").replace(b'"content"', b'"reasoning_content"')
    _, client = play(settings({key: counts}), {"a": Answer([(0.1, thinks)] + [(1.0, thinks)] * 5, end="hang")})
    assert client.answer_headers[b"x-hedgerow-target"] == winner


@effect_of("routes.<name>.nonstream_as_stream")
@pytest.mark.parametrize("as_stream", [True, False])
def test_a_whole_answer_is_asked_for_as_a_stream(key: str, as_stream: bool) -> None:
    changes = {key: as_stream, "routes.<name>.targets": ["a", "b"]}
    stream = Answer([(0.1, token("hel")), (5.0, token("lo")), (0.0, STOP), (0.0, b"data: [DONE]\n\n")])
    pools, client = play(
        settings(changes), {"a": stream if as_stream else Answer([(5.1, HELLO)], headers=JSON), "b": SILENT}, WHOLE
    )
    # A token after 0.1 s: no hedge is due any more, however long the rest takes.
    assert [name for name, _ in asked(pools)] == (["a"] if as_stream else ["a", "b"])
    assert json.loads(client.text)["choices"][0]["message"]["content"] == "hello"
    assert client.answer_headers[b"content-type"] == b"application/json"


@effect_of("routes.<name>.on_stall")
@pytest.mark.parametrize(("on_stall", "asked_for"), [("error", ""), ("restart", "w"), ("continue", "ws")])
def test_an_answer_that_breaks_off_is_told_begun_anew_or_gone_on_with(key: str, on_stall: str, asked_for: str) -> None:
    changes = {
        key: on_stall,
        "routes.<name>.targets": ["a", "b"],
        "routes.<name>.nonstream_as_stream": True,
        "targets.b.continues": "last_message",
    }
    for kind, body in (("w", WHOLE), ("s", STREAM)):
        with_words = body.replace(b"[]", b'[{"role":"user","content":"hi"}]')
        pools, _ = play(settings(changes), {"a": STALLS}, with_words)
        assert bool(pools["b"].requests) == (kind in asked_for)


@effect_of("routes.<name>.endpoints")
@pytest.mark.parametrize(("listed", "expected"), [(["/v1/audio/speech"], ["a", "b"]), ([], ["a"])])
def test_a_listed_path_is_hedged(key: str, listed: list[str], expected: list[str]) -> None:
    sound = Answer([(0.1, b"RIFF")], headers=[(b"content-type", b"audio/wav")])
    pools, client = play(
        settings({key: listed}), {"a": SILENT, "b": sound}, b'{"model":"fast","input":"hi"}', path=b"/v1/audio/speech"
    )
    assert [name for name, _ in asked(pools)] == expected
    assert (client.text == b"RIFF") == bool(listed)
