"""A simulated provider's answers, byte by byte and second by second, in virtual time without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hedgerow.events import Headers
from hedgerow.http.exchange import Listener
from hedgerow.lab.accounts import Accounts, Ending, Prices
from hedgerow.lab.options import LabOptions
from hedgerow.lab.routes import LabApp
from hedgerow.testing import VirtualLoop, run_virtual


class Client:
    """An exchange that notes what it is told, and when."""

    def __init__(self, loop: VirtualLoop, method: bytes, target: bytes, body: bytes, headers: Headers) -> None:
        self._loop = loop
        self.method, self.target, self.body, self.headers = method, target, body, headers
        self.peer = "127.0.0.1:1"
        self.listener: Listener | None = None
        self.started = False
        self.status: int | None = None
        self.answer_headers: dict[bytes, bytes] = {}
        self.writes: list[tuple[float, bytes]] = []
        self.over: str | None = None
        self.over_at = 0.0

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        self.start(status, headers)
        self.write(body)
        self._finish("respond")

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        assert not self.started
        self.started, self.status, self.answer_headers = True, status, dict(headers)

    def write(self, data: bytes) -> None:
        assert self.started
        assert self.over is None
        self.writes.append((self._loop.time(), data))

    def end(self) -> None:
        self._finish("end")

    def abort(self) -> None:
        self._finish("abort")

    def _finish(self, how: str) -> None:
        assert self.over is None
        self.over, self.over_at = how, self._loop.time()

    def leave(self) -> None:
        assert self.listener is not None
        self.over = "left"
        self.listener.on_disconnect()

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.writes)

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    def events(self) -> list[tuple[float, Any]]:
        """Time and JSON of every SSE event; b"[DONE]" as None."""
        found: list[tuple[float, Any]] = []
        for at, data in self.writes:
            assert data.endswith(b"\n\n")
            for event in data[:-2].split(b"\n\n"):
                assert event.startswith(b"data: ")
                found.append((at, None if event[6:] == b"[DONE]" else json.loads(event[6:])))
        return found


class Bench:
    """A lab in virtual time, and clients of it."""

    def __init__(self, loop: VirtualLoop, options: LabOptions) -> None:
        self._loop = loop
        self.app = LabApp(options, loop)

    def send(
        self, method: str, target: str, body: object = None, headers: dict[str, str] | None = None, raw: bytes = b""
    ) -> Client:
        fields = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        data = raw if body is None else json.dumps(body).encode()
        client = Client(self._loop, method.encode(), target.encode(), data, fields)
        self.app(client)
        return client

    def chat(self, script: dict[str, Any] | None = None, key: str = "k", **body: Any) -> Client:
        headers = {"x-lab-key": key} | ({} if script is None else {"x-lab-script": json.dumps(script)})
        chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True} | body
        return self.send("POST", "/v1/chat/completions", chat, headers)

    def stats(self) -> Any:
        return self.send("GET", "/lab/stats").json

    def log(self, query: str = "") -> Any:
        return self.send("GET", f"/lab/log{query}").json["records"]


def in_lab(
    act: Callable[[Bench], Client], *, until: float = 1000.0, then: Callable[[Bench, Client], None], **options: Any
) -> None:
    """Act in a fresh lab, let virtual time pass, then look."""

    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions(**options))
        client = act(bench)
        await _sleep(loop, until)
        then(bench, client)

    run_virtual(main)


async def _sleep(loop: VirtualLoop, seconds: float) -> None:
    done = loop.create_future()
    loop.call_later(seconds, done.set_result, None)
    await done


EXACT: dict[str, Any] = {"ttft_ms": 1000, "gap_ms": 250, "tokens": 3}


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

    in_lab(lambda bench: bench.chat(stream=False, **{field: 7}), then=then)


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


def test_after_a_client_left_no_timer_fires() -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions())
        client = bench.chat(EXACT)
        await _sleep(loop, 1.1)
        sent = len(client.writes)
        client.leave()
        await _sleep(loop, 10.0)
        assert len(client.writes) == sent

    run_virtual(main)


def test_a_slow_reader_holds_tokens_back_and_gets_them_all_on_resume() -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions())
        client = bench.chat({"ttft_ms": 1000, "gap_ms": 1000, "tokens": 10})
        await _sleep(loop, 2.5)
        assert client.listener is not None
        client.listener.on_pause()
        await _sleep(loop, 5.0)
        assert [at for at, _ in client.events()] == [0.0, 1.0, 2.0]
        client.listener.on_resume()
        await _sleep(loop, 100.0)
        assert [at for at, _ in client.events()] == [0.0, 1.0, 2.0, *[7.5] * 5, 8.0, 9.0, *[10.0] * 3]

    run_virtual(main)


def test_faults_strike_as_often_as_the_mix_says_and_the_same_requests_each_time() -> None:
    def struck() -> list[str]:
        found: list[str] = []

        def act(bench: Bench) -> Client:
            return [bench.chat(key=f"r{i}", max_tokens=1) for i in range(2000)][-1]

        def then(bench: Bench, _: Client) -> None:
            found.extend(record["key"] for record in bench.log() if record["fault"] == "429")

        in_lab(act, then=then, fault="429:0.1", preset="fast")
        return found

    first = struck()
    assert abs(len(first) - 200) < 4 * (2000 * 0.1 * 0.9) ** 0.5
    assert struck() == first


def test_a_script_for_this_provider_only_beats_one_for_all() -> None:
    def act(bench: Bench) -> Client:
        chat = {"model": "m", "messages": []}
        headers = {"x-lab-script": '{"status": 500}', "x-lab-script-primary": '{"status": 503}'}
        bench.send("POST", "/v1/chat/completions", chat, {"x-lab-script-backup": "not for us"})
        return bench.send("POST", "/v1/chat/completions", chat, headers)

    in_lab(act, then=lambda _, client: assert_status(client, 503), name="primary")


def assert_status(client: Client, status: int) -> None:
    assert client.status == status


def test_behaviour_can_be_changed_and_taken_back_at_run_time() -> None:
    def act(bench: Bench) -> Client:
        assert bench.send("POST", "/lab/behaviour", {"script": {"status": 503}}).status == 200
        assert bench.chat().status == 503
        assert bench.chat({"status": 401}).status == 401
        bench.send("POST", "/lab/behaviour", {"fault": "500:1"})
        assert bench.chat().status == 503
        bench.send("POST", "/lab/behaviour", {"script": None})
        assert bench.chat().status == 500
        bench.send("POST", "/lab/behaviour", {"fault": None})
        return bench.chat(stream=False)

    in_lab(act, then=lambda _, client: assert_status(client, 200))


def test_reset_starts_new_books_and_the_old_ones_keep_their_open_requests() -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions(preset="openai"))
        first = bench.chat(key="a")
        before = bench.log()[0]["ttft"]
        bench.send("POST", "/lab/reset")
        assert (bench.stats()["requests"], bench.stats()["open"]) == (0, 0)
        first.leave()
        assert bench.stats()["open"] == 0
        bench.chat(key="a")
        assert bench.log()[0]["ttft"] == before
        assert bench.send("POST", "/lab/reset", {"seed": 2}).json["seed"] == 2
        bench.chat(key="a")
        assert bench.log()[0]["ttft"] != before

    run_virtual(main)


def test_the_log_can_be_read_by_key_and_from_a_place_on() -> None:
    def act(bench: Bench) -> Client:
        return [bench.chat(key=key) for key in "aba"][-1]

    def then(bench: Bench, _: Client) -> None:
        assert [record["seq"] for record in bench.log("?key=a")] == [0, 2]
        assert [record["seq"] for record in bench.log("?after=0")] == [1, 2]
        assert [record["seen"] for record in bench.log("?key=a&after=0")] == [1]

    in_lab(act, then=then)


def test_the_key_is_the_header_else_the_user_else_the_messages() -> None:
    def act(bench: Bench) -> Client:
        chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "user": "u"}
        bench.send("POST", "/v1/chat/completions", chat, {"x-lab-key": "h"})
        bench.send("POST", "/v1/chat/completions", chat)
        bench.send("POST", "/v1/chat/completions", chat | {"user": None})
        return bench.send("POST", "/v1/chat/completions", chat | {"user": None, "model": "other"})

    def then(bench: Bench, _: Client) -> None:
        keys = [record["key"] for record in bench.log()]
        assert keys[:2] == ["h", "u"]
        assert keys[2] == keys[3]
        assert len(keys[2]) == 16

    in_lab(act, then=then)


BAD: list[tuple[str, str, bytes, int, str]] = [
    ("POST", "/v1/chat/completions", b"", 400, "Invalid request body"),
    ("POST", "/v1/chat/completions", b"[]", 400, "Expected `object`, got `array`"),
    ("POST", "/v1/chat/completions", b'{"messages":[]}', 400, "missing required field `model`"),
    ("POST", "/v1/chat/completions", b'{"model":"m","messages":[],"max_tokens":0}', 400, "must be at least 1, got 0"),
    ("POST", "/v1/chat/completions", b'{"model":"\xff"}', 400, "Invalid request body"),
    ("POST", "/lab/behaviour", b'{"scirpt": null}', 400, "unknown field `scirpt`"),
    ("POST", "/lab/behaviour", b'{"script": {"status": 1}}', 400, "Expected `int` >= 400 - at `$.script.status`"),
    ("POST", "/lab/behaviour", b'{"fault": "boom:1"}', 400, "'boom:1' is not STATUS:PROBABILITY"),
    ("POST", "/lab/reset", b'{"seed": "x"}', 400, "Expected `int | null`, got `str`"),
    ("GET", "/lab/log?after=x", b"", 400, "after: expected a number, got 'x'"),
    ("GET", "/lab/nothing", b"", 404, "No such path in the lab: /lab/nothing"),
    ("GET", "/", b"", 404, "No such path in the lab: /"),
]


@pytest.mark.parametrize(("method", "target", "body", "status", "message"), BAD)
def test_what_cannot_be_understood_is_said_so(method: str, target: str, body: bytes, status: int, message: str) -> None:
    def then(bench: Bench, client: Client) -> None:
        assert client.status == status
        assert message in client.json["error"]["message"]
        assert bench.stats()["requests"] == 0

    in_lab(lambda bench: bench.send(method, target, raw=body), then=then)


def test_other_paths_echo_the_request_without_its_secrets() -> None:
    headers = {"authorization": "Bearer sk-1", "x-mine": "yes"}

    def then(bench: Bench, client: Client) -> None:
        echo = client.json
        assert (echo["method"], echo["target"], echo["body_bytes"]) == ("POST", "/v1/embeddings?a=b", 3)
        assert echo["body_sha256"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        shown = dict(echo["headers"])
        assert shown["x-mine"] == "yes"
        assert shown["authorization"].startswith("sha256:")
        assert b"sk-1" not in client.text
        assert bench.stats()["other_requests"] == 1

    in_lab(lambda bench: bench.send("POST", "/v1/embeddings?a=b", raw=b"abc", headers=headers), then=then)


def test_the_models_are_listed() -> None:
    def then(_: Bench, client: Client) -> None:
        assert [model["id"] for model in client.json["data"]] == ["one", "two"]

    in_lab(lambda bench: bench.send("GET", "/v1/models"), then=then, models=("one", "two"))


def test_books_always_balance() -> None:
    def act(bench: Bench) -> Client:
        clients = [bench.chat(key=f"r{i}", max_tokens=5, stream=i % 2 == 0) for i in range(300)]
        for client in clients[::7]:
            if client.over is None:
                client.leave()
        return clients[-1]

    def then(bench: Bench, _: Client) -> None:
        stats = bench.stats()
        endings = ("completed", "failed", "cancelled_before_headers", "cancelled_before_token", "cancelled_mid_stream")
        assert stats["requests"] == 300 == stats["open"] + sum(stats[ending] for ending in endings)
        assert stats["open"] == sum(record["ending"] == "open" for record in bench.log())
        assert stats["tokens_generated"] == sum(r["tokens"] for r in bench.log() if r["ending"] != "open")
        assert min(stats[ending] for ending in endings[:4]) > 0

    in_lab(act, then=then, fault="500:0.1,cut:0.1,stall:0.1,hang:0.05,close:0.1,error:0.1")


def test_money_is_counted_in_whole_nano_dollars_rounded_half_up() -> None:
    prices = Prices.usd_per_million(0.0375, 0.15)
    assert [prices.bill(tokens, 0) for tokens in (1, 2, 1_000_000)] == [38, 75, 37_500_000]
    assert prices.bill(1, 1) == 188


def test_a_long_run_forgets_the_oldest_requests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.lab.accounts.KEYS_REMEMBERED", 2)
    accounts = Accounts(Prices(0, 0))
    seen = [accounts.open(key=k, model="m", stream=True, input_tokens=1, now=0.0).seen for k in "aabcca"]
    assert seen == [0, 1, 0, 0, 1, 0]
