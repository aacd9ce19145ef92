"""The demo's checks: silent when all adds up, and naming each thing that does not."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.demo.reply import Answer
from hedgerow.demo.verify import Books, cancel_latency, inconsistencies, losses, other_draws
from hedgerow.lab.accounts import Accounts, Ending, Prices, Record
from hedgerow.lab.text import text

KEYS = ["0", "1"]


class World:
    """Two requests: "0" answered by alpha alone, "1" by beta after alpha was silent for too long."""

    def __init__(self) -> None:
        self.accounts = {"alpha": Accounts(Prices(0, 0, 0)), "beta": Accounts(Prices(0, 0, 0))}
        self.answers = [self.win("alpha", "0", attempts=1)]
        self.loser = self.open("alpha", "1")
        self.answers.append(self.win("beta", "1", attempts=2))
        self.accounts["alpha"].close(self.loser, Ending.CANCELLED_BEFORE_TOKEN, 2.003)

    def open(self, lab: str, key: str) -> Record:
        record = self.accounts[lab].open(key=key, model="m", stream=True, input_tokens=1, now=1.0)
        record.ttft = 0.5
        return record

    def win(self, lab: str, key: str, *, attempts: int) -> Answer:
        record = self.open(lab, key)
        record.first_token_at, record.tokens = 2.0, 3
        self.accounts[lab].close(record, Ending.COMPLETED, 3.0)
        return Answer(
            key=key,
            sent_at=1.0,
            first_token_at=2.0,
            text=text(lab, 3),
            answer_id=f"chatcmpl-{lab}-{record.seq}",
            attempts=attempts,
            hedged=attempts > 1,
            target=lab,
            problem=None,
        )

    @property
    def books(self) -> list[Books]:
        return [Books(name, accounts.stats, list(accounts.log)) for name, accounts in self.accounts.items()]

    def findings(self) -> list[str]:
        return inconsistencies("phase", KEYS, self.answers, self.books, delay=0.9)


def test_a_consistent_world_has_no_findings() -> None:
    assert World().findings() == []


def test_cancel_latency_runs_from_the_winners_token_to_the_losers_close() -> None:
    world = World()
    latency = cancel_latency(losses(world.answers, world.books))
    assert latency is not None
    assert latency.losers == 1
    assert latency.p50 == latency.max == pytest.approx(0.003)


def test_without_losers_there_is_no_cancel_latency() -> None:
    assert cancel_latency([]) is None


def test_a_request_answered_twice_or_never_is_found() -> None:
    world = World()
    world.answers[1] = msgspec.structs.replace(world.answers[1], key="0")
    assert "phase: 2 x was not answered exactly once: 0, 1" in world.findings()


def test_another_text_than_the_winners_is_found() -> None:
    world = World()
    world.answers[0] = msgspec.structs.replace(world.answers[0], text="beta A hedge")
    assert world.findings() == ["phase: 1 x got a text that its winner did not generate: 0 (from alpha)"]


def test_a_broken_answer_is_found_with_its_reason() -> None:
    world = World()
    world.answers[0] = msgspec.structs.replace(world.answers[0], problem="status 502")
    assert world.findings() == ["phase: 1 x was not answered whole: 0 (status 502)"]


def test_a_loser_that_was_not_cancelled_is_found() -> None:
    world = World()
    world.loser.ending = Ending.COMPLETED
    assert world.findings() == ["phase: 1 x lost without seeing its cancel: 1 (completed)"]


def test_an_attempt_that_the_gateway_did_not_report_is_found() -> None:
    world = World()
    world.answers[1] = msgspec.structs.replace(world.answers[1], attempts=1, hedged=False)
    assert world.findings() == ["phase: 1 x has attempts miscounted: 1 (gateway 1, labs 2)"]


def test_an_attempt_that_is_neither_the_first_nor_a_hedge_is_found() -> None:
    world = World()
    world.answers[1] = msgspec.structs.replace(world.answers[1], hedged=False)
    assert world.findings() == ["phase: 3 attempts are not 2 requests and 0 hedges"]


def test_a_hedge_cancelled_before_it_was_connected_is_no_fault() -> None:
    world = World()
    world.answers[0] = msgspec.structs.replace(world.answers[0], attempts=2, hedged=True)
    assert world.findings() == []


def test_a_hedge_cancelled_before_it_was_connected_is_no_fault_when_all_came_late() -> None:
    world = World()
    world.answers[0] = msgspec.structs.replace(world.answers[0], attempts=2, hedged=True, first_token_at=2.5)
    assert world.findings() == []


def test_a_hedge_that_no_lab_saw_for_long_is_found() -> None:
    world = World()
    world.accounts["alpha"].log[0].ttft = 1.5
    world.answers[0] = msgspec.structs.replace(world.answers[0], attempts=2, hedged=True, first_token_at=2.5)
    assert world.findings() == ["phase: 1 x has attempts miscounted: 0 (gateway 2, labs 1)"]


def test_a_request_left_open_at_a_lab_is_found() -> None:
    world = World()
    world.accounts["beta"].stats.open = 1
    assert world.findings() == ["phase: 1 requests are still open at the labs"]


def test_other_draws_in_the_second_phase_void_the_comparison() -> None:
    before, after = World(), World()
    assert other_draws(before.books, after.books) == []
    after.loser.ttft = 0.75
    assert other_draws(before.books, after.books) == ["1 x met another draw in the second phase: 1 (at alpha)"]


def test_only_a_few_of_many_faults_are_named() -> None:
    keys = [str(number) for number in range(10)]
    findings = inconsistencies("phase", keys, [], [], delay=None)
    assert findings == ["phase: 10 x was not answered exactly once: 0, 1, 2 and 7 more"]
