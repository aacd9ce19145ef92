"""A simulated provider's answers, byte by byte and second by second, in virtual time without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hedgerow.lab.accounts import Ending
from hedgerow.lab.options import LabOptions
from hedgerow.testing import VirtualLoop, run_virtual
from tests.unit.lab_support import EXACT, Bench, Client, in_lab, sleep


def test_a_stream_is_role_then_tokens_then_finish_each_at_its_time() -> None:
    def then(bench: Bench, client: Client) -> None:
        assert (client.status, client.over, client.over_at) == (200, "end", 1.5)
        assert client.answer_headers[b"content-type"] == b"text/event-stream; charset=utf-8"
        times, events = zip(*client.events(), strict=True)
        assert times == (0.0, 1.0, 1.25, 1.5, 1.5, 1.5)
        deltas = [event["choices"][0]["delta"] for event in events[:-1]]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert [delta.get("content") for delta in deltas[1:]] == ["lab", " A", " hedge", None]
        assert [event["choices"][0]["finish_reason"] for event in events[:-1]] == [None] * 4 + ["stop"]
        assert events[-1] is None
        assert {event["id"] for event in events[:-1]} == {"chatcmpl-lab-0"}
        [record] = bench.log()
        assert record["ending"] == "completed"
        assert (record["started_at"], record["headers_at"], record["first_token_at"], record["closed_at"]) == (
            *(0.0, 0.0),
            *(1.0, 1.5),
        )

    in_lab(lambda bench: bench.chat(EXACT), then=then)


def test_usage_comes_in_a_chunk_of_its_own_when_asked_for() -> None:
    def then(_: Bench, client: Client) -> None:
        events = [event for _, event in client.events()]
        assert events[-2]["choices"] == []
        assert events[-2]["usage"] == {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        assert all(event["usage"] is None for event in events[:-2])

    in_lab(lambda bench: bench.chat(EXACT, stream_options={"include_usage": True}), then=then)


def test_usage_is_not_mentioned_when_not_asked_for() -> None:
    def then(_: Bench, client: Client) -> None:
        assert b"usage" not in client.text

    in_lab(lambda bench: bench.chat(EXACT), then=then)


def test_a_token_is_about_two_hundred_bytes() -> None:
    def then(_: Bench, client: Client) -> None:
        assert 180 <= len(client.writes[2][1]) <= 220

    in_lab(lambda bench: bench.chat(EXACT), then=then)


def test_a_whole_answer_comes_when_its_last_token_is_due() -> None:
    def then(_: Bench, client: Client) -> None:
        assert (client.status, client.over, client.over_at) == (200, "respond", 1.5)
        choice = client.json["choices"][0]
        assert choice["message"]["content"] == "lab A hedge"
        assert choice["finish_reason"] == "stop"
        assert client.json["usage"]["completion_tokens"] == 3

    in_lab(lambda bench: bench.chat(EXACT, stream=False), then=then)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_the_clients_limit_sets_the_length_and_is_the_reason_to_finish(field: str) -> None:
    def then(_: Bench, client: Client) -> None:
        assert client.json["usage"]["completion_tokens"] == 7
        assert client.json["choices"][0]["finish_reason"] == "length"

    limit: dict[str, Any] = {field: 7}
    in_lab(lambda bench: bench.chat(stream=False, **limit), then=then)


def test_an_answer_without_tokens_is_a_role_and_a_finish() -> None:
    def then(bench: Bench, client: Client) -> None:
        assert [event and event["choices"][0]["finish_reason"] for _, event in client.events()] == [None, "stop", None]
        assert bench.log()[0]["first_token_at"] is None

    in_lab(lambda bench: bench.chat({"tokens": 0, "ttft_ms": 10}), then=then)


def test_speed_divides_every_time() -> None:
    def then(bench: Bench, client: Client) -> None:
        assert client.over_at == pytest.approx(0.15)
        assert bench.log()[0]["ttft"] == pytest.approx(0.1)

    in_lab(lambda bench: bench.chat(EXACT), then=then, speed=10.0)


def test_a_repeated_run_draws_the_same_times_whatever_the_order_of_keys() -> None:
    def times(keys: str) -> dict[str, float]:
        found: dict[str, float] = {}

        def act(bench: Bench) -> Client:
            return [bench.chat(key=key, max_tokens=1) for key in keys][-1]

        def then(bench: Bench, _: Client) -> None:
            found.update({f"{record['key']}{record['seen']}": record["ttft"] for record in bench.log()})

        in_lab(act, then=then, preset="openai")
        return found

    assert times("abcab") == times("cbbaa")
    assert len(set(times("abcab").values())) == 5


def test_a_sequence_is_walked_by_arrival(tmp_path: Any) -> None:
    path = tmp_path / "times.csv"
    path.write_text("ttft_ms\n300\n100\n200\n")

    def act(bench: Bench) -> Client:
        return [bench.chat(key="same") for _ in range(4)][-1]

    def then(bench: Bench, _: Client) -> None:
        assert [record["ttft"] for record in bench.log()] == pytest.approx([0.3, 0.1, 0.2, 0.3])

    in_lab(act, then=then, latencies=path, order="sequence")


FAULTS: list[tuple[dict[str, Any], str | None, float, int]] = [
    ({"fault": "cut"}, "abort", 1.25, 1),
    ({"fault": "cut", "at": 0}, "abort", 1.0, 0),
    ({"fault": "cut", "at": 3}, "abort", 1.75, 3),
    ({"fault": "close", "at": 2}, "end", 1.5, 2),
    ({"fault": "error", "at": 0}, "end", 1.0, 0),
    ({"fault": "error", "at": 2}, "end", 1.5, 2),
    ({"fault": "stall"}, None, 0.0, 0),
    ({"fault": "stall", "at": 2}, None, 0.0, 2),
]


@pytest.mark.parametrize(("fault", "over", "at", "tokens"), FAULTS)
def test_a_fault_strikes_a_stream_in_place_of_its_token(
    fault: dict[str, Any], over: str | None, at: float, tokens: int
) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert (client.over, client.over_at) == (over, at)
        assert b"[DONE]" not in client.text
        assert b'"finish_reason":"stop"' not in client.text
        contents = [e["choices"][0]["delta"]["content"] for _, e in client.events() if "error" not in e]
        assert contents == ["", "lab", " A", " hedge"][: tokens + 1]
        [record] = bench.log()
        assert record["ending"] == ("open" if over is None else "failed")
        assert (record["fault"], record["tokens"]) == (fault["fault"], tokens)

    in_lab(lambda bench: bench.chat(EXACT | fault), then=then)


def test_an_error_frame_carries_the_status_and_code_asked_for() -> None:
    def then(_: Bench, client: Client) -> None:
        error = client.events()[-1][1]["error"]
        assert (error["code"], error["type"]) == (529, "overloaded_error")

    in_lab(lambda bench: bench.chat(EXACT | {"fault": "error", "status": 529}), then=then)


def test_a_hang_sends_nothing_until_the_client_leaves() -> None:
    def act(bench: Bench) -> Client:
        return bench.chat({"fault": "hang"})

    def then(bench: Bench, client: Client) -> None:
        assert not client.started
        client.leave()
        assert bench.log()[0]["ending"] == Ending.CANCELLED_BEFORE_HEADERS
        assert bench.log()[0]["closed_at"] == 5.0

    in_lab(act, until=5.0, then=then)


def test_a_slow_body_takes_twenty_times_as_long_from_its_token_on() -> None:
    script = EXACT | {"fault": "slow", "at": 2}

    def stream(_: Bench, client: Client) -> None:
        assert [at for at, _ in client.events()] == [0.0, 1.0, 1.25, 6.25, 6.25, 6.25]

    def whole(_: Bench, client: Client) -> None:
        assert client.over_at == 6.25

    in_lab(lambda bench: bench.chat(script), then=stream)
    in_lab(lambda bench: bench.chat(script, stream=False), then=whole)


@pytest.mark.parametrize(("fault", "over"), [("cut", "abort"), ("close", "end"), ("stall", None)])
def test_a_whole_answer_breaks_off_after_half_its_body(fault: str, over: str | None) -> None:
    def then(_: Bench, client: Client) -> None:
        assert (client.status, client.over) == (200, over)
        assert client.text.startswith(b'{"id":"chatcmpl-lab-0"')
        with pytest.raises(ValueError):
            json.loads(client.text)

    in_lab(lambda bench: bench.chat(EXACT | {"fault": fault}, stream=False), then=then)


def test_an_error_inside_a_whole_answer_is_an_error_body_with_status_200() -> None:
    def then(_: Bench, client: Client) -> None:
        assert (client.status, client.json["error"]["type"]) == (200, "server_error")

    in_lab(lambda bench: bench.chat(EXACT | {"fault": "error"}, stream=False), then=then)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 429, 500, 503, 529])
def test_a_status_is_answered_at_once_with_an_openai_error_and_costs_nothing(status: int) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert (client.status, client.over_at) == (status, 0.0)
        assert set(client.json["error"]) == {"message", "type", "param", "code"}
        assert (bench.stats()["failed"], bench.stats()["billed_nano_usd"]) == (1, 0)

    in_lab(lambda bench: bench.chat({"status": status}), then=then)


def test_a_refusal_carries_retry_headers_code_and_delay() -> None:
    script = {"status": 429, "retry_after": 1.2, "code": "insufficient_quota", "delay_ms": 500}

    def then(_: Bench, client: Client) -> None:
        assert client.over_at == 0.5
        assert client.json["error"]["code"] == "insufficient_quota"
        assert client.answer_headers[b"retry-after"] == b"2"
        assert client.answer_headers[b"retry-after-ms"] == b"1200"
        assert client.answer_headers[b"x-why"] == b"test"

    in_lab(lambda bench: bench.chat(script | {"headers": {"x-why": "test"}}), then=then)


@pytest.mark.parametrize(
    ("leave_at", "stream", "ending", "tokens"),
    [
        (0.5, True, "cancelled_before_token", 0),
        (1.3, True, "cancelled_mid_stream", 2),
        (0.5, False, "cancelled_before_headers", 0),
        (1.3, False, "cancelled_before_headers", 2),
    ],
)
def test_a_client_that_leaves_stops_generation_and_its_tokens_are_wasted(
    leave_at: float, stream: bool, ending: str, tokens: int
) -> None:
    def then(bench: Bench, client: Client) -> None:
        client.leave()
        [record] = bench.log()
        assert (record["ending"], record["tokens"], record["closed_at"]) == (ending, tokens, leave_at)
        stats = bench.stats()
        assert (stats["open"], stats[ending], stats["tokens_wasted"], stats["tokens_generated"]) == (
            0,
            1,
            *[tokens] * 2,
        )
        assert stats["billed_nano_usd"] == 9 * 250 + tokens * 2000 == stats["billed_wasted_nano_usd"]

    in_lab(lambda bench: bench.chat(EXACT, stream=stream), until=leave_at, then=then)


@pytest.mark.parametrize(
    ("mode", "dollars"), [("full", 9 * 250 + 3 * 2000), ("generated", 9 * 250 + 2000), ("input", 9 * 250), ("none", 0)]
)
def test_what_a_cancel_costs_is_as_the_lab_is_told(mode: str, dollars: int) -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions(billed_on_cancel=mode))
        client = bench.chat(EXACT)
        await sleep(loop, 1.1)
        client.leave()
        [record] = bench.log()
        assert (record["tokens"], record["planned"], record["billed_nano_usd"]) == (1, 3, dollars)
        assert bench.stats()["billed_nano_usd"] == dollars

    run_virtual(main)


@pytest.mark.parametrize(
    ("leave_at", "stream", "ending", "before"),
    [
        (0.5, True, "cancelled_before_token", 0),
        (1.3, True, "cancelled_mid_stream", 2),
        (0.5, False, "cancelled_before_headers", 0),
        (1.3, False, "cancelled_before_headers", 2),
    ],
)
def test_a_lab_that_ignores_cancels_generates_and_bills_to_the_end(
    leave_at: float, stream: bool, ending: str, before: int
) -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions(ignore_cancel=True))
        client = bench.chat(EXACT, stream=stream)
        await sleep(loop, leave_at)
        sent = len(client.writes)
        client.leave()
        [record] = bench.log()
        assert (record["ending"], record["left_at"], record["closed_at"]) == ("open", leave_at, None)
        await sleep(loop, 2.0)
        [record] = bench.log()
        assert (record["ending"], record["left_at"], record["closed_at"]) == (ending, leave_at, 1.5)
        assert (record["tokens"], record["tokens_after"]) == (3, 3 - before)
        stats = bench.stats()
        assert (stats["open"], stats[ending], stats["completed"], stats["ran_on"]) == (0, 1, 0, 1)
        assert (stats["tokens_wasted"], stats["tokens_after_cancel"]) == (3, 3 - before)
        assert stats["billed_nano_usd"] == 9 * 250 + 3 * 2000 == stats["billed_wasted_nano_usd"]
        assert len(client.writes) == sent

    run_virtual(main)


def test_a_lab_that_ignores_cancels_goes_on_with_a_stream_that_was_held_back() -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions(ignore_cancel=True))
        client = bench.chat(EXACT)
        await sleep(loop, 1.1)
        assert client.listener is not None
        client.listener.on_pause()
        await sleep(loop, 0.1)
        client.leave()
        await sleep(loop, 2.0)
        [record] = bench.log()
        assert (record["ending"], record["tokens"], record["tokens_after"]) == ("cancelled_mid_stream", 3, 2)

    run_virtual(main)


@pytest.mark.parametrize("fault", ["hang", "stall"])
def test_what_never_ends_is_not_waited_for_by_a_lab_that_ignores_cancels(fault: str) -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions(ignore_cancel=True))
        client = bench.chat({"fault": fault})
        await sleep(loop, 5.0)
        client.leave()
        stats = bench.stats()
        assert (stats["open"], stats["ran_on"], stats["tokens_after_cancel"]) == (0, 0, 0)

    run_virtual(main)


def test_after_a_client_left_no_timer_fires() -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions())
        client = bench.chat(EXACT)
        await sleep(loop, 1.1)
        sent = len(client.writes)
        client.leave()
        await sleep(loop, 10.0)
        assert len(client.writes) == sent

    run_virtual(main)


def test_a_slow_reader_holds_tokens_back_and_gets_them_all_on_resume() -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions())
        client = bench.chat({"ttft_ms": 1000, "gap_ms": 1000, "tokens": 10})
        await sleep(loop, 2.5)
        assert client.listener is not None
        client.listener.on_pause()
        await sleep(loop, 5.0)
        assert [at for at, _ in client.events()] == [0.0, 1.0, 2.0]
        client.listener.on_resume()
        await sleep(loop, 100.0)
        assert [at for at, _ in client.events()] == [0.0, 1.0, 2.0, *[7.5] * 5, 8.0, 9.0, *[10.0] * 3]

    run_virtual(main)
