"""Good configurations: what they mean, what is warned of, what editors and readers are told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hedgerow.config import (
    Address,
    Cap,
    Hedge,
    Price,
    Route,
    ServerSettings,
    Settings,
    Target,
    Timeouts,
    all_keys,
    json_schema,
    load,
    loads,
)
from hedgerow.config.describe import describe
from hedgerow.config.template import TEMPLATE
from hedgerow.policy import price as policy
from hedgerow.policy.delay import Auto, Fixed, Off, Percentile, Slo, Spec
from hedgerow.policy.gates import settings as gates
from hedgerow.policy.order import Rotate
from hedgerow.units import parse_duration, parse_size, show_duration, show_size

DOCS = Path(__file__).parents[2] / "docs"

FULL = """\
targets:
  a:
    protocol: [openai, anthropic]
    key_header: api-key
    stream_usage: false
    base_url: https://A.example:8443/v1/
    api_key: ${KEY}
    override: {model: m-1, max_tokens: 256, reasoning.effort: low, stop: null, metadata: {tier: [light]}}
    account: acme
    first_token: 90s
    idempotency_header: X-Request-Key
    continues: prefix_echo
    headers: {X-Team: "${TEAM:-none}", OpenAI-Organization: org}
    connections: {max: 7, queue: 0, queue_timeout: 100ms, connect_timeout: 1.5, idle_timeout: 1m30s}
    tls: {verify: false}
    proxy: http://me:pw@proxy.example:3128/
    price:
      {source: own, input: 0.25, output: "2.000000001", request: $0.01, cached_input: 0.025, cache_write: 0.3125,
       cache_write_1h: 0.5, above: {200000: {input: 0.5}}, tiers: {Flex: 50%, priority: {output: 4}}}
    billed_on_cancel: {stream: generated, whole: full}
    weight: 3
    breaker:
      {failure_ratio: off, failures: 7, slow_after: 2s, slow_ratio: 40%, minimum: 5, window: 30s, open_for: 10s,
       successes: 2}
  b:
    base_url: https://b.example/v1
    api_key_file: key.txt
    model: m-2
    proxy: off
    price: {request: 3}
  c:
    base_url: https://c.example/v1
    api_keys: [sk-c1, sk-c2]
    only_for: hedge
    region: eu
    on_cancel_failure: raise_delay
    supports: [tools]
    max_context: 128000
    price: {request: 2}
routes:
  fast:
    targets: [a, b, b]
    order: rotate
    sticky: {by: [x-session-id, user], ttl: 1h, sessions: 1000}
    hedge:
      delay: {slo: 1.2s}
      mode: shadow
      width: 3
      target: p99.9
      min_delay: 100ms
      max_delay: 1s
      warmup: {samples: 20, delay: off}
      window: {samples: 200, age: 10m}
      max_hedges: 0
      budget: 2.5%
      burst: 3
      per_minute: 0.5
      allow: [n, store]
      max_input_tokens: 50000
      only_if: {streaming: true, max_tokens_below: 4096, headers: {X-Priority: High}}
      rollout: 12.5%
      kill_switch: true
      quota_keep: 30%
      quota_share: 10%
      outage: {max_tokens: 50, token_ratio: 0.25, both_slow: 60%}
    gates:
      require: [non_empty, finished: {length: true}, json: {fenced: true}, matches: '^[{]', no_refusal: [sorry]]
      prefix: {tokens: 20, time: 1500ms}
      wait: 3s
      strict: false
      unhealthy: true
    failover: {budget: off, burst: 20, per_minute: 0}
    spend: {usd_per_hour: 1, usd_per_day: 2.50, usd_per_month: "$30", tokens_per_minute: 1000000}
    background: true
    experiment: {holdout: 12%}
    reasoning_counts: false
    nonstream_as_stream: true
    on_stall: continue
    idempotency: {window: 1h, linger: 0s, streams: true}
    endpoints: [/v1/audio/speech]
    losers: keep
    keep: {max_time: 5s, max_usd: 0.5, max_tokens: 9000, ttl: 1h, scope: content}
    max_attempts: 2
    timeouts: {first_token: 3s, stall: 2s, total: 1m}
  "gpt-*": {targets: [b]}
  "gpt-5*": {targets: [a, c]}
  "*": {targets: [b]}
