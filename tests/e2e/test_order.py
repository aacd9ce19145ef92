"""The order of targets over sockets: several keys, races of the fastest, sessions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import openai
import pytest

from tests.e2e.support import MESSAGES, GatewayProcess, config
from tests.e2e.upstream import Answer, Received, Upstream, completion, whole

pytestmark = pytest.mark.e2e


def ask(gateway: GatewayProcess, times: int, **options: object) -> list[str]:
    """Send so many requests, one after the other; who answered them."""
    with openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client:
        create = client.chat.completions.with_raw_response.create
        raw = [create(model="fast", messages=MESSAGES, **options) for _ in range(times)]  # type: ignore[call-overload]  # any options
        return [each.headers["x-hedgerow-target"] for each in raw]


def key_of(received: Received) -> str:
    return received.headers["authorization"].removeprefix("Bearer ")


def test_a_429_blocks_one_key_and_the_client_does_not_notice() -> None:
    refused = whole(b'{"error":{"message":"slow down"}}', status="429 Too Many Requests", headers=["retry-after: 60"])

    def answer(received: Received) -> Iterable[bytes]:
        yield refused if key_of(received) == "sk-two" else whole(completion("hi"))

    with Upstream(answer) as upstream:
        settings = config(upstream.base_url)
        settings["targets"]["primary"]["api_keys"] = ["sk-one", "sk-two", "sk-three"]
        with GatewayProcess(settings) as gateway:
            assert ask(gateway, 13) == ["primary"] * 13
            used = Counter(map(key_of, upstream.requests))
            assert used["sk-two"] == 1
            assert used["sk-one"] + used["sk-three"] == 13
            assert min(used["sk-one"], used["sk-three"]) >= 5
            assert "key 2 of target primary is out for 60 s" in gateway.log
            assert "sk-t" not in gateway.log


def after(seconds: float) -> Answer:
    def answer(_: Received) -> Iterable[bytes]:
        time.sleep(seconds)
        yield whole(completion("hi"))

    return answer


def test_of_three_the_two_fastest_race() -> None:
    with Upstream(after(0.2)) as slow, Upstream(after(0.01)) as fast, Upstream(after(0.04)) as second:
        settings = config(slow.base_url, fast.base_url, second.base_url)
        hedge = {"mode": "race", "outage": {"max_tokens": 1000, "token_ratio": 1}}
        settings["routes"]["fast"] |= {"hedge": hedge, "order": {"by": "fastest", "explore": "0%"}}
        with GatewayProcess(settings) as gateway:
            ask(gateway, 30)  # ten for each
            time.sleep(5.5)  # the gateway compares every five seconds
            ask(gateway, 1)
            time.sleep(0.5)
            before = len(slow.requests), len(fast.requests), len(second.requests)
            assert set(ask(gateway, 10)) == {"backup"}
            raced = [len(each.requests) for each in (slow, fast, second)]
            assert [now - then for now, then in zip(raced, before, strict=True)] == [0, 10, 10]


def test_a_session_stays_at_one_target() -> None:
    with Upstream(after(0.0)) as one, Upstream(after(0.0)) as two:
        settings = config(one.base_url, two.base_url, order="rotate", sticky={"by": ["x-session-id", "user"]})
        with GatewayProcess(settings) as gateway:
            first = ask(gateway, 5, extra_headers={"x-session-id": "s-1"})
            other = ask(gateway, 5, user="u-1")
            assert (len(set(first)), len(set(other))) == (1, 1)
            assert {*ask(gateway, 2)} == {"primary", "backup"}
