"""The blueprint: what the settings mean, whole, in a form that can be sent to the serving process."""

from __future__ import annotations

from math import inf
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.config import Settings, loads
from hedgerow.errors import ConfigError
from hedgerow.gateway.blueprint import (
    Blueprint,
    Certificate,
    Reading,
    Replay,
    RouteBlueprint,
    ServerBlueprint,
    TargetBlueprint,
)
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.http.client_settings import PoolSettings
from hedgerow.http.limits import Limits
from hedgerow.policy.account import Limits as Allowance
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.budget import Share
from hedgerow.policy.latency.cells import Learning
from hedgerow.policy.naming import RouteNames
from hedgerow.policy.order import Rotate
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Conditions, Policy
from hedgerow.wire.continuing import Form

FULL = """\
targets:
  a:
    base_url: https://a.example:8443/v1
    api_key: sk-a
    model: m-1
    account: acme
    idempotency_header: X-Request-Key
    continues: prefix_echo
    headers: {X-Team: t-secret, OpenAI-Organization: org}
    connections: {max: 7, queue: 3, queue_timeout: 100ms, connect_timeout: 1.5s, idle_timeout: 1m30s}
    tls: {verify: false}
    proxy: http://me:pw@proxy.example:3128/
    price: {input: 0.25, output: 2, request: "0.01"}
    weight: 3
    breaker: {failure_ratio: off, failures: 7, slow_after: 2s, slow_ratio: 40%, minimum: 5, window: 30s, open_for: 8s}
  b: {base_url: https://b.example/v1, api_key_file: key.txt, tls: {ca_file: ca.pem}, proxy: off}
  c: {base_url: https://c.example/v1}
routes:
  fast:
    targets: [a, b, b]
    hedge: {delay: 1500ms, max_hedges: 2, budget: 12.5%}
    max_attempts: 2
    timeouts: {first_token: 3s, stall: 2s, total: 1m}
  "slow-*":
    targets: [c, a]
    order: rotate
    hedge: {delay: off, budget: off}
    failover: {budget: off}
    timeouts: {first_token: 5s, stall: 6s, total: 7s}
  learned:
    targets: [a, a, a]
    hedge:
      delay: ema(p95)
      mode: shadow
      target: p99.9
      min_delay: 100ms
      max_delay: 1s
      warmup: {samples: 20, delay: off}
      window: {samples: 50, age: 10m}
      max_hedges: 2
      budget: 100%
      burst: 3
      per_minute: 0.5
      allow: [n]
      max_input_tokens: 50000
      only_if: {streaming: true, max_tokens_below: 4096, headers: {X-Priority: High}}
      rollout: 12.5%
      kill_switch: true
      quota_keep: 30%
      quota_share: 10%
      outage: {max_tokens: 50, token_ratio: 0.25}
    failover: {budget: 30%, burst: 20, per_minute: 0}
    spend: {usd_per_hour: 1, usd_per_day: 2.50, usd_per_month: 30, tokens_per_minute: 40}
    background: true
    reasoning_counts: false
    nonstream_as_stream: true
    on_stall: continue
    idempotency: {window: 1h, linger: 0s, streams: true}
    endpoints: [/v1/x]
server:
  listen: "[::1]:8081"
  tls: {cert: cert.pem, key: key.pem}
  api_keys: [ck-1, ck-2]
  limits: {header_bytes: 16KiB, body_bytes: 1MB, held_bytes: 2048, answer_bytes: 1GiB, replay_bytes: 1MiB}
  timeouts: {header: 1s, body: 2s, idle: 3s, drain: 4s}
  reuse_port: true
  default_route: slow-*
  log_level: debug
  budget: {hedges: 5%, failovers: 6%, burst: 7, tokens_per_minute: 8}
  tenant_budget: {tokens_per_minute: 9}
"""

DOLLAR = 1_000_000_000
UNTOUCHED = Policy(
    min_delay=0.05,
    max_delay=30.0,
    warmup_delay=2.0,
    learning=Learning(1000, 1800.0, 100, 100),
    throttle=ThrottleSettings(20.0, 1.0),
)
"""What a route says when it says nothing, but for the parts below."""

PASSTHROUGH = """\
targets: {a: {base_url: https://a.example/v1, api_key: passthrough}}
routes: {fast: {targets: [a]}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name in ("key.txt", "ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("sk-b\n")
    return loads(FULL, {}, folder=tmp_path)


def sent(blueprint: Blueprint) -> Blueprint:
    """What arrives at the serving process."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(blueprint), type=Blueprint)