server:
  listen: "[::1]:0"
  tls: {cert: cert.pem, key: key.pem}
  api_keys: ["${KEY}", "$${plain}"]
  admin: {token: 0123456789abcdef}
  budget:
    {hedges: 5%, failovers: 6%, burst: 7, usd_per_hour: 8, usd_per_day: 9, usd_per_month: 10, tokens_per_minute: 11}
  tenant_budget:
    {hedges: off, failovers: off, burst: 1, usd_per_hour: off, usd_per_day: off, usd_per_month: off,
     tokens_per_minute: off}
  prices: {file: prices.json, update: 6h, url: "https://prices.example/data.json"}
  reload: signal
  limits: {header_bytes: 16KiB, body_bytes: 1MB, held_bytes: 2048, answer_bytes: 1GiB, replay_bytes: 1MiB}
  timeouts: {header: 1s, body: 2s, idle: 3s, drain: 0s}
  reuse_port: true
  default_route: fast
  log_level: debug
  event_log: events.jsonl
  probes: found.json
  redis: rediss://:word@cache:6380/2
  ledger: {url: "postgres://me:pw@db.example:5433/costs", flush: 100ms, keep: 7d, keep_hourly: off, queue: 8MiB,
    content: on, content_bytes: 8KiB}
  traces: {endpoint: "http://collector:4318", headers: {x-key: word}, service_name: edge, sample: 10%}
  metrics: {enabled: true, public: false, token: fedcba9876543210, shared: .}
  log_format: json
  access_log: true
