"""What requests come to, told once each when none of their attempts runs any more; in virtual time."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from hedgerow.events import Certainty, Outcome, RequestBilled, RequestFinished
from hedgerow.gateway.core import Limits as Held
from hedgerow.policy.account import Limits
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.ask import EXPECTED_OUTPUT
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy
from hedgerow.policy.terms import OnCancel, Terms
from tests.engine.scripted import JSON, REFUSED, Answer, World, play
from tests.engine.test_flight import STALLED, error
from tests.engine.test_gates import STREAM, WHOLE, document

PRICES = {name: Price(1_000_000, 10_000_000) for name in "ab"}
POLICY = Policy(delay=2.0, first_token=20.0, total=60.0)
REPORT = b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3}}\n\ndata: [DONE]\n\n'
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}\n\n'
TOLD = Answer([(0.5, WORD), (0.5, WORD), (0.0, REPORT)])
LATE = Answer([(5.0, WORD), (0.5, WORD), (0.0, REPORT)])


def billed(world: World) -> list[RequestBilled]:
    """The bills, each the last that was told of its request."""
    for request in (found := world.of(RequestBilled)):
        own = [event for event in world.events if getattr(event, "request_id", "") == request.request_id]
        assert own[-1] is request
        assert sum(isinstance(event, RequestFinished) for event in own) == 1
    return found


def outcomes(one: RequestBilled) -> list[tuple[int, str, Outcome, Certainty, int | None]]:
    return [(each.attempt, each.target, each.outcome, each.certainty, each.nanousd) for each in one.bills]


async def ask(world: World) -> None:
    world.request()


def test_a_request_of_one_attempt_comes_to_what_that_reported() -> None:
    (one,) = billed(play({"a": TOLD, "b": TOLD}, ask, policy=POLICY, prices=PRICES))
    assert outcomes(one) == [(0, "a", Outcome.WON, Certainty.EXACT, 42)]
    assert (one.route, one.at) == ("fast", 1.0)


def test_a_hedged_request_comes_to_both_its_attempts_in_the_order_of_their_launch() -> None:
    """LiteLLM's issues 13245 and 14457: what a cancelled attempt has used is on no bill (B17)."""
    (one,) = billed(play({"a": STALLED, "b": TOLD}, ask, policy=POLICY, prices=PRICES))
    loser, winner = one.bills
    assert outcomes(one)[1] == (1, "b", Outcome.WON, Certainty.EXACT, 42)
    assert (loser.attempt, loser.outcome, loser.certainty) == (0, Outcome.SUPERSEDED, Certainty.ESTIMATED)
    assert (loser.nanousd or 0) > 0
    assert winner.role == "hedge"


def test_what_was_refused_costs_nothing() -> None:
    (one,) = billed(play({"a": REFUSED, "b": error(500, "broken")}, ask, policy=POLICY, prices=PRICES))
    assert [(each.nanousd, each.certainty) for each in one.bills] == [(0, Certainty.EXACT)] * 2


def test_a_client_that_leaves_is_told_of_with_what_it_left() -> None:
    async def story(world: World) -> None:
        client = world.request()
        await asyncio.sleep(3.0)
        client.leave()

    (one,) = billed(play({"a": STALLED, "b": LATE}, story, policy=POLICY, prices=PRICES))
    assert [each.outcome for each in one.bills] == [Outcome.CLIENT_GONE] * 2


def test_a_request_whose_losers_run_on_is_billed_when_they_have_ended() -> None:
    scripts = {"a": LATE, "b": TOLD}
    (one,) = billed(play(scripts, ask, policy=POLICY, prices=PRICES, keep=KeepSettings()))
    assert one.at == 5.5
    assert outcomes(one) == [
        (0, "a", Outcome.KEPT, Certainty.EXACT, 42),
        (1, "b", Outcome.WON, Certainty.EXACT, 42),
    ]


def test_what_is_handed_through_is_billed_without_a_price() -> None:
    async def story(world: World) -> None:
        world.request(b'{"model":"fast"}', target=b"/v1/images/generations")

    (one,) = billed(play({"a": Answer([(0.0, b"{}")], headers=JSON), "b": TOLD}, story, policy=POLICY, prices=PRICES))
    assert outcomes(one) == [(0, "a", Outcome.WON, Certainty.ESTIMATED, None)]