def test_targets_arrive_whole_with_their_secrets(settings: Settings, tmp_path: Path) -> None:
    arrived = sent(blueprint_of(settings, environ={}))
    assert arrived.targets == {
        "a": TargetBlueprint(
            base_url="https://a.example:8443/v1",
            account="acme",
            secret="sk-a",
            passthrough=False,
            model="m-1",
            headers=[(b"x-team", b"t-secret"), (b"openai-organization", b"org")],
            pool=PoolSettings(
                max_connections=7,
                max_waiting=3,
                queue_timeout=0.1,
                connect_timeout=1.5,
                idle_timeout=90.0,
                verify=False,
                proxy="http://me:pw@proxy.example:3128",
            ),
            price=Price(250_000_000, 2_000_000_000, 10_000_000),
            price_from="config",
            weight=3,
            idempotency_header="X-Request-Key",
            continues=Form.PREFIX_ECHO,
            breaker=BreakerSettings(
                failure_ratio=None,
                failures=7,
                slow_after=2.0,
                slow_ratio=0.4,
                minimum=5,
                window=30.0,
                open_for=8.0,
                open_at_most=12.0,
            ),
        ),
        "b": TargetBlueprint(
            base_url="https://b.example/v1",
            account=settings.targets["b"].account_name,
            secret="sk-b",
            passthrough=False,
            model=None,
            headers=[],
            pool=PoolSettings(ca_file=str(tmp_path / "ca.pem")),
            beside_book="None",
        ),
        "c": TargetBlueprint(
            base_url="https://c.example/v1",
            account="c.example",
            secret=None,
            passthrough=False,
            model=None,
            headers=[],
            pool=PoolSettings(),
            beside_book="None",
        ),
    }


def test_a_target_that_passes_the_clients_key_on_has_none_of_its_own() -> None:
    target = sent(blueprint_of(loads(PASSTHROUGH, {}), environ={})).targets["a"]
    assert (target.passthrough, target.secret, target.account) == (True, None, "a.example#passthrough")


def test_routes_arrive_whole_and_a_delay_that_is_off_never_comes(settings: Settings) -> None:
    assert sent(blueprint_of(settings, environ={})).routes == {
        "fast": RouteBlueprint(
            targets=("a", "b", "b"),
            policy=msgspec.structs.replace(
                UNTOUCHED,
                delay="1.5s",
                max_hedges=2,
                limits=Allowance(Share(0.125, 50.0, 1.0), Share(0.2, 50.0, 1.0)),
                first_token=3.0,
                stall=2.0,
                total=60.0,
            ),
            reading=Reading(total=60.0),
        ),
        "slow-*": RouteBlueprint(
            targets=("c", "a"),
            policy=msgspec.structs.replace(
                UNTOUCHED, order=Rotate(), delay="off", limits=Allowance(), first_token=5.0, stall=6.0, total=7.0
            ),
            reading=Reading(total=7.0),
        ),
        "learned": RouteBlueprint(
            targets=("a", "a", "a"),
            policy=Policy(
                delay="ema(p95)",
                min_delay=0.1,
                max_delay=1.0,
                target=0.999,
                warmup_delay=inf,
                learning=Learning(window=50, age=600.0, min_samples=50, warmup=20),
                shadow=True,
                max_hedges=2,
                max_attempts=3,
                limits=Allowance(
                    Share(1.0, 3.0, 0.5),
                    Share(0.3, 20.0, 0.0),
                    nanousd_per_hour=DOLLAR,
                    nanousd_per_day=DOLLAR * 5 // 2,
                    nanousd_per_month=30 * DOLLAR,
                    tokens_per_minute=40,
                ),
                conditions=Conditions(
                    streaming=True,
                    max_tokens_below=4096,
                    traits=frozenset({"headers: x-priority: High"}),
                    max_input_tokens=50_000,
                    background=True,
                ),
                rollout=0.125,
                kill_switch=True,
                quota_keep=0.3,
                quota_share=0.1,
                throttle=ThrottleSettings(50.0, 0.25),
                first_token=60.0,
                stall=30.0,
                total=600.0,
            ),
            reading=Reading(
                reasoning_counts=False,
                as_stream=True,
                allow=frozenset({"n"}),
                on_stall="continue",
                traits=((b"x-priority", b"high", "headers: x-priority: High"),),
                total=600.0,
            ),
            endpoints=("/v1/x",),
            replay=Replay(window=3600.0, linger=0.0, streams=True),
        ),
    }


def test_the_caps_of_all_routes_arrive_whole(settings: Settings) -> None:
    arrived = sent(blueprint_of(settings, environ={}))
    share = Share(0.05, 7.0), Share(0.06, 7.0)
    assert arrived.budget == Allowance(*share, tokens_per_minute=8)
    assert arrived.tenant_budget == Allowance(tokens_per_minute=9)


@pytest.mark.parametrize(("most", "budget", "capped"), [(1, "100%", False), (2, "100%", True), (1, "99%", True)])
def test_a_budget_that_cannot_be_passed_is_none(most: int, budget: str, capped: bool) -> None:
    text = f"{PASSTHROUGH.rstrip()[:-2]}, hedge: {{max_hedges: {most}, budget: {budget}}}}}}}"
    assert (blueprint_of(loads(text, {}), environ={}).routes["fast"].policy.limits.hedges is not None) == capped