"""

ISSUE = """\
targets:
  openai: {protocol: openai, base_url: https://api.openai.com/v1, api_key: ${OPENAI_API_KEY}, model: gpt-5-mini}
  azure:  {protocol: openai, base_url: https://example.openai.azure.com/openai/v1, api_key: ${AZURE_KEY}, model: m}
routes:
  fast: {targets: [openai, azure], hedge: {delay: 2s}, timeouts: {first_token: 20s, stall: 10s, total: 120s}}
server: {listen: 127.0.0.1:8080}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "key.txt").write_text("sk-from-file\n")
    (tmp_path / "cert.pem").write_text("cert")
    (tmp_path / "key.pem").write_text("key")
    (tmp_path / "hedgerow.yaml").write_text(FULL)
    return tmp_path


@pytest.fixture
def full(folder: Path) -> Settings:
    return load(folder / "hedgerow.yaml", {"KEY": "sk-1"})


def test_the_whole_file_is_read(full: Settings, folder: Path) -> None:
    a, b = full.targets["a"], full.targets["b"]
    assert (a.base_url, a.secret, a.sent_model, a.account_name) == ("https://a.example:8443/v1", "sk-1", "m-1", "acme")
    assert a.extra_headers() == [(b"x-team", b"none"), (b"openai-organization", b"org")]
    assert a.connections.model_dump() == {
        "max": 7,
        "queue": 0,
        "queue_timeout": 0.1,
        "connect_timeout": 1.5,
        "idle_timeout": 90.0,
    }
    assert (a.tls.verify, a.proxy, b.proxy) == (False, "http://me:pw@proxy.example:3128", "off")
    fields = {"max_tokens": 256, "reasoning.effort": "low", "stop": None, "metadata": {"tier": ["light"]}}
    assert a.override == {"model": "m-1", **fields}
    assert (b.secret, b.sent_model, b.passthrough) == ("sk-from-file", "m-2", False)
    fast = full.routes["fast"]
    assert (fast.targets, fast.attempts) == (("a", "b", "b"), 2)
    assert (fast.order, a.weight, b.weight) == (Rotate(), 3, 1)
    assert fast.hedge.model_dump() == {
        "delay": Slo(1.2),
        "mode": "shadow",
        "width": 3,
        "target": 0.999,
        "min_delay": 0.1,
        "max_delay": 1.0,
        "warmup": {"samples": 20, "delay": None},
        "window": {"samples": 200, "age": 600.0},
        "max_hedges": 0,
        "budget": 0.025,
        "burst": 3.0,
        "per_minute": 0.5,
        "allow": ("n", "store"),
        "max_input_tokens": 50_000,
        "only_if": {"streaming": True, "max_tokens_below": 4096, "headers": {"x-priority": "High"}},
        "rollout": 0.125,
        "kill_switch": True,
        "quota_keep": 0.3,
        "quota_share": 0.1,
        "outage": {"max_tokens": 50.0, "token_ratio": 0.25, "both_slow": 0.6},
    }
    assert fast.gates.require == (
        gates.NonEmpty(),
        gates.Finished(length=True),
        gates.Json(fenced=True),
        gates.Matches("^[{]"),
        gates.NoRefusal(("sorry",)),
    )
    assert fast.gates.prefix.model_dump() == {"tokens": 20, "time": 1.5}
    assert (fast.gates.wait, fast.gates.strict, fast.gates.unhealthy) == (3.0, False, True)
    assert fast.failover.model_dump() == {"budget": None, "burst": 20.0, "per_minute": 0.0}
    assert fast.spend.model_dump() == {
        "usd_per_hour": 1_000_000_000,
        "usd_per_day": 2_500_000_000,
        "usd_per_month": 30_000_000_000,
        "tokens_per_minute": 1_000_000,
    }
    assert fast.background
    assert fast.experiment.holdout == 0.12
    assert a.price is not None
    price = a.price.over(policy.Price())
    assert msgspec.structs.astuple(price)[:6] == (
        *(250_000_000, 2_000_000_001, 10_000_000),
        *(25_000_000, 312_500_000, 500_000_000),
    )
    longer = policy.Price(500_000_000, 2_000_000_001, 10_000_000, 50_000_000, 625_000_000, 1_000_000_000)
    assert price.above == ((200_000, longer),)
    dear = {"output": 4_000_000_000}
    above = msgspec.structs.replace(longer, **dear)
    assert price.tiers["priority"] == msgspec.structs.replace(price, **dear, above=((200_000, above),), tiers={})
    assert msgspec.structs.astuple(price.tiers["flex"])[:3] == (125_000_000, 1_000_000_001, 5_000_000)
    assert a.billed_on_cancel == {"stream": "generated", "whole": "full"}
    assert list(a.breaker.model_dump().values()) == [None, 7, 2.0, 0.4, 5, 30.0, 10.0, 2]
    assert (fast.reasoning_counts, fast.nonstream_as_stream, fast.endpoints) == (False, True, ("/v1/audio/speech",))
    assert (a.protocol, a.key_header, a.stream_usage) == (("openai", "anthropic"), "api-key", False)
    assert (fast.losers, list(fast.keep.model_dump().values())) == ("keep", [5.0, 500_000_000, 9000, 3600.0, "content"])
    assert full.server.redis is not None
    assert full.server.redis.get_secret_value() == "rediss://:word@cache:6380/2"
    assert full.server.ledger.url is not None
    assert full.server.ledger.url.get_secret_value() == "postgresql://me:pw@db.example:5433/costs"
    assert list(full.server.ledger.model_dump().values())[1:] == [0.1, 7 * 86_400.0, None, 8 << 20, True, 8192]
    assert full.server.prices.model_dump() == {
        "file": folder / "prices.json",
        "update": 21_600.0,
        "url": "https://prices.example/data.json",
    }
    assert full.server.traces is not None
    assert full.server.traces.endpoint == "http://collector:4318/v1/traces"
    assert full.server.traces.sample == 0.1
    assert full.server.event_log == folder / "events.jsonl"
    assert fast.timeouts.model_dump() == {"first_token": 3.0, "stall": 2.0, "total": 60.0}
    server = full.server
    assert server.listen == Address("::1", 0)
    assert server.tls is not None
    assert (server.tls.cert, server.tls.key) == (folder / "cert.pem", folder / "key.pem")
    assert [key.get_secret_value() for key in server.api_keys] == ["sk-1", "${plain}"]
    assert list(server.limits.model_dump().values()) == [16 << 10, 10**6, 2048, 1 << 30, 1 << 20]
    assert list(server.timeouts.model_dump().values()) == [1.0, 2.0, 3.0, 0.0]
    assert (server.reuse_port, server.default_route, server.log_level) == (True, "fast", "debug")
    assert (server.admin.secret, server.reload) == ("0123456789abcdef", "signal")
    dollars = 1_000_000_000
    assert server.budget.model_dump() == {
        "usd_per_hour": 8 * dollars,
        "usd_per_day": 9 * dollars,
        "usd_per_month": 10 * dollars,
        "tokens_per_minute": 11,
        "hedges": 0.05,
        "failovers": 0.06,
        "burst": 7.0,
    }
    assert server.tenant_budget == Cap(burst=1.0)


def test_the_example_of_the_first_page_is_read_as_written() -> None:
    settings = loads(ISSUE, {"OPENAI_API_KEY": "a", "AZURE_KEY": "b"})
    timeouts = Timeouts(first_token=20.0, stall=10.0, total=120.0)
    hedge = Hedge(delay=Fixed(2.0))
    assert settings.routes == {"fast": Route(targets=("openai", "azure"), hedge=hedge, timeouts=timeouts)}
    assert [target.secret for target in settings.targets.values()] == ["a", "b"]
    assert settings.warnings == []


def test_a_model_finds_its_route_by_name_then_by_the_longest_pattern(full: Settings) -> None:
    wanted = {"fast": "fast", "gpt-4": "gpt-*", "gpt-5-mini": "gpt-5*", "claude": "*", None: "fast"}
    assert {model: full.route_for(model) for model in wanted} == wanted


def test_without_a_catch_all_an_unknown_model_has_no_route() -> None:
    settings = loads(ISSUE, {"OPENAI_API_KEY": "a", "AZURE_KEY": "b"})
    assert settings.route_for("other") is None
    assert settings.route_for(None) == "fast"


def test_the_settings_never_show_a_secret(full: Settings) -> None:
    shown = repr(full) + str(full) + repr(full.targets["a"].headers)
    for secret in ("sk-1", "sk-from-file", "me:pw", "'org'", "0123456789abcdef"):
        assert secret not in shown
    assert "sk-1" not in full.targets["a"].model_copy(update={"account": None}).account_name


def test_targets_share_an_account_when_host_and_key_are_the_same() -> None:
    one, two = (Target.model_validate({"base_url": f"https://a.example/{path}", "api_key": "k"}) for path in "xy")
    other_key = Target.model_validate({"base_url": "https://a.example/x", "api_key": "l"})
    no_key = Target(base_url="https://a.example")
    passthrough = Target(base_url="https://a.example", api_key="passthrough")
    assert one.account_name == two.account_name
    names = {one.account_name, other_key.account_name, no_key.account_name, passthrough.account_name}
    assert names == {one.account_name, other_key.account_name, "a.example", "a.example#passthrough"}
    assert len(names) == 4


def test_a_short_total_shortens_the_other_default_timeouts() -> None:
    route = Route.model_validate({"targets": ["a"], "timeouts": {"total": "5s"}})
    assert (route.timeouts.first_token, route.timeouts.stall) == (5.0, 5.0)


def test_sections_with_nothing_in_them_mean_the_defaults() -> None:
    text = "targets: {a: {base_url: 'http://a', tls: }}\nroutes: {r: {targets: [a], hedge: , timeouts: }}\nserver:\n"
    settings = loads(text, {})
    assert settings.server == ServerSettings()
    assert settings.routes["r"] == Route(targets=("a",))
    jsonschema.validate(yaml.safe_load(text), json_schema())


def test_anchors_and_merges_work_and_keep_their_own_keys() -> None:
    text = """\
targets:
  a: &a {base_url: https://a.example, connections: {max: 3}}
  b:
    base_url: https://b.example
    <<: *a
    model: m
routes: {r: {targets: [a, b]}}
"""
    b = loads(text, {}).targets["b"]
    assert (b.base_url, b.connections.max, b.model) == ("https://b.example", 3, "m")


def test_yaml_1_1_surprises_are_text() -> None:
    text = "targets: {no: {base_url: 'http://127.0.0.1', model: 'yes', account: 12:30}}\nroutes: {4: {targets: [no]}}\n"
    settings = loads(text, {})
    assert list(settings.targets) == ["no"]
    assert list(settings.routes) == ["4"]
    assert settings.targets["no"].account == "12:30"


@pytest.mark.parametrize(("written", "found"), [("on", True), ("true", True), ("off", False), ("false", False)])
def test_a_switch_is_written_either_way(written: str, found: bool) -> None:
    text = f"""\
targets: {{a: {{base_url: http://127.0.0.1}}}}
routes: {{r: {{targets: [a], hedge: {{kill_switch: {written}, only_if: {{streaming: {written}}}}}}}}}
server: {{access_log: {written}, ledger: {written}, reuse_port: "${{SWITCH}}"}}
"""
    settings = loads(text, {"SWITCH": written})
    hedge, server = settings.routes["r"].hedge, settings.server
    assert [hedge.kill_switch, hedge.only_if.streaming, server.access_log, server.reuse_port] == [found] * 4
    assert (server.ledger.url is not None) is found
    jsonschema.validate(
        yaml.load(text, Loader=yaml.BaseLoader) if written in ("on", "off") else yaml.safe_load(text), json_schema()
    )


@pytest.mark.parametrize(
    ("listen", "address", "loopback"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080), True),
        ("localhost:1", Address("localhost", 1), True),
        ("[::1]:8080", Address("::1", 8080), True),
        (":8080", Address(None, 8080), False),
        ("0.0.0.0:65535", Address("0.0.0.0", 65535), False),
        ("[::]:0", Address("::", 0), False),
    ],
)
def test_an_address_is_read_and_written_alike(listen: str, address: Address, loopback: bool) -> None:
    server = ServerSettings.model_validate({"listen": listen})
    assert (server.listen, server.listen.loopback, str(server.listen)) == (address, loopback, listen)