@pytest.mark.parametrize("spoils", ["commit", "deliver", "skip"])
def test_a_fault_of_our_own_leaves_no_attempt_out(spoils: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(f"hedgerow.gateway.flight.Flight.{spoils}", fails)
    policy = Policy(delay=2.0, max_attempts=3, max_hedges=2)
    (one,) = billed(play({"a": STALLED, "b": LATE}, ask, policy=policy, prices=PRICES))
    assert [each.attempt for each in one.bills] == [0, 1]
    assert {each.certainty for each in one.bills} <= {Certainty.ESTIMATED, Certainty.EXACT, Certainty.AT_LEAST}


def test_nothing_is_worked_out_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[object] = []

    def count(*args: object, **_more: object) -> tuple[()]:
        worked_out.append(args)
        return ()

    monkeypatch.setattr("hedgerow.gateway.records.bills", count)

    async def story(world: World) -> None:
        for watched in (False, True):
            world.hedger.watched = watched
            world.request()
            await asyncio.sleep(10.0)

    world = play({"a": TOLD, "b": TOLD}, story, policy=POLICY, prices=PRICES)
    assert (len(worked_out), len(world.of(RequestBilled))) == (1, 1)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("body", [STREAM, WHOLE], ids=["stream", "whole"])
def test_budgets_go_by_the_bill_of_a_hedge_that_lost(body: bytes, *, watched: bool) -> None:
    """The winner tells how long prompt and answers are, after the hedge has lost and whether or not anybody listens."""
    usage = {"prompt_tokens": 12, "completion_tokens": 700}
    answer = json.dumps({**json.loads(document("hello")), "usage": usage}).encode()
    stream = Answer([(5.0, WORD), (1.0, REPORT.replace(b"3}", b"700}"))])
    spent: list[int] = []

    async def story(world: World) -> None:
        full = {name: Terms(price, stream=OnCancel.FULL, whole=OnCancel.FULL) for name, price in PRICES.items()}
        world.hedger._judge._shared.terms = full
        world.hedger.watched = watched
        world.request(body)
        for _ in range(2):
            await asyncio.sleep(5.5)
            spent.append(world.hedger.state(world.loop.time())["spend"]["route"]["nanousd"]["day"]["spent"])

    scripts = {"a": stream if body == STREAM else Answer([(0.0, answer)], headers=JSON, head_after=5.0), "b": STALLED}
    limits = Limits(nanousd_per_day=10**9)
    world = play(scripts, story, policy=msgspec.structs.replace(POLICY, limits=limits), prices=PRICES)
    came_to = 12 + 7_000  # as the winner has read and said
    assert spent[-1] == came_to
    assert [one.bills[1].nanousd for one in world.of(RequestBilled) if watched] == [came_to] * watched
    if body == STREAM:
        assert spent[0] == (len(STREAM) >> 2) + 10 * EXPECTED_OUTPUT  # as long as it may still be more


def test_a_price_that_nobody_knows_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        world.request()
        world.request()

    play({"a": TOLD, "b": TOLD}, story, policy=POLICY, prices={})
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "targets.a.price: none is known (of 'model-a'), so nothing is known of what that costs"
    ]


LONG = Answer([(3.0, WORD), *[(0.5, WORD)] * 20, (0.0, REPORT)])
DRAIN = KeepSettings(time=30.0, drains=True)


def test_a_loser_that_is_drained_is_read_to_its_end_and_costs_what_it_reports() -> None:
    """claude-code-hub's issues 1250 and 1254: losers that were read to their end had to be billed, and once."""
    world = play({"a": LONG, "b": TOLD}, ask, policy=POLICY, prices=PRICES, keep=DRAIN)
    (one,) = billed(world)
    assert one.at == 13.0
    assert outcomes(one) == [(0, "a", Outcome.KEPT, Certainty.EXACT, 42), (1, "b", Outcome.WON, Certainty.EXACT, 42)]
    assert len(world.gateway.keeping) == 0


def test_nothing_of_what_is_drained_is_held_however_long_it_is() -> None:
    held: list[int] = []

    async def story(world: World) -> None:
        world.request()
        await asyncio.sleep(3.0)
        (straggler,) = world.gateway.keeping.stragglers
        for _ in range(15):
            await asyncio.sleep(0.5)
            held.append(sum(map(len, straggler._attempt.held)))

    limits = Held(held_bytes=3 * len(WORD))
    (one,) = billed(play({"a": LONG, "b": TOLD}, story, policy=POLICY, prices=PRICES, keep=DRAIN, limits=limits))
    assert one.bills[0].outcome is Outcome.KEPT
    assert set(held) == {0}


def test_draining_is_bounded() -> None:
    scripts = {"a": LONG, "b": TOLD}
    brief = KeepSettings(time=5.0, drains=True)
    (one,) = billed(play(scripts, ask, policy=POLICY, prices=PRICES, keep=brief))
    assert (one.bills[0].outcome, one.at) == (Outcome.SUPERSEDED, 7.5)
    poor = KeepSettings(tokens=1, drains=True)
    (one,) = billed(play(scripts, ask, policy=POLICY, prices=PRICES, keep=poor))
    assert (one.bills[0].outcome, one.at) == (Outcome.SUPERSEDED, 3.0)


def test_a_request_that_may_not_be_stored_is_drained_all_the_same() -> None:
    async def story(world: World) -> None:
        world.request(headers=[(b"cache-control", b"no-store")])

    (one,) = billed(play({"a": LONG, "b": TOLD}, story, policy=POLICY, prices=PRICES, keep=DRAIN))
    assert one.bills[0].outcome is Outcome.KEPT
