"""Kept alternatives in virtual time: which losers run on, how far, and what their clients are shown of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hedgerow.answer import Answer as Seen
from hedgerow.events import AttemptEnded, Headers, Outcome, UsageSource
from hedgerow.gatekeeper import OnLoop
from hedgerow.gateway.core import Limits as Held
from hedgerow.policy.account import Limits
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.gates.gate import as_gate
from hedgerow.policy.gates.settings import GateSettings
from hedgerow.policy.latency.cells import Learning
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy
from tests.engine.scripted import JSON, REFUSED, Answer, RecordingExchange, Scripts, World, play
from tests.engine.test_gates import STOP, STREAM, WHOLE, delta, document, outcomes, text_of, whole

RACE = Policy(width=2, max_attempts=3, first_token=50.0, stall=10.0, total=60.0)
KEEP = KeepSettings(time=20.0, ttl=100.0)
EVENTS = (b"accept", b"text/event-stream")


def page(world: World, client: RecordingExchange, *headers: tuple[bytes, bytes]) -> RecordingExchange:
    path = client.answer_headers[b"x-hedgerow-alternatives"]
    return world.request(b"", target=path, headers=list(headers), method=b"GET")


def shown(client: RecordingExchange) -> Any:
    return json.loads(client.text)


def texts(view: Any) -> list[tuple[str, int, bool]]:
    return [(each["text"], each["agreement"], each["won"]) for each in view["alternatives"]]


def told(client: RecordingExchange) -> list[tuple[float, str, Any]]:
    """What a listening client was told when: the name of each event, and its data."""
    events = []
    for at, piece in client.pieces:
        if piece == b": \n\n":
            continue
        name, data = piece.decode().removesuffix("\n\n").split("\n")
        events.append((at, name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def run(
    scripts: Scripts,
    then: Callable[[World, RecordingExchange], Any] | None = None,
    *,
    body: bytes = WHOLE,
    wait: float = 50.0,
    keep: KeepSettings = KEEP,
    headers: Headers | None = None,
    **more: Any,
) -> tuple[RecordingExchange, Any, World]:
    """A request in a race of two, and what `then` makes of it `wait` seconds later."""
    got: list[Any] = []

    async def story(world: World) -> None:
        client = world.request(body, headers=headers)
        await asyncio.sleep(wait)
        got.extend([client, None if then is None else then(world, client)])

    more.setdefault("policy", RACE)
    world = play(scripts, story, keep=keep, **more)
    return got[0], got[1], world


def test_a_loser_runs_on_and_is_shown_beside_the_winner() -> None:
    client, asked, world = run({"a": whole("eins", 4.0), "b": whole("one", 1.0)}, page)
    assert (text_of(client), client.ended_at) == ("one", 1.0)
    assert outcomes(world) == [Outcome.KEPT, Outcome.WON]
    assert world.pools["a"].cancelled_at == []
    view = shown(asked)
    assert (view["pending"], view["disagreement"], view["route"]) == (0, True, "fast")
    assert texts(view) == [("one", 1, True), ("eins", 1, False)]
    (one,), (eins,) = (each["said_by"] for each in view["alternatives"])
    assert (one["target"], one["attempt"], one["role"], one["took_ms"]) == ("b", 1, "racer", 1000.0)
    assert (eins["target"], eins["attempt"], eins["role"], eins["took_ms"]) == ("a", 0, "primary", 4000.0)
    assert view["alternatives"][1]["answer"] == json.loads(document("eins"))
    assert asked.answer_headers[b"cache-control"] == b"no-store"


def test_those_that_say_the_same_are_one_alternative() -> None:
    _, asked, _ = run({"a": whole("One  two", 4.0), "b": whole("one two", 1.0)}, page)
    view = shown(asked)
    assert (view["disagreement"], texts(view)) == (False, [("one two", 2, True)])
    assert [each["target"] for each in view["alternatives"][0]["said_by"]] == ["b", "a"]


def test_alternatives_stream_in_after_the_answer() -> None:
    async def story(world: World) -> None:
        world.request(WHOLE)
        await asyncio.sleep(2.0)

    scripts = {"a": whole("eins", 4.0), "b": whole("one", 1.0), "c": whole("ONE", 6.0)}
    race = Policy(width=3, max_attempts=3, total=60.0)
    _, listening, _ = run(scripts, lambda world, client: page(world, client, EVENTS), wait=2.0, policy=race)
    assert listening.answer_headers[b"content-type"] == b"text/event-stream"
    events = told(listening)
    assert [(at, name, data.get("text"), data.get("agreement")) for at, name, data in events] == [
        (2.0, "alternative", "one", 1),
        (4.0, "alternative", "eins", 1),
        (6.0, "alternative", "one", 2),
        (6.0, "done", None, None),
    ]
    assert [data["number"] for _, name, data in events if name == "alternative"] == [1, 2, 1]
    assert events[-1][2] == {"alternatives": 2, "disagreement": True, "pending": 0}
    assert (listening.outcome, listening.ended_at) == ("whole", 6.0)


def test_who_comes_late_is_told_all_at_once() -> None:
    scripts = {"a": whole("eins", 4.0), "b": whole("one", 1.0)}
    _, listening, _ = run(scripts, lambda world, client: page(world, client, EVENTS))
    assert [(at, name) for at, name, _ in told(listening)] == [
        (50.0, "alternative"),
        (50.0, "alternative"),
        (50.0, "done"),
    ]


def test_who_listens_for_long_is_kept_awake() -> None:
    scripts = {"a": whole("eins", 40.0), "b": whole("one", 1.0)}
    keep = KeepSettings(time=60.0)
    _, listening, _ = run(scripts, lambda world, client: page(world, client, EVENTS), wait=2.0, keep=keep)
    assert [at for at, piece in listening.pieces if piece == b": \n\n"] == [2.0, 17.0, 32.0]
    assert listening.ended_at == 40.0


def test_who_leaves_is_told_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        client = world.request(WHOLE)
        await asyncio.sleep(2.0)
        listening.append(page(world, client, EVENTS))
        listening[0].leave()

    listening: list[RecordingExchange] = []
    play({"a": whole("eins", 4.0), "b": whole("one", 1.0)}, story, policy=RACE, keep=KEEP)
    assert [name for _, name, _ in told(listening[0])] == ["alternative"]
    assert "itself failed" not in caplog.text  # to tell it more would have


def test_streams_are_kept_too() -> None:
    slow = Answer([(3.0, delta("ei")), (1.0, delta("ns")), (1.0, STOP)])
    fast = Answer([(1.0, delta("one")), (7.0, STOP)])
    client, asked, world = run({"a": slow, "b": fast}, page, body=STREAM)
    assert client.outcome == "whole"
    assert b"eins" not in client.text
    assert outcomes(world) == [Outcome.KEPT, Outcome.WON]
    view = shown(asked)
    assert texts(view) == [("eins", 1, False), ("one", 1, True)]
    said = view["alternatives"][0]["said_by"][0]
    assert (said["first_token_ms"], said["took_ms"]) == (3000.0, 5000.0)
    assert view["alternatives"][0]["answer"]["choices"][0]["message"]["content"] == "eins"


def test_a_loser_whose_first_token_was_here_is_kept_whole() -> None:
    # A gate on the start of streams holds both; the second is let through first.
    gates = [as_gate(lambda seen: seen.complete or len(seen.text) >= 4, name="long")]
    policy = Policy(width=2, max_attempts=2, total=60.0, gates=GateSettings())
    slow = Answer([(1.0, delta("eins zwei")), (5.0, STOP)])
    fast = Answer([(1.0, delta("one two")), (1.0, STOP)])
    _, asked, world = run({"a": fast, "b": slow}, page, body=STREAM, policy=policy, gates=gates)
    assert outcomes(world) == [Outcome.WON, Outcome.KEPT]
    assert texts(shown(asked)) == [("one two", 1, True), ("eins zwei", 1, False)]


@pytest.mark.parametrize(
    ("slow", "failed_at"),
    [
        (Answer([(0.0, b"{}")], status=500, headers=JSON, head_after=4.0), 4.0),
        (Answer([(3.0, b'{"id":')], headers=JSON, end="reset"), 3.0),
        (Answer([(3.0, delta("ei"))], end="reset"), 3.0),
        (Answer([(3.0, delta("ei"))]), 3.0),
        (Answer([(2.0, b'data: {"error":{"message":"busy","code":500}}\n\n')]), 2.0),
    ],
)
def test_a_loser_that_fails_is_a_failure_and_no_alternative(slow: Answer, failed_at: float) -> None:
    body = STREAM if slow.headers != JSON else WHOLE
    fast = Answer([(1.0, delta("one")), (0.0, STOP)]) if body is STREAM else whole("one", 1.0)
    _, asked, world = run({"a": slow, "b": fast}, page, body=body)
    assert outcomes(world) == [Outcome.FAILED, Outcome.WON]
    assert [event.ended_at for event in world.of(AttemptEnded) if event.attempt == 0] == [failed_at]
    view = shown(asked)
    assert (texts(view), view["pending"]) == ([("one", 1, True)], 0)
    assert len(world.pools["a"].requests) == 1


def test_a_loser_may_take_so_long_and_no_longer() -> None:
    keep = KeepSettings(time=5.0)
    _, asked, world = run({"a": whole("eins", 9.0), "b": whole("one", 1.0)}, page, keep=keep)
    assert outcomes(world) == [Outcome.SUPERSEDED, Outcome.WON]
    assert world.pools["a"].cancelled_at == [6.0]
    assert texts(shown(asked)) == [("one", 1, True)]


LONG = [(1.0, delta("word ") * 250)] * 8
"""250 tokens a second, for eight."""


@pytest.mark.parametrize(("tokens", "at"), [(None, None), (1_000, 5.0), (1, 1.0)])
def test_a_loser_may_come_to_so_many_tokens_and_no_more(tokens: int | None, at: float | None) -> None:
    slow = Answer([(1.0, b": ping\n\n"), *LONG, (1.0, STOP)])
    fast = Answer([(1.0, delta("one")), (0.0, STOP)])
    _, _, world = run({"a": slow, "b": fast}, body=STREAM, keep=KeepSettings(tokens=tokens))
    assert world.pools["a"].cancelled_at == ([] if at is None else [at])
    assert outcomes(world)[0] is (Outcome.KEPT if at is None else Outcome.SUPERSEDED)


@pytest.mark.parametrize(("most", "kept"), [(499, False), (510, True)])
def test_a_whole_answer_is_expected_to_come_to_what_it_may(most: int, kept: bool) -> None:
    # Its prompt is 7 tokens, its answer at most 500.
    keep, price = KeepSettings(nanousd=most), Price(1_000_000, 1_000_000)
    scripts = {"a": whole("eins", 4.0), "b": whole("one", 1.0)}
    client, _, world = run(scripts, keep=keep, prices={"a": price, "b": price})
    assert outcomes(world)[0] is (Outcome.KEPT if kept else Outcome.SUPERSEDED)
    assert (b"x-hedgerow-alternatives" in client.answer_headers) is kept


@pytest.mark.parametrize(("tier", "dollars"), [("flex", "0.0011"), ("default", "0.0022"), ("unheard-of", None)])
def test_what_an_answer_cost_is_by_its_tier_of_service(tier: str, dollars: str | None) -> None:
    answer = json.loads(document("eins")) | {"service_tier": tier}
    answer["usage"] = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
    slow = Answer([(0.0, json.dumps(answer).encode())], headers=JSON, head_after=4.0)
    plain = Price.parse("2", "10")
    price = msgspec.structs.replace(plain, tiers={"flex": plain.times(500_000)})
    _, asked, _ = run({"a": slow, "b": whole("one", 1.0)}, page, prices={"a": price, "b": plain})
    _, eins = (each["said_by"][0] for each in shown(asked)["alternatives"])
    assert eins["cost_usd"] == dollars


def test_what_an_answer_cost_is_shown_where_it_is_known() -> None:
    answer = json.loads(document("eins"))
    answer["usage"] = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
    slow = Answer([(0.0, json.dumps(answer).encode())], headers=JSON, head_after=4.0)
    prices = {"a": Price.parse("2", "10"), "b": Price.parse("2", "10")}
    _, asked, world = run({"a": slow, "b": whole("one", 1.0)}, page, prices=prices)
    one, eins = (each["said_by"][0] for each in shown(asked)["alternatives"])
    assert (eins["cost_usd"], eins["input_tokens"], eins["output_tokens"]) == ("0.0022", 1000, 20)
    assert one["cost_usd"] is None
    usage = next(event.usage for event in world.of(AttemptEnded) if event.attempt == 0)
    assert (usage.output_tokens, usage.source) == (20, UsageSource.REPORTED)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"model":"fast","store":false,"messages":[]}', []),
        (WHOLE, [(b"cache-control", b"no-cache, No-Store")]),
    ],
)
def test_nothing_is_kept_of_what_must_not_be_stored(body: bytes, headers: Headers) -> None:
    scripts = {"a": whole("eins", 4.0), "b": whole("one", 1.0)}
    client, _, world = run(scripts, body=body, headers=headers, keep=KeepSettings(by_content=True))
    assert outcomes(world) == [Outcome.SUPERSEDED, Outcome.WON]
    assert b"x-hedgerow-alternatives" not in client.answer_headers
    assert len(world.gateway.keeping) == 0


def test_a_request_without_losers_keeps_nothing() -> None:
    client, _, _ = run({"a": whole("eins", 1.0), "b": REFUSED}, policy=Policy(delay=5.0, total=60.0))
    assert text_of(client) == "eins"
    assert b"x-hedgerow-alternatives" not in client.answer_headers


def test_what_is_kept_is_forgotten_after_its_time() -> None:
    def look(world: World, client: RecordingExchange) -> Any:
        early = page(world, client)
        late: list[RecordingExchange] = []
        world.loop.call_later(52.0, lambda: late.append(page(world, client)))
        return early, late

    _, (early, late), world = run({"a": whole("eins", 4.0), "b": whole("one", 1.0)}, look)
    assert (early.status, late[0].status) == (200, 404)
    assert "its time is over" in shown(late[0])["error"]["message"]
    assert len(world.gateway.keeping) == 0


def test_the_same_question_sees_what_was_said_before() -> None:
    seen: list[Any] = []

    async def story(world: World) -> None:
        world.request(b'{"model":"fast","messages":[{"content":"hi","role":"user"}]}')
        await asyncio.sleep(10.0)
        again = world.request(
            b'{"stream":true,"messages":[{"role":"user","content":"hi"}], "model":"fast"}',
        )
        other = world.request(b'{"model":"fast","messages":[]}')
        await asyncio.sleep(0.6)
        seen.extend([shown(page(world, again)), b"x-hedgerow-alternatives" in other.answer_headers])
        await asyncio.sleep(5.0)
        seen.append(shown(page(world, again)))

    scripts: Scripts = {
        "a": [whole("eins", 4.0), Answer([(0.5, delta("one")), (2.0, STOP)]), whole("three", 0.5)],
        "b": [whole("one", 1.0), REFUSED, REFUSED],
    }
    play(scripts, story, policy=RACE, keep=KeepSettings(by_content=True))
    at_once, other, later = seen
    assert (texts(at_once), at_once["pending"]) == ([("one", 1, True), ("eins", 1, False)], 1)
    assert other is False
    assert texts(later) == [("one", 2, True), ("eins", 1, False)]
    assert len({each["request_id"] for each in later["alternatives"][0]["said_by"]}) == 2


def test_only_who_asked_sees_what_is_kept() -> None:
    mine, theirs = [(b"authorization", b"Bearer mine")], [(b"authorization", b"Bearer theirs")]
    dummy = [(b"authorization", b"Bearer dummy")]
    own, other = [*dummy, (b"x-api-key", b"own")], [*dummy, (b"x-api-key", b"other")]
    seen: list[int | None] = []

    async def story(world: World) -> None:
        world.gateway._tells_tenants = True  # as `install` does where a route keeps losers
        client, second = world.request(WHOLE, headers=mine), world.request(WHOLE, headers=own)
        await asyncio.sleep(9.0)
        seen.extend(page(world, client, *with_).status for with_ in (mine, theirs, []))
        seen.extend(page(world, second, *with_).status for with_ in (own, other, dummy))

    play({"a": whole("eins", 4.0), "b": whole("one", 1.0)}, story, policy=RACE, keep=KEEP)
    assert seen == [200, 404, 404] * 2


def test_a_client_that_leaves_before_the_win_stops_everything() -> None:
    async def story(world: World) -> None:
        client = world.request(WHOLE)
        await asyncio.sleep(0.5)
        client.leave()

    world = play({"a": whole("eins", 4.0), "b": whole("one", 1.0)}, story, policy=RACE, keep=KEEP)
    assert outcomes(world) == [Outcome.CLIENT_GONE] * 2
    assert world.pools["a"].cancelled_at == world.pools["b"].cancelled_at == [0.5]


def test_a_client_that_leaves_after_it_stops_only_its_own_answer() -> None:
    async def story(world: World) -> None:
        client = world.request(STREAM)
        await asyncio.sleep(2.0)
        client.leave()
        await asyncio.sleep(9.0)
        seen.append(shown(page(world, client)))

    seen: list[Any] = []
    slow, fast = Answer([(3.0, delta("eins")), (0.0, STOP)]), Answer([(1.0, delta("one")), (5.0, STOP)])
    world = play({"a": slow, "b": fast}, story, policy=RACE, keep=KEEP)
    assert outcomes(world) == [Outcome.KEPT, Outcome.CLIENT_GONE]
    assert (texts(seen[0]), seen[0]["pending"]) == ([("eins", 1, False)], 0)


def test_a_gateway_that_closes_breaks_off_who_runs_on() -> None:
    async def story(world: World) -> None:
        client = world.request(WHOLE)
        await asyncio.sleep(2.0)
        listening = page(world, client, EVENTS)
        world.gateway.close()
        assert listening.outcome == "whole"

    world = play({"a": whole("eins", 4.0), "b": whole("one", 1.0)}, story, policy=RACE, keep=KEEP)
    assert outcomes(world) == [Outcome.SUPERSEDED, Outcome.WON]
    assert world.pools["a"].cancelled_at == [2.0]


def test_rejected_answers_are_no_alternatives() -> None:
    def good(seen: Seen) -> bool:
        return "bad" not in seen.text

    policy = Policy(width=2, max_attempts=2, total=60.0, gates=GateSettings())
    scripts = {"a": whole("good", 4.0), "b": whole("bad", 1.0)}
    client, _, world = run(scripts, policy=policy, gates=[as_gate(good)])
    assert outcomes(world) == [Outcome.WON, Outcome.REJECTED]
    assert b"x-hedgerow-alternatives" not in client.answer_headers


def test_a_kept_loser_s_latency_and_health_are_learned_as_it_was() -> None:
    policy = Policy(width=2, max_attempts=2, total=60.0, learning=Learning(10, 1_000.0, 1, 1))
    _, _, world = run({"a": whole("eins", 4.0), "b": whole("one", 1.0)}, policy=policy)
    law = world.hedger._judge._latency.first_token("a", False, 7, 10.0)
    assert law is not None
    assert law.quantile(0.5) == pytest.approx(4.0, rel=0.01)


def test_a_budget_is_settled_when_the_loser_that_it_paid_for_is_over() -> None:
    answer = json.loads(document("zwei"))
    answer["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    slow = Answer([(0.0, json.dumps(answer).encode())], headers=JSON, head_after=4.0)
    price = Price.parse("1", "1")
    spent: list[int] = []

    async def story(world: World) -> None:
        world.request(WHOLE)
        for _ in range(2):
            await asyncio.sleep(3.0)
            spent.append(world.hedger.state(world.loop.time())["spend"]["route"]["nanousd"]["day"]["spent"])

    policy = Policy(width=2, max_attempts=2, total=60.0, limits=Limits(nanousd_per_day=10**9))
    play({"a": whole("one", 1.0), "b": slow}, story, policy=policy, keep=KEEP, prices={"a": price, "b": price})
    assert spent == [507_000, 120_000]


def test_other_pages_below_ours_are_not_sent_anywhere() -> None:
    async def story(world: World) -> None:
        clients.extend(
            world.request(b"", target=target, method=method)
            for target, method in [
                (b"/v1/hedgerow/requests/none/alternatives", b"GET"),
                (b"/v1/hedgerow/requests/none/alternatives", b"POST"),
                (b"/v1/hedgerow/requests/none", b"GET"),
                (b"/v1/hedgerow/x", b"GET"),
            ]
        )

    clients: list[RecordingExchange] = []
    world = play({"a": whole("eins", 1.0)}, story, keep=KEEP)
    assert [client.status for client in clients] == [404] * 4
    assert world.pools["a"].requests == []


HALF = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hi \\ud83d"},"finish_reason":"length"}]}'


def test_half_a_character_spoils_nothing() -> None:
    scripts = {"a": Answer([(4.0, HALF)], headers=JSON), "b": Answer([(1.0, HALF)], headers=JSON)}
    client, listening, world = run(scripts, lambda world, client: page(world, client, EVENTS), wait=2.0)
    assert client.text == HALF
    assert outcomes(world) == [Outcome.KEPT, Outcome.WON]
    assert [(name, data.get("agreement")) for _, name, data in told(listening)] == [
        ("alternative", 1),
        ("alternative", 2),
        ("done", None),
    ]


def test_a_loser_that_is_being_judged_when_its_rival_wins_is_kept() -> None:
    async def slow(seen: Seen, _request: bytes) -> None:
        await asyncio.sleep(3.0 if "slow" in seen.text else 0.5)

    policy = Policy(width=2, max_attempts=2, total=60.0, gates=GateSettings())
    scripts = {"a": whole("judged slowly", 1.0), "b": whole("judged fast", 1.5)}
    client, asked, world = run(scripts, page, policy=policy, gates=[OnLoop("slow", slow, 10.0)])
    assert (text_of(client), client.ended_at) == ("judged fast", 2.0)
    assert outcomes(world) == [Outcome.KEPT, Outcome.WON]
    assert texts(shown(asked)) == [("judged slowly", 1, False), ("judged fast", 1, True)]


def test_a_loser_too_long_to_be_held_is_broken_off_and_blames_nobody() -> None:
    slow = Answer([(2.0, delta("word ") * 100)] * 9)
    fast = Answer([(1.0, delta("one")), (0.0, STOP)])
    _, asked, world = run({"a": slow, "b": fast}, page, body=STREAM, limits=Held(held_bytes=25_000))
    assert outcomes(world) == [Outcome.SUPERSEDED, Outcome.WON]
    assert world.pools["a"].cancelled_at == [8.0]
    assert texts(shown(asked)) == [("one", 1, True)]