WARNED = """\
targets:
  a: {base_url: "http://10.0.0.1/v1", api_key: k, tls: {verify: false}}
  b: {base_url: "https://b.example/v1", api_key: passthrough, tls: {verify: false}}
  c: {base_url: "https://c.example/v1", api_key: passthrough}
  unused: {base_url: "https://c.example/v1"}
routes:
  lone: {targets: [a], hedge: {delay: 1s}}
  twins: {targets: [b, c], hedge: {delay: 0s}}
  once: {targets: [a, a], hedge: {delay: 1s}, max_attempts: 1}
  few: {targets: [a, a], hedge: {max_hedges: 2}}
server: {listen: ":8080"}
"""


def test_what_is_hardly_meant_is_warned_of_in_the_order_of_the_file() -> None:
    assert loads(WARNED, {}).warnings == [
        "hedgerow.yaml:2: targets.a.base_url: is plain http: the key and the prompts cross the network unencrypted",
        "hedgerow.yaml:2: targets.a.tls: has no effect on an http:// base_url",
        "hedgerow.yaml:3: targets.b.tls.verify: is false: anyone on the way can read the key and the prompts",
        "hedgerow.yaml:5: targets.unused: is not used by any route",
        (
            "hedgerow.yaml:7: routes.lone.hedge: has no effect: the route lists one target; "
            "[a, a] hedges to the same provider"
        ),
        (
            "hedgerow.yaml:8: routes.twins.targets: sends the client's own key to several hosts "
            "(b.example, c.example); make sure that all may see it"
        ),
        (
            "hedgerow.yaml:8: routes.twins.hedge.delay: is 0s: every request that hedge.budget (10%) allows is sent "
            "at once to several targets and paid for"
        ),
        "hedgerow.yaml:9: routes.once.hedge: has no effect while routes.once.max_attempts is 1",
        "hedgerow.yaml:10: routes.few.hedge.max_hedges: 2 cannot be reached: the route allows 2 attempts in all",
        (
            "hedgerow.yaml:11: server.api_keys: is empty while :8080 is open to other machines: "
            "whoever can connect spends on your keys"
        ),
    ]


