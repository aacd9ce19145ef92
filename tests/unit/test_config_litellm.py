"""LiteLLM configs as people write them, imported."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.config import Settings, loads
from hedgerow.config.litellm import convert
from hedgerow.config.litellm_order import weights_of
from hedgerow.errors import ConfigError
from hedgerow.policy.delay import Fixed
from hedgerow.policy.order import Fastest, OrderRule, Rotate

LISTEN = "server.listen: is 127.0.0.1:8080; LiteLLM listens on 0.0.0.0:4000 unless told otherwise"


def imported(text: str) -> tuple[Settings, list[str]]:
    """The settings that the result means, and the notes but for the one on `listen`, which is always there."""
    result, notes = convert(text)
    assert LISTEN in notes
    environ = {name: f"{name.lower()}-value" for name in re.findall(r"\$\{(\w+)", result)}
    environ |= {name: "https://from-env.example/" for name in environ if name.endswith("BASE")}
    return loads(result, environ), [note for note in notes if note != LISTEN]


BALANCED = """\
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://eu.openai.azure.com/
      api_key: os.environ/AZURE_API_KEY_EU
      api_version: "2024-02-01"
      rpm: 6
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-ca
      api_base: os.environ/AZURE_API_BASE
      api_key: os.environ/AZURE_API_KEY_CA
      order: 1
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, timeout: 300, stream_timeout: 30}
  - model_name: claude
    litellm_params: {model: claude-haiku-4-5, api_key: os.environ/ANTHROPIC_API_KEY}
    model_info: {mode: chat}
  - model_name: bedrock-claude
    litellm_params: {model: bedrock/anthropic.claude-instant-v1, aws_region_name: us-east-1}
router_settings:
  routing_strategy: simple-shuffle
  num_retries: 2
  timeout: 60
  fallbacks: [{gpt-4o: [claude]}, {claude: [bedrock-claude]}]
  model_group_alias: {gpt-4: gpt-4o, hidden: {model: claude, hidden: true}, lost: bedrock-claude}