def test_the_server_arrives_whole(settings: Settings, tmp_path: Path) -> None:
    arrived = sent(blueprint_of(settings, environ={}))
    assert arrived.default_route == "slow-*"
    assert arrived.server == ServerBlueprint(
        host="::1",
        port=8081,
        reuse_port=True,
        certificate=Certificate(cert=str(tmp_path / "cert.pem"), key=str(tmp_path / "key.pem")),
        api_keys=("ck-1", "ck-2"),
        http=Limits(
            header_bytes=16 * 1024, body_bytes=1_000_000, header_timeout=1.0, body_timeout=2.0, idle_timeout=3.0
        ),
        held_bytes=2048,
        answer_bytes=1 << 30,
        replay_bytes=1 << 20,
        drain=4.0,
        log_level="debug",
        metrics=True,
        metrics_tokens=("ck-1", "ck-2"),
    )


KEYED = PASSTHROUGH.replace("passthrough", "k")
TOKEN, ADMIN = "a-scrapers-own-token", "an-admins-own-token"


@pytest.mark.parametrize(
    ("server", "tokens"),
    [
        ("", None),
        ("api_keys: [c]", ("c",)),
        (f"admin: {{token: {ADMIN}}}", (ADMIN,)),
        (f"api_keys: [c], admin: {{token: {ADMIN}}}, metrics: {{token: {TOKEN}}}", (TOKEN, ADMIN)),
        (f"metrics: {{token: {TOKEN}}}", (TOKEN,)),
        ("api_keys: [c], metrics: {public: true}", None),
    ],
)
def test_who_may_scrape(server: str, tokens: tuple[str, ...] | None) -> None:
    blueprint = blueprint_of(loads(f"{KEYED}server: {{{server}}}\n", {}), environ={})
    assert blueprint.server.metrics_tokens == tokens


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (f"metrics: {{token: {TOKEN}, public: true}}", "drop public, or the token"),
        (f"api_keys: [{TOKEN}], metrics: {{token: {TOKEN}}}", "so every client has it"),
        (f"admin: {{token: {TOKEN}}}, metrics: {{token: {TOKEN}}}", "who scrapes could change the gateway"),
        ("metrics: {token: short}", "is too short"),
        ("metrics: {shared: /no/such/folder}", "there is no folder /no/such"),
    ],
)
def test_a_token_that_keeps_nobody_out_is_a_problem(server: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        loads(f"{KEYED}server: {{{server}}}\n", {})


def test_a_target_that_obeys_the_environment_gets_its_proxy_from_there(settings: Settings) -> None:
    environ = {"HTTPS_PROXY": "http://proxy.example:8080"}
    targets = blueprint_of(settings, environ=environ).targets
    assert {name: target.pool.proxy for name, target in targets.items()} == {
        "a": "http://me:pw@proxy.example:3128",
        "b": None,
        "c": "http://proxy.example:8080",
    }


def test_no_part_of_a_blueprint_shows_what_it_holds(settings: Settings) -> None:
    blueprint = blueprint_of(settings, environ={})
    shown = f"{blueprint!r} {blueprint.server!r} {blueprint.targets!r} {blueprint}"
    assert not [secret for secret in ("sk-a", "sk-b", "ck-1", "t-secret", "pw") if secret in shown]


def test_a_route_is_found_by_its_name_then_by_the_longest_pattern() -> None:
    names = RouteNames(["gpt-*", "gpt-5*", "*", "gpt-5-nano", "odd*name"])
    found = {model: names.find(model) for model in ("gpt-5-nano", "gpt-5-mini", "gpt-4", "claude", "", "odd*name")}
    assert found == {
        "gpt-5-nano": "gpt-5-nano",
        "gpt-5-mini": "gpt-5*",
        "gpt-4": "gpt-*",
        "claude": "*",
        "": "*",
        "odd*name": "odd*name",
    }
    assert RouteNames(["gpt-*", "fast"]).find("claude") is None


@given(st.lists(st.text("ab*", max_size=4)), st.text("ab", max_size=4))
def test_settings_and_gateway_mean_the_same_route(names: list[str], model: str) -> None:
    wanted = ["other", *(f"{name.replace('*', '')}{'*' * name.endswith('*')}" for name in names if name.strip("*"))]
    settings = Settings.model_validate(
        {
            "targets": {"t": {"base_url": "http://127.0.0.1:9/v1"}},
            "routes": {name: {"targets": ["t"]} for name in wanted},
        }
    )
    assert RouteNames(blueprint_of(settings, environ={}).routes).find(model) == settings.route_for(model)