def test_settings_made_in_code_are_checked_too() -> None:
    target = Target(base_url="https://a.example/v1")
    with pytest.raises(ValidationError, match=r"routes\.r\.targets\[0\]: there is no target 'b'; the targets are: a"):
        Settings(targets={"a": target}, routes={"r": Route(targets=("b",))})
    made = Settings(targets={"a": target, "b": target}, routes={"r": Route(targets=("a",))})
    assert made.warnings == ["targets.b: is not used by any route"]


def test_a_base_url_without_a_path_is_warned_about_unless_the_host_needs_none() -> None:
    urls = {
        "http://127.0.0.1:9001": "http://127.0.0.1:9001/v1",
        "https://openrouter.ai/": "https://openrouter.ai/api/v1",
        "https://api.perplexity.ai": None,
        "https://api.deepseek.com": None,
    }
    for url, likely in urls.items():
        made = Settings(targets={"a": Target(base_url=url)}, routes={"r": Route(targets=("a",))})
        warned = f"targets.a.base_url: has no path: most providers need one; did you mean {likely}?"
        assert made.warnings == ([] if likely is None else [warned])


def test_the_path_that_a_base_url_lacks_depends_on_the_api() -> None:
    google, other = "https://generativelanguage.googleapis.com", "https://a.example"
    urls = {
        (google, "gemini"): "/v1beta",
        (google, "openai"): "/v1beta/openai",
        (other, "gemini"): "/v1beta",
        (other, "anthropic"): "/v1",
    }
    for (url, protocol), path in urls.items():
        made = Settings(targets={"a": Target(base_url=url, protocol=(protocol,))}, routes={"r": Route(targets=("a",))})
        assert made.warnings[0].endswith(f"did you mean {url}{path}?")
    made = Settings(targets={"a": Target(base_url=other, protocol=("http",))}, routes={"r": ROUTED})
    assert made.warnings == []


ROUTED = Route(targets=("a",), endpoints=("/v2/translate",))


