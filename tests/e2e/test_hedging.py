"""The promise itself, measured on the labs' own clocks: who wins when, who is cancelled when.

Times in the labs' logs and `time.monotonic()` here are one clock (docs/lab.md), in steps of a millisecond.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.raw import Client, Reply
from tests.e2e.support import GatewayProcess, Labs, assert_within, chat, config, script, until

pytestmark = pytest.mark.e2e

ROUNDS = 20
DELAY = 0.06
FIRST_TOKEN = 0.03
GRAIN = 0.002
"""What a clock of whole milliseconds may be off at both ends of an interval."""

STALL = {"x-lab-script-primary": script(fault="stall")}
BACKUP = {"x-lab-script-backup": script(ttft_ms=1000 * FIRST_TOKEN, gap_ms=1, tokens=5)}


@pytest.fixture(scope="module")
def hedging(running: Labs) -> Iterator[GatewayProcess]:
    with GatewayProcess(config(*(lab.base_url for lab in running), delay=f"{DELAY:g}s")) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def patient(running: Labs) -> Iterator[GatewayProcess]:
    """Never hedges within a test's time."""
    with GatewayProcess(config(*(lab.base_url for lab in running))) as gateway:
        yield gateway


def record(lab: LabProcess, key: str) -> dict[str, Any]:
    """The one request with this key, once it is over."""
    until(lambda: any(one["closed_at"] is not None for one in lab.log(key=key)))
    [one] = lab.log(key=key)
    return one


async def one_by_one(gateway: GatewayProcess, headers: dict[str, str], **request: Any) -> list[tuple[float, Reply]]:
    """ROUNDS chat requests on one connection, with the times they were sent at; their keys are 0, 1, 2..."""
    client = await Client.connect(gateway.address)
    seen = []
    for key in range(ROUNDS):
        sent = time.monotonic()
        seen.append((sent, await client.chat(chat(**request), {"x-lab-key": str(key), **headers})))
    client.leave()
    return seen


def test_a_role_only_stall_is_beaten_at_delay_plus_backup_time(hedging: GatewayProcess, labs: Labs) -> None:
    """LiteLLM, Portkey, TensorZero and Envoy take headers or a role for an answer, and wait for what stalls (B1)."""
    replies = asyncio.run(one_by_one(hedging, STALL | BACKUP, stream=True))
    pairs = [(record(labs[0], str(key)), record(labs[1], str(key))) for key in range(ROUNDS)]
    for _, reply in replies:
        assert reply.whole
        assert reply.body.endswith(b"data: [DONE]\n\n")
        assert b'"content":"backup"' in reply.body
        assert (reply.target, reply.headers["x-hedgerow-hedged"]) == ("backup", "true")
    assert {loser["ending"] for loser, _ in pairs} == {"cancelled_before_token"}
    assert {winner["ending"] for _, winner in pairs} == {"completed"}

    first = [reply.head_at - sent for sent, reply in replies]
    assert min(first) >= DELAY + FIRST_TOKEN - GRAIN, "the hedge started too early"
    assert_within([each - DELAY - FIRST_TOKEN for each in first], bound=0.050)
    assert_within([loser["closed_at"] - winner["first_token_at"] for loser, winner in pairs], bound=0.050)
    # The loser dies while the winner streams: nobody waits for its end.
    assert sum(loser["closed_at"] <= winner["closed_at"] for loser, winner in pairs) > ROUNDS / 2


def test_a_whole_answer_is_hedged_as_well(hedging: GatewayProcess, labs: Labs) -> None:
    replies = asyncio.run(one_by_one(hedging, {"x-lab-script-primary": script(fault="hang")} | BACKUP))
    pairs = [(record(labs[0], str(key)), record(labs[1], str(key))) for key in range(ROUNDS)]
    for _, reply in replies:
        assert (reply.status, reply.whole, reply.target) == (200, True, "backup")
    assert {loser["ending"] for loser, _ in pairs} == {"cancelled_before_headers"}
    answered = [winner["headers_at"] - winner["started_at"] for _, winner in pairs]
    assert min(answered) >= FIRST_TOKEN - GRAIN
    late = [r.head_at - sent - DELAY - took for (sent, r), took in zip(replies, answered, strict=True)]
    assert min(late) >= -2 * GRAIN
    assert_within(late, bound=0.050)
    assert_within([loser["closed_at"] - winner["headers_at"] for loser, winner in pairs], bound=0.050)


def test_a_primary_that_answers_in_time_is_left_alone(hedging: GatewayProcess, labs: Labs) -> None:
    quick = {"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=3)}
    replies = asyncio.run(one_by_one(hedging, quick, stream=True))
    alone = [reply for _, reply in replies if reply.headers["x-hedgerow-attempts"] == "1"]
    assert {reply.target for reply in alone} == {"primary"}
    # On a machine that stops for the length of the delay a hedge is right; most of the time it must not.
    assert len(alone) > ROUNDS * 0.8
    assert labs[1].stats()["requests"] == ROUNDS - len(alone)


LEAVING = {
    "waiting for headers": (script(fault="hang"), True, "cancelled_before_headers"),
    "after headers, before the first token": (script(fault="stall"), True, "cancelled_before_token"),
    "in mid-stream": (script(ttft_ms=1, gap_ms=1, fault="stall", at=3), True, "cancelled_mid_stream"),
    "waiting for a whole answer": (script(fault="hang"), False, "cancelled_before_headers"),
}


@pytest.mark.parametrize("phase", LEAVING)
def test_a_client_that_leaves_closes_the_upstream_within_100_ms(
    patient: GatewayProcess, labs: Labs, phase: str
) -> None:
    behaviour, streaming, ending = LEAVING[phase]
    lab = labs[0]

    async def leave(key: str) -> float:
        client = await Client.connect(patient.address)
        client.send(
            "POST", "/v1/chat/completions", chat(stream=streaming), {"x-lab-script": behaviour, "x-lab-key": key}
        )
        if ending == "cancelled_mid_stream":
            await client.head()
            seen = b""
            while seen.count(b'"content":') < 4:  # the role-only chunk has one, too
                seen += await client.piece()
        else:
            await asyncio.to_thread(until, lambda: bool(lab.log(key=key)))
        client.leave()
        return time.monotonic()

    left = [asyncio.run(leave(str(key))) for key in range(ROUNDS)]
    records = [record(lab, str(key)) for key in range(ROUNDS)]
    assert {one["ending"] for one in records} == {ending}
    assert {one["headers_at"] is not None for one in records} == {ending != "cancelled_before_headers"}
    assert_within([one["closed_at"] - at for one, at in zip(records, left, strict=True)], bound=0.100)


def test_a_client_that_leaves_while_two_attempts_run_closes_both(hedging: GatewayProcess, labs: Labs) -> None:
    async def leave(key: str) -> float:
        client = await Client.connect(hedging.address)
        headers = {"x-lab-script": script(fault="stall"), "x-lab-key": key}
        client.send("POST", "/v1/chat/completions", chat(stream=True), headers)
        await asyncio.to_thread(until, lambda: bool(labs[1].log(key=key)))
        client.writer.close()  # in good order: a FIN instead of a reset
        return time.monotonic()

    left = [asyncio.run(leave(str(key))) for key in range(ROUNDS // 4)]
    for lab in labs:
        records = [record(lab, str(key)) for key in range(ROUNDS // 4)]
        assert {one["ending"] for one in records} == {"cancelled_before_token"}
        assert_within([one["closed_at"] - at for one, at in zip(records, left, strict=True)], bound=0.100)
