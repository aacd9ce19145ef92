"""The lab's control over faults, its control API and its books."""

from __future__ import annotations

import pytest

from hedgerow.lab.accounts import Accounts, Prices
from hedgerow.lab.options import LabOptions
from hedgerow.testing import VirtualLoop, run_virtual
from tests.unit.lab_support import Bench, Client, in_lab


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
        assert (echo["method"], echo["target"], echo["body_bytes"]) == ("POST", "/v1/files?a=b", 3)
        assert echo["body_sha256"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        shown = dict(echo["headers"])
        assert shown["x-mine"] == "yes"
        assert shown["authorization"].startswith("sha256:")
        assert b"sk-1" not in client.text
        assert bench.stats()["other_requests"] == 1

    in_lab(lambda bench: bench.send("POST", "/v1/files?a=b", raw=b"abc", headers=headers), then=then)


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
    assert Prices.usd_per_million(0.0375, 0.15, 0.01).bill(3, 1, 2) == 38 + 20 + 150


def test_a_long_run_forgets_the_oldest_requests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.lab.accounts.KEYS_REMEMBERED", 2)
    accounts = Accounts(Prices(0, 0, 0))
    seen = [accounts.open(key=k, model="m", stream=True, input_tokens=1, now=0.0).seen for k in "aabcca"]
    assert seen == [0, 1, 0, 0, 1, 0]