def test_targets_that_no_request_can_go_to_or_that_share_no_api_are_warned_about() -> None:
    url = "https://a.example/v1"
    targets = {"a": Target(base_url=url), "c": Target(base_url=url, protocol=("anthropic",))}
    made = Settings(targets=targets, routes={"r": Route(targets=("a", "c"), hedge=Hedge(delay=Fixed(1.0)))})
    assert made.warnings == ["routes.r.hedge: has no effect: no two of the route's targets speak the same API"]
    for unsaid in (Route(targets=("a", "c")), Route(targets=("a", "c", "c"), hedge=Hedge(delay=Fixed(1.0)))):
        assert Settings(targets=targets, routes={"r": unsaid}).warnings == []
    targets = {"a": Target(base_url=url), "h": Target(base_url=url, protocol=("http",))}
    made = Settings(targets=targets, routes={"r": Route(targets=("a", "h"))})
    assert made.warnings == [
        "routes.r.targets: h speaks only http and the route lists no endpoints: never asked",
    ]
    listed = Route(targets=("a", "h"), endpoints=("/v2/translate",), hedge=Hedge(delay=Fixed(1.0)))
    assert Settings(targets=targets, routes={"r": listed}).warnings == []


@pytest.mark.parametrize(("delay", "warned"), [("300", True), ("100", True), ("99", False), ("300s", False)])
def test_a_delay_of_a_hundred_or_more_without_a_unit_is_warned_about(delay: str, warned: bool) -> None:
    text = (
        "targets: {a: {base_url: 'https://a.example/v1'}}\n"
        f"routes: {{r: {{targets: [a, a], hedge: {{delay: {delay}}}, timeouts: {{first_token: 10m}}}}}}\n"
    )
    hint = (
        f"hedgerow.yaml:2: routes.r.hedge.delay: is {delay} seconds; a bare number means seconds, "
        f"did you mean {delay}ms?"
    )
    assert loads(text, {}).warnings == ([hint] if warned else [])


@pytest.mark.parametrize(
    ("written", "spec"),
    [
        ("2s", Fixed(2.0)),
        ("300ms", Fixed(0.3)),
        ("0", Fixed(0.0)),
        ("1h", Fixed(3600.0)),
        ("p95", Percentile(0.95)),
        ("p99.5", Percentile(0.995)),
        ("ema(p95)", Percentile(0.95, 0.2)),
        ("'ema(p95, 0.5)'", Percentile(0.95, 0.5)),
        ("auto", Auto()),
        ("{slo: 1.2s}", Slo(1.2)),
        ("'slo: 1.2s'", Slo(1.2)),
        ("off", Off()),
        ("false", Off()),
        ('"${DELAY}"', Percentile(0.9)),
    ],
)
def test_every_way_to_write_a_delay(written: str, spec: Spec) -> None:
    text = (
        "targets: {a: {base_url: 'https://a.example/v1'}}\n"
        f"routes: {{r: {{targets: [a, a], hedge: {{delay: {written}}}, timeouts: {{first_token: 2h, total: 2h}}}}}}\n"
    )
    settings = loads(text, {"DELAY": "p90"})
    assert settings.routes["r"].hedge == Hedge(delay=spec)
    assert Hedge(delay=spec).delay == spec  # settings made in code
    assert [each for each in settings.warnings if "0s" not in each] == []
    jsonschema.validate(yaml.safe_load(text), json_schema())


def test_keys_of_races_are_warned_about_where_there_is_none_and_the_other_way_round() -> None:
    target = "targets: {a: {base_url: 'https://a.example/v1'}}\n"
    for hedge, key, why in (
        ("{mode: race, min_delay: 1s}", "min_delay", "has no effect in mode: race, where there is no delay"),
        ("{mode: race, outage: {max_tokens: 30}}", "outage", "has no effect in mode: race, where there is no delay"),
        ("{width: 2}", "width", "has no effect without mode: race"),
    ):
        text = f"{target}routes: {{r: {{targets: [a, a], hedge: {hedge}}}}}\n"
        assert loads(text, {}).warnings == [f"hedgerow.yaml:2: routes.r.hedge.{key}: {why}"]


def test_keys_of_learned_delays_are_warned_about_where_the_delay_is_fixed() -> None:
    hedge = "{delay: 1s, target: p95, min_delay: 1s, max_delay: 2s, warmup: {samples: 9}, window: {age: 5m}}"
    text = f"targets: {{a: {{base_url: 'https://a.example/v1'}}}}\nroutes: {{r: {{targets: [a, a], hedge: {hedge}}}}}\n"
    why = "has no effect: hedge.delay is 1s, nothing is learned for it"
    keys = ("target", "min_delay", "max_delay", "warmup")
    assert loads(text, {}).warnings == [f"hedgerow.yaml:2: routes.r.hedge.{key}: {why}" for key in keys]
    assert loads(text.replace("delay: 1s,", "delay: p95,", 1), {}).warnings == []