litellm_settings:
  drop_params: true
  context_window_fallbacks: [{gpt-4o: [claude]}]
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  database_url: os.environ/DATABASE_URL
"""


def test_a_balanced_group_becomes_one_route_in_order_with_its_fallbacks_last() -> None:
    settings, _ = imported(BALANCED)
    assert {name: route.targets for name, route in settings.routes.items()} == {
        "gpt-4o": ("azure/gpt-4o-ca", "azure/gpt-4o-eu", "openai/gpt-4o", "claude-haiku-4-5"),
        "claude": ("claude-haiku-4-5", "claude-haiku-4-5"),
        "gpt-4": ("azure/gpt-4o-ca", "azure/gpt-4o-eu", "openai/gpt-4o", "claude-haiku-4-5"),
        "hidden": ("claude-haiku-4-5", "claude-haiku-4-5"),
    }
    found = {name: (each.base_url, each.model, each.secret) for name, each in settings.targets.items()}
    assert found == {
        "azure/gpt-4o-ca": ("https://from-env.example/openai/v1", "gpt-4o-ca", "azure_api_key_ca-value"),
        "azure/gpt-4o-eu": ("https://eu.openai.azure.com/openai/v1", "gpt-4o-eu", "azure_api_key_eu-value"),
        "openai/gpt-4o": ("https://api.openai.com/v1", "gpt-4o", "openai_api_key-value"),
        "claude-haiku-4-5": ("https://api.anthropic.com/v1", "claude-haiku-4-5", "anthropic_api_key-value"),
    }
    assert (settings.routes["gpt-4o"].timeouts.total, settings.routes["gpt-4o"].timeouts.first_token) == (300.0, 30.0)
    assert (settings.routes["claude"].timeouts.total, settings.routes["claude"].timeouts.first_token) == (60.0, 60.0)
    assert [key.get_secret_value() for key in settings.server.api_keys] == ["litellm_master_key-value"]


def test_what_a_balanced_group_loses_is_noted_with_its_key() -> None:
    _, notes = imported(BALANCED)
    assert notes == [
        "model_list[0].litellm_params.api_version: not carried over; Azure's v1 endpoint needs none",
        "model_list[0].litellm_params.rpm: not carried over as a limit; hedgerow goes by what answers report of it",
        "model_list[2].litellm_params.api_key: not given; LiteLLM reads OPENAI_API_KEY, so does this file",
        (
            "model_list[3].litellm_params.model: OpenAI clients go to Anthropic's OpenAI-compatible endpoint, which "
            "lacks prompt caching; Anthropic clients to its own"
        ),
        (
            "model_list[4]: 'bedrock-claude' is left out: the provider 'bedrock' has no OpenAI-compatible endpoint "
            "that hedgerow knows"
        ),
        "routes.gpt-4o: deployments of the same order do not take turns",
        "router_settings.fallbacks: 'claude' falls back to 'bedrock-claude', which is not carried over",
        "router_settings.model_group_alias.lost: 'bedrock-claude' is not carried over",
        (
            "router_settings.num_retries: not carried over; hedgerow goes on to the next target instead of trying the "
            "same one again"
        ),
        "litellm_settings.drop_params: not carried over",
        (
            "litellm_settings.context_window_fallbacks: not carried over; a request that is too long is answered as "
            "the provider answers it"
        ),
        "general_settings.database_url: not carried over",
        (
            "routes: claude: the one deployment is listed twice, so a slow call is hedged to the same provider; "
            "hedge.delay: off turns that off"
        ),
    ]


LOCAL = """\
model_list:
  - model_name: vllm
    litellm_params: {model: hosted_vllm/facebook/opt-125m, api_base: http://127.0.0.1:8000/v1, api_key: none}
  - model_name: llama
    litellm_params: {model: ollama_chat/llama3, max_parallel_requests: 4}
  - model_name: llama
    litellm_params: {model: ollama/llama3, api_base: "http://10.0.0.2:11434"}
  - model_name: studio
    litellm_params: {model: lm_studio/qwen}
  - model_name: own
    litellm_params:
      model: openai/my-model
      api_base: https://llm.example/v1/chat/completions
      api_key: sk-literal-${1}
      organization: org-1
      extra_headers: {X-Team: os.environ/TEAM}
      ssl_verify: false
      temperature: 0.2
  - model_name: no-base
    litellm_params: {model: hosted_vllm/x}
  - model_name: bad-base
    litellm_params: {model: openai/x, api_base: llm.example}
general_settings: {master_key: sk-1234, completion_model: llama}
"""


def test_local_servers_keep_their_addresses() -> None:
    settings, notes = imported(LOCAL)
    found = {name: (each.base_url, each.model, each.secret) for name, each in settings.targets.items()}
    assert found == {
        "hosted_vllm/facebook/opt-125m": ("http://127.0.0.1:8000/v1", "facebook/opt-125m", None),
        "ollama_chat/llama3": ("http://localhost:11434/v1", "llama3", None),
        "ollama/llama3": ("http://10.0.0.2:11434/v1", "llama3", None),
        "lm_studio/qwen": ("http://localhost:1234/v1", "qwen", None),
        "openai/my-model": ("https://llm.example/v1", "my-model", "sk-literal-${1}"),
    }
    own = settings.targets["openai/my-model"]
    assert own.extra_headers() == [(b"x-team", b"team-value"), (b"openai-organization", b"org-1")]
    assert not own.tls.verify
    assert settings.targets["ollama_chat/llama3"].connections.max == 4
    assert settings.default_route == "llama"
    assert notes == [
        (
            "model_list[4].litellm_params.api_key: the key stands in the file as it did in the source; better move it "
            "to the environment"
        ),
        "model_list[4].litellm_params.temperature: not carried over",
        "model_list[5]: 'no-base' is left out: the provider 'hosted_vllm' needs an api_base",
        "model_list[6]: 'bad-base' is left out: base_url has no scheme; start it with https:// or http://",
        ("router_settings.routing_strategy: not given; LiteLLM's default is simple-shuffle, so deployments take turns"),
        (
            "general_settings.master_key: the key stands in the file as it did in the source; better move it to the "
            "environment"
        ),
        (
            "routes: vllm, studio: the one deployment is a server of your own and listed once: a second call to it "
            "would wait in the same queue"
        ),
        (
            "routes: own: the one deployment is listed twice, so a slow call is hedged to the same provider; "
            "hedge.delay: off turns that off"
        ),
    ]
    assert {name: len(route.targets) for name, route in settings.routes.items()} == {
        "vllm": 1,
        "llama": 2,
        "studio": 1,
        "own": 2,
    }


@pytest.mark.parametrize(
    ("model", "base", "own"),
    [
        ("hosted_vllm/m", "https://gpu.example.com/v1", True),
        ("openai/m", "http://localhost:8000/v1", True),
        ("openai/m", "http://[::1]:8000/v1", True),
        ("openai/m", "http://192.168.1.7:8000/v1", True),
        ("openai/m", "http://vllm:8000/v1", True),
        ("openai/m", "http://vllm.prod.internal/v1", True),
        ("openai/m", "https://8.8.8.8/v1", False),
        ("openai/m", "https://llm.example.com/v1", False),
        ("openai/m", "os.environ/SOME_BASE", False),
        ("azure/m", "https://x.openai.azure.com", False),
    ],
)
def test_a_lone_server_of_ones_own_is_listed_once(model: str, base: str, own: bool) -> None:
    settings, notes = imported(
        f"model_list: [{{model_name: a, litellm_params: {{model: {model}, api_base: '{base}'}}}}]"
    )
    assert len(settings.routes["a"].targets) == (1 if own else 2)
    assert any("a server of your own" in note for note in notes) == own


def test_every_route_that_hedges_says_when_and_one_that_cannot_says_nothing() -> None:
    text, _ = convert(LOCAL)
    routes = yaml.safe_load(text)["routes"]
    assert {name: route.get("hedge") for name, route in routes.items()} == {
        "vllm": None,
        "llama": {"delay": "2s"},
        "studio": None,
        "own": {"delay": "2s"},
    }
    assert "\n# hedge.delay: how long a target may stay silent" in text
    alone, _ = convert("model_list: [{model_name: a, litellm_params: {model: ollama/llama3, timeout: 1}}]")
    assert "hedge" not in alone.partition("\n")[2]


WILD = """\
model_list:
  - {model_name: "*", litellm_params: {model: openai/*, api_key: os.environ/OPENAI_API_KEY}}
  - {model_name: "claude-*", litellm_params: {model: anthropic/claude-*, api_key: os.environ/ANTHROPIC_API_KEY}}
  - {model_name: "groq/*", litellm_params: {model: groq/*, api_key: os.environ/GROQ_API_KEY}}
  - {model_name: any, litellm_params: {model: "*"}}
  - {model_name: 4, litellm_params: {model: gpt-4.1, api_key: os.environ/OPENAI_API_KEY}}
litellm_settings: {default_fallbacks: ["4"], request_timeout: 1, callbacks: [otel]}
environment_variables: {REDIS_HOST: h}
"""


def test_wildcards_that_keep_the_name_become_patterns() -> None:
    settings, notes = imported(WILD)
    assert {name: route.targets for name, route in settings.routes.items()} == {
        "*": ("openai/*", "openai/*", "gpt-4.1"),
        "claude-*": ("anthropic/claude-*", "anthropic/claude-*", "gpt-4.1"),
        "4": ("gpt-4.1", "gpt-4.1"),
    }
    assert settings.targets["openai/*"].model is None
    why = "is left out: hedgerow sends the name of a pattern on unchanged; it does not rewrite it"
    assert f"model_list[2]: 'groq/*' {why}" in notes
    assert f"model_list[3]: 'any' {why}" in notes
    assert "environment_variables: not carried over (REDIS_HOST)" in notes


def test_a_short_timeout_brings_the_hedge_forward() -> None:
    route = imported(WILD)[0].routes["*"]
    assert (route.timeouts.total, route.timeouts.first_token, route.hedge.delay) == (1.0, 1.0, Fixed(0.5))


def test_a_stream_timeout_beyond_the_default_total_stretches_it() -> None:
    text = "model_list: [{model_name: a, litellm_params: {model: openai/a, stream_timeout: 900}}]"
    timeouts = imported(text)[0].routes["a"].timeouts
    assert (timeouts.total, timeouts.first_token) == (900.0, 900.0)


def test_shared_credentials_and_shared_targets_are_resolved() -> None:
    settings, _ = imported("""\
model_list:
  - {model_name: a, litellm_params: {model: azure/d, litellm_credential_name: main}}
  - {model_name: b, litellm_params: {model: azure/d, litellm_credential_name: main}}
  - {model_name: b, litellm_params: {model: azure/d, api_base: https://other.example, api_key: os.environ/OTHER}}
credential_list:
  - credential_name: main
    credential_values: {api_key: os.environ/AZURE_KEY, api_base: "https://x.openai.azure.com/openai/deployments/d"}
""")
    assert {name: each.base_url for name, each in settings.targets.items()} == {
        "azure/d": "https://x.openai.azure.com/openai/v1",
        "azure/d-2": "https://other.example/openai/v1",
    }
    assert settings.targets["azure/d"].secret == "azure_key-value"
    assert settings.routes["b"].targets == ("azure/d", "azure/d-2")


PAIR = """\
model_list:
  - model_name: a
    litellm_params: {model: openai/x, api_key: os.environ/K, weight: %s, rpm: 60, input_cost_per_token: %s}
    model_info: {output_cost_per_token: 0.00001, max_input_tokens: 8192, supports_vision: false, tier: free}
  - model_name: a
    litellm_params: {model: openai/y, api_key: os.environ/K, rpm: 30}
    model_info: {input_cost_per_token: 1.0e-07, supports_vision: true, supports_function_calling: false, id: y}
router_settings: {routing_strategy: %s}
"""


def pair(strategy: str = "simple-shuffle", weight: str = "null") -> tuple[Settings, list[str]]:
    settings, notes = imported(PAIR % (weight, "0.00000025", strategy))
    assert settings.warnings == []
    limits = "as a limit; hedgerow goes by what answers report of it"
    assert notes[:3] == [
        "model_list[0].model_info.tier: not carried over",
        f"model_list[0].litellm_params.rpm: not carried over {limits}",
        f"model_list[1].litellm_params.rpm: not carried over {limits}",
    ]
    return settings, notes[3:]


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        ("simple-shuffle", Rotate()),
        ("latency-based-routing", Fastest()),
        ("cost-based-routing", Fastest(within=0.2)),
        ("null", Rotate()),
        ("least-busy", Rotate()),
        ("usage-based-routing-v2", Rotate()),
    ],
)
def test_the_routing_strategy_becomes_an_order(strategy: str, order: OrderRule) -> None:
    settings, notes = pair(strategy)
    assert settings.routes["a"].order == order
    said = {
        "null": "not given; LiteLLM's default is simple-shuffle, so deployments take turns",
        "least-busy": "least-busy is no order of hedgerow's: deployments take turns, and delays and breakers see to "
        "those that are slow",
    }
    assert [note for note in notes if "strategy" in note] == [
        f"router_settings.routing_strategy: {said.get(each, said['least-busy'].replace('least-busy', each))}"
        for each in [strategy]
        if order == Rotate() and strategy != "simple-shuffle"
    ]


@pytest.mark.parametrize(
    ("strategy", "weight", "weights"),
    [
        ("simple-shuffle", "null", (2, 1)),  # by rpm
        ("simple-shuffle", "9", (9, 1)),
        ("least-busy", "null", (2, 1)),
        ("latency-based-routing", "9", (1, 1)),
    ],
)
def test_turns_go_by_weight_or_else_by_the_limits(strategy: str, weight: str, weights: tuple[int, int]) -> None:
    settings, notes = pair(strategy, weight)
    assert ("routes.a: who has no weight gets the least, 1; from LiteLLM, nothing" in notes) == (weights[0] == 9)
    assert tuple(each.weight for each in settings.targets.values()) == weights


@pytest.mark.parametrize(
    ("given_", "weights"),
    [
        ([{"weight": 3}, {"weight": 1}], [3, 1]),
        ([{"weight": 2}, {"weight": 5}], [2, 5]),
        ([{"rpm": 6000}, {"rpm": 2000}, {"weight": 7}], [1, 1, 7]),
        ([{"tpm": 900_000}, {"tpm": 1_000_000}], [9, 10]),
        ([{"tpm": 900_001}, {"tpm": 1_000_000}], [900, 1000]),
        ([{"tpm": 10**9}, {"tpm": 1}], [1000, 1]),
        ([{"weight": "x"}, {}], [1, 1]),
        ([{"rpm": 60}, {"rpm": 90}], [2, 3]),
    ],
)
def test_weights_are_in_proportion(given_: list[dict[str, object]], weights: list[int]) -> None:
    assert weights_of(given_) == weights


def test_prices_and_what_models_can_do_are_carried_over() -> None:
    first, second = pair()[0].targets.values()
    assert first.price is not None
    assert second.price is not None
    assert (first.price.input, first.price.output) == (250_000_000, 10_000_000_000)  # billionths of a dollar
    assert (second.price.input, second.price.output) == (100_000_000, 0)
    assert (first.supports, first.max_context) == (("tools", "json_schema"), 8192)
    assert (second.supports, second.max_context) == (("vision", "json_schema"), None)
    text, _ = convert(PAIR % ("null", "2.5e-12", "null"))
    assert yaml.safe_load(text)["targets"]["openai/x"]["price"] == {"input": "0.0000025", "output": 10}


@pytest.mark.parametrize("cost", [".nan", ".inf", "-1", "true", "cheap", "1e999", "[1]"])
def test_what_is_no_price_is_none(cost: str) -> None:
    settings, _ = imported(PAIR % ("null", cost, "simple-shuffle"))
    price = settings.targets["openai/x"].price
    assert price is not None
    assert (price.input, price.output) == (0, 10_000_000_000)


def test_where_an_order_cannot_be_had_it_is_said_why() -> None:
    text = PAIR % ("null", "0.1", "cost-based-routing")
    unpriced = text.replace("input_cost_per_token: 1.0e-07, ", "")
    settings, notes = imported(unpriced)
    assert settings.routes["a"].order is None
    assert "routes.a: is asked in the order listed: order: cheapest needs the price of openai/y" in notes
    backed = PAIR % ("9", "0.1", "simple-shuffle, fallbacks: [{a: [b]}]")
    backed = backed.replace("router", "  - {model_name: b, litellm_params: {model: openai/b}}\nrouter")
    settings, notes = imported(backed)
    assert (settings.routes["a"].order, settings.targets["openai/x"].weight) == (None, 1)
    assert (
        "routes.a: is asked in the order listed, for else its fallbacks would take turns with it; where that is as "
        "well, set order: rotate"
    ) in notes


def test_text_that_looks_like_a_number_stays_text() -> None:
    settings, _ = imported("model_list: [{model_name: a, litellm_params: {model: openai/1e3, api_key: '089'}}]")
    assert [(each.model, each.secret) for each in settings.targets.values()] == [("1e3", "089")]


def test_an_alias_is_written_out() -> None:
    text, _ = convert(
        "model_list: [{model_name: a, litellm_params: {model: openai/a}}]\n"
        "router_settings: {model_group_alias: {b: a, c: a}}\n"
    )
    assert not {"&", "*"} & set(text)
    assert text.count("- openai/a\n") == 6


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "this is not a LiteLLM config: it has no model_list"),
        ("routes: {}", "this is not a LiteLLM config: it has no model_list"),
        ("model_list: {a: b}", "this is not a LiteLLM config: it has no model_list"),
        ("a: b: c", "line 1: not valid YAML: mapping values are not allowed here"),
        ("a: 2026-99-99", "not valid YAML: month must be in 1..12"),
        ("[" * 5000, "is nested too deeply"),
        ("model_list: []", "nothing in model_list can be carried over"),
        ("model_list: [1, {model_name: x}]", "nothing in model_list can be carried over"),
    ],
)
def test_what_cannot_be_imported_says_why(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(text)
    assert caught.value.problems[0] == problem


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["*", "gpt-*", "openai/a", "os.environ/A_BASE", "${", ""]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["model", "a", "gpt-*"]), inner, max_size=2)
    ),
    max_leaves=4,
)
OPTIONS = (
    *("api_key", "api_base", "timeout", "stream_timeout", "order", "organization", "extra_headers", "rpm"),
    *("weight", "tpm", "input_cost_per_token", "output_cost_per_token"),
    *("ssl_verify", "max_parallel_requests", "custom_llm_provider", "litellm_credential_name"),
)
PARAMS = st.fixed_dictionaries(
    {"model": st.sampled_from(["openai/a", "azure/b", "claude-x", "ollama/c", "openai/*", "*", "x/y"]) | VALUES},
    optional=dict.fromkeys(OPTIONS, VALUES),
)
INFO = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("input_cost_per_token", "max_input_tokens", "supports_vision", "supports_function_calling"),
        VALUES | st.floats() | st.integers(),
    ),
)
ENTRY = VALUES | st.fixed_dictionaries(
    {"model_name": VALUES | st.just("a"), "litellm_params": VALUES | PARAMS}, optional={"model_info": VALUES | INFO}
)
KEYS = (
    *("fallbacks", "default_fallbacks", "timeout", "stream_timeout", "request_timeout"),
    *("model_group_alias", "master_key", "completion_model", "routing_strategy"),
)
SETTINGS = VALUES | st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, VALUES))
SOURCE = st.fixed_dictionaries(
    {"model_list": st.lists(ENTRY, max_size=3)},
    optional=dict.fromkeys(
        ("router_settings", "litellm_settings", "general_settings", "credential_list", "callback_settings"), SETTINGS
    ),
)


@settings(max_examples=100, deadline=None)
@given(SOURCE)
def test_whatever_stands_in_the_source_the_result_loads_or_the_import_is_refused(source: dict[str, object]) -> None:
    try:
        result, _ = convert(yaml.safe_dump(source))
    except ConfigError:
        return
    environ: dict[str, str] = defaultdict(lambda: "https://from-env.example")
    for name in re.findall(r"\$\{(\w+)", result):
        environ[name] = "https://from-env.example" if name.endswith("BASE") else "value"
    loads(result, environ)