@pytest.mark.parametrize(
    ("written", "nanousd"),
    [
        ("5", 5_000_000_000),
        ("2.50", 2_500_000_000),
        ("'2.50'", 2_500_000_000),
        ("$2.5", 2_500_000_000),
        ("0.000000001", 1),
        ("1e-9", 1),
        ("123456.123456789", 123_456_123_456_789),
        ("1000000000", 10**18),
        ("0", 0),
        ("off", None),
        ("false", None),
    ],
)
def test_dollars_are_read_exactly(written: str, nanousd: int | None) -> None:
    text = (
        "targets: {a: {base_url: 'https://a.example/v1', price: {input: 1}}}\n"
        f"routes: {{r: {{targets: [a], spend: {{usd_per_day: {written}}}}}}}\n"
    )
    assert loads(text, {}).routes["r"].spend.usd_per_day == nanousd
    jsonschema.validate(yaml.safe_load(text.replace("1e-9", "0.000000001")), json_schema())


def test_prices_are_wanted_only_where_dollars_are_counted_and_only_of_targets_in_use() -> None:
    text = (
        "targets: {a: {base_url: 'https://a.example/v1', price: {}}, b: {base_url: 'https://b.example/v1'}}\n"
        "routes: {r: {targets: [a, a], spend: {usd_per_day: 0}}, s: {targets: [b], spend: {tokens_per_minute: 1}}}\n"
    )
    assert loads(text, {}).targets["a"].price == Price()


BAD_DURATIONS: list[object] = ["", "s", "2 s", "-1s", "1s1m", "2sec", "1e3", True, None, -1, float("inf"), "٣s", []]
BAD_SIZES: list[object] = ["", "KiB", "0.3", "1.0001KB", "4Mbit", "-1", -1, 1.5, True, None]


@given(st.integers(min_value=0, max_value=10**9))
def test_every_duration_shown_reads_back_exactly(milliseconds: int) -> None:
    assert parse_duration(show_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.integers(min_value=0, max_value=1 << 40))
def test_every_size_shown_reads_back_exactly(size: int) -> None:
    assert parse_size(show_size(size)) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300ms", 0.3),
        ("2s", 2.0),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("1d2h", 93600.0),
        ("1.5s", 1.5),
        ("2", 2.0),
        (7, 7.0),
        (0.25, 0.25),
        ("1m5ms", 60.005),
        *[(bad, None) for bad in BAD_DURATIONS],
    ],
)
def test_durations(text: object, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64KiB", 65536),
        ("4MB", 4_000_000),
        ("1.5kb", 1500),
        ("2 GiB", 2 << 30),
        ("10", 10),
        ("10B", 10),
        (3, 3),
        *[(bad, None) for bad in BAD_SIZES],
    ],
)
def test_sizes(text: object, size: int | None) -> None:
    assert parse_size(text) == size


def test_the_template_loads_without_a_warning_once_the_key_is_set() -> None:
    settings = loads(TEMPLATE, {"OPENAI_API_KEY": "sk"})
    assert settings.warnings == []
    assert settings.routes == {"*": Route(targets=("openai", "openai"))}
    assert settings.server == ServerSettings()


def test_the_template_with_its_commented_keys_taken_in_loads_too() -> None:
    text = re.sub(r"^( +)# ( *\w+:)", r"\1\2", TEMPLATE, flags=re.MULTILINE)
    keys = {"OPENAI_API_KEY": "sk", "AZURE_OPENAI_API_KEY": "az", "ANTHROPIC_API_KEY": "an", "HEDGEROW_API_KEY": "h"}
    settings = loads(text, keys)
    assert settings.targets["azure"].model == "gpt-5-mini"
    assert settings.targets["claude"].protocol == ("anthropic", "openai")
    assert settings.routes["*"].hedge.allow == ("store",)
    assert [key.get_secret_value() for key in settings.server.api_keys] == ["h"]


def test_references_need_no_quotes_even_within_brackets() -> None:
    text = "targets: {a: {base_url: ${URL:-http://127.0.0.1/v1}, model: $${x}, headers: {X-A: a${KEY}b$${KEY}}}}\n"
    target = loads(text + "routes: {r: {targets: [a]}}\n", {"KEY": "k: ${NOT_AGAIN}"}).targets["a"]
    assert (target.base_url, target.model) == ("http://127.0.0.1/v1", "${x}")
    assert target.extra_headers() == [(b"x-a", b"ak: ${NOT_AGAIN}b${KEY}")]


@pytest.mark.parametrize("text", [TEMPLATE, FULL], ids=["template", "full"])
def test_the_schema_accepts_good_files(text: str) -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(text), schema)


def test_every_key_in_the_schema_has_a_description() -> None:
    schema = json_schema()
    silent = [
        f"{name}.{key}"
        for name, model in schema["$defs"].items()
        for key, inner in model["properties"].items()
        if "description" not in inner and "description" not in schema["$defs"].get(_reference(inner), {})
    ]
    assert silent == []


def _reference(schema: dict[str, object]) -> str:
    return json.dumps(schema).rpartition("#/$defs/")[2].partition('"')[0]


def test_the_full_file_uses_every_key() -> None:
    """So that `all_keys` is what the files may hold, and no key goes untested here."""
    data = yaml.safe_load(FULL)

    def walk(value: object, path: str) -> set[str]:
        if path in keys or not isinstance(value, dict):
            return {path}
        named = path in ("targets", "routes")
        return {found for key, each in value.items() for found in walk(each, f"{path}.{'<name>' if named else key}")}

    keys = set(all_keys())
    found = {each for section, value in data.items() for each in walk(value, section)}
    assert found == keys - {
        *("targets.<name>.tls.ca_file", "server.admin.token_file", "server.metrics.token_file")  # contradict others
    }


def test_the_reference_page_names_every_key() -> None:
    page = describe()
    for key in all_keys():
        section, _, name = key.rpartition(".")
        part = page.partition(f"## `{section}`\n")[2].partition("\n## ")[0]
        assert f"| `{name}` |" in part, key


def test_the_committed_page_and_schema_are_current() -> None:
    hint = "run: python -m hedgerow.config docs"
    assert (DOCS / "configuration.md").read_text("utf-8") == describe(), hint
    assert json.loads((DOCS / "hedgerow.schema.json").read_text("utf-8")) == json_schema(), hint


def test_the_example_on_the_reference_page_loads(tmp_path: Path) -> None:
    example = describe().partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "key").write_text("k")
    settings = loads(example.replace("/run/secrets/azure-key", "key"), {"OPENAI_API_KEY": "a"}, folder=tmp_path)
    assert settings.warnings == []


def test_keys_about_repeated_requests_are_warned_about_where_none_is_known_again() -> None:
    target = "targets: {a: {base_url: 'https://a.example/v1'}}\n"
    for written, key in (("{streams: true}", "streams"), ("{linger: 5s, window: off}", "linger")):
        text = f"{target}routes: {{r: {{targets: [a], idempotency: {written}}}}}\n"
        (warning,) = loads(text, {}).warnings
        assert warning == (
            f"hedgerow.yaml:2: routes.r.idempotency.{key}: has no effect without window: "
            "say how long an answer is kept, as in window: 10m"
        )
    assert (
        loads(f"{target}routes: {{r: {{targets: [a], idempotency: {{window: 10m, streams: true}}}}}}\n", {}).warnings
        == []
    )


def test_a_rescue_that_nobody_could_come_to_is_warned_about() -> None:
    for targets, more, why in (
        ("[a]", "on_stall: continue", "the route lists one target"),
        ("[a, b]", "on_stall: restart", "only with nonstream_as_stream can an answer break off before its client has"),
        ("[a, b]", "on_stall: continue", "none of the route's targets says how it continues an answer"),
        ("[a, c]", "on_stall: continue", None),
        ("[d]", "on_stall: continue", None),
        ("[a, b]", "on_stall: restart, nonstream_as_stream: true", None),
    ):
        text = (
            "targets:\n  a: {base_url: 'https://a.example/v1'}\n  b: {base_url: 'https://b.example/v1'}\n"
            "  c: {base_url: 'https://c.example/v1', continues: prefix}\n"
            "  d: {base_url: 'https://d.example/v1', continues: prefix, api_keys: [k-1, k-2]}\n"
            f"routes:\n  r: {{targets: {targets}, {more}}}\n  all: {{targets: [a, b, c, d]}}\n"
        )
        warnings = loads(text, {}).warnings
        if why is None:
            assert warnings == []
        else:
            (warning,) = warnings
            assert warning.startswith(f"hedgerow.yaml:7: routes.r.on_stall: has no effect: {why}")
