"""Malformed settings of when and whether to hedge: each with the exact text of all its errors."""

from __future__ import annotations

import jsonschema
import pytest
import yaml

from hedgerow.config import json_schema, loads
from hedgerow.errors import ConfigError
from tests.unit.test_config_errors import GOOD_TARGET, PAIR, route, server, target

PRICED = PAIR.replace("v1'}", "v1', price: {input: 1}}")
OWN_LIMIT = PAIR.replace("b.example/v1'", "b.example/v1', first_token: 2s")
Case = tuple[str, list[str]]


def hedge(settings: str, *errors: str) -> Case:
    return route(f"hedge: {{{settings}}}"), [f"6: routes.r.hedge.{error}" for error in errors]


DOLLARS = "dollars from 0 to 1000000000, such as 5 or 2.50, with at most 9 decimals"
DELAY = "2s, 300ms, p95, p99.5, ema(p95), {slo: 1.2s}, auto, 0 (at once) or off"
PERCENTILE = "a percentile from p50 to p99.99, such as p99"
A_DURATION = "a duration such as 2s or 300ms"
FLAG = "true or false, on or off"
NEEDS_SIGN = "a percentage such as 10%; a number needs its %"
NEEDS_SIGN_OR_OFF = "a percentage such as 10% or off; a number needs its %"
HEADERS = "a mapping of header names to values such as {x-priority: high}"
KEPT = "every delay is kept between min_delay and max_delay"


def wrong(key: str, written: str, got: str, expected: str) -> Case:
    """A value that its key does not allow."""
    *sections, last = key.split(".")
    text = f"{last}: {written}"
    for section in reversed(sections):
        text = f"{section}: {{{text}}}"
    return route(text), [f"6: routes.r.{key}: got {got}; expected {expected}"]


VALUES = [
    *(
        wrong("hedge.delay", f'"{written}"', f"'{written}'", DELAY)
        for written in (
            "p100",
            "p0",
            "p",
            "P95",
            "ema(p95, 2)",
            "ema(2s)",
            "slo: 0s",
            "slo: soon",
            "slo",
            "-1s",
            "automatic",
        )
    ),
    wrong("hedge.delay", "{goal: 1s}", "a mapping", DELAY),
    wrong("hedge.delay", "{slo: 1s, p: 95}", "a mapping", DELAY),
    wrong("hedge.delay", "-1", "-1", DELAY),
    wrong("hedge.delay", "true", "true", DELAY),
    wrong("hedge.delay", "2h", "'2h'", "a delay between 0s and 1h"),
    wrong("hedge.delay", "{slo: 2h}", "a mapping", "a delay between 0s and 1h"),
    wrong("hedge.mode", "dry", "'dry'", "one of on, shadow, race, chain"),
    wrong("hedge.width", "1", "1", "a whole number from 2 to 10"),
    *(wrong("hedge.target", bad, got, PERCENTILE) for bad, got in (("p40", "'p40'"), ("p100", "'p100'"), ("99", "99"))),
    (target("first_token: off"), [f"3: targets.a.first_token: got 'off'; expected {A_DURATION}"]),
    (target("first_token: 0"), ["3: targets.a.first_token: got 0; expected a duration between 1ms and 1d"]),
    wrong("hedge.min_delay", "soon", "'soon'", A_DURATION),
    wrong("hedge.min_delay", "off", "'off'", A_DURATION),
    wrong("hedge.max_delay", "0s", "'0s'", "a duration between 1ms and 1h"),
    wrong("hedge.warmup.samples", "0", "0", "a whole number from 1 to 100000"),
    wrong("hedge.warmup.delay", "p95", "'p95'", "a duration such as 2s, 300ms or off"),
    wrong("hedge.warmup.delay", "2h", "'2h'", "a duration between 0s and 1h or off"),
    wrong("hedge.window.samples", "9", "9", "a whole number from 10 to 20000"),
    wrong("hedge.window.age", "500ms", "'500ms'", "a duration between 1s and 1d"),
    wrong("hedge.burst", "0", "0", "a number from 1 to 1000000"),
    wrong("hedge.per_minute", "-1", "-1", "a number from 0 to 1000000"),
    wrong("hedge.per_minute", "lots", "'lots'", "a number from 0 to 1000000"),
    wrong("hedge.max_input_tokens", "0", "0", "a whole number from 1 to 100000000 or off"),
    wrong("hedge.max_input_tokens", "~", "~", "a whole number from 1 to 100000000 or off"),
    wrong("hedge.only_if.streaming", "maybe", "'maybe'", FLAG),
    wrong("hedge.only_if.max_tokens_below", "0", "0", "a whole number from 1 to 10000000"),
    wrong("hedge.only_if.headers", "[x-a]", "a list", HEADERS),
    wrong("hedge.rollout", "10", "10", NEEDS_SIGN),
    wrong("hedge.rollout", "101%", "'101%'", "a percentage between 0% and 100%"),
    wrong("hedge.rollout", "-1%", "'-1%'", NEEDS_SIGN),
    wrong("hedge.kill_switch", "yes", "'yes'", FLAG),
    wrong("hedge.quota_keep", "100%", "'100%'", "a percentage between 0% and 99%"),
    wrong("hedge.quota_share", "0%", "'0%'", "a percentage between 0.1% and 100%"),
    wrong("hedge.outage.max_tokens", "0", "0", "a number from 1 to 1000"),
    wrong("hedge.outage.token_ratio", "11", "11", "a number from 0.001 to 10"),
    wrong("hedge.outage.both_slow", "100%", "'100%'", "a percentage between 1% and 99% or off"),
    wrong("losers", "discard", "'discard'", "one of cancel, keep, drain"),
    wrong("keep.max_time", "0", "0", "a duration between 1ms and 1d"),
    wrong("keep.max_usd", "-1", "-1", f"{DOLLARS}, or off"),
    wrong("keep.max_tokens", "0", "0", "a whole number from 1 to 1000000000 or off"),
    wrong("keep.ttl", "500ms", "'500ms'", "a duration between 1s and 1d"),
    wrong("keep.scope", "tenant", "'tenant'", "one of request, content"),
    wrong("failover.budget", "20", "20", NEEDS_SIGN_OR_OFF),
    wrong("failover.budget", "200%", "'200%'", "a percentage between 0.1% and 100% or off"),
    wrong("failover.burst", "0.5", "0.5", "a number from 1 to 1000000"),
    wrong("failover.per_minute", "off", "'off'", "a number from 0 to 1000000"),
    *(
        wrong(f"spend.{key}", written, got, f"{DOLLARS}, or off")
        for key, written, got in (
            ("usd_per_hour", "-1", "-1"),
            ("usd_per_hour", "-0.01", "-0.01"),
            ("usd_per_day", "'-$5'", "'-$5'"),
            ("usd_per_day", "~", "~"),
            ("usd_per_day", "", "nothing"),
            ("usd_per_day", "1000000001", "1000000001"),
            ("usd_per_month", "0.0000000001", "0.0000000001"),
            ("usd_per_month", "123456789.123456789", "123456789.123456789"),
            ("usd_per_month", "1e400", "1e400"),
            ("usd_per_month", "5 EUR", "'5 EUR'"),
            ("usd_per_month", "true", "true"),
            ("usd_per_month", "[5]", "a list"),
        )
    ),
    wrong("spend.tokens_per_minute", "0", "0", "a whole number from 1 to 1000000000 or off"),
    wrong("spend.tokens_per_minute", "~", "~", "a whole number from 1 to 1000000000 or off"),
    wrong("background", "maybe", "'maybe'", FLAG),
]
"""What the schema sees, too, unless it is in `UNSEEN`."""

KEYS = [
    hedge("delay: 1s, delya: 2s", "delya: unknown key; did you mean 'delay'?"),
    hedge("warmup: {sample: 5}", "warmup.sample: unknown key; did you mean 'samples'?"),
    hedge("only_if: {header: {x-a: b}}", "only_if.header: unknown key; did you mean 'headers'?"),
    hedge("only_if: {headers: {x-a: 1}}", "only_if.headers.x-a: expected text: put the value in quotes"),
    (route("failover: 20%"), ["6: routes.r.failover: got text; expected a mapping such as {budget: 20%}"]),
    (route("spend: 5"), ["6: routes.r.spend: got a number; expected a mapping such as {usd_per_day: 5}"]),
    (route("spend: {usd_per_week: 5}"), ["6: routes.r.spend.usd_per_week: unknown key; did you mean 'usd_per_day'?"]),
    (
        target("price: free"),
        ["3: targets.a.price: got 'free'; expected auto, off, or prices such as {input: 0.25, output: 2}"],
    ),
    (
        target("price: {above: 200000}"),
        [
            (
                "3: targets.a.price.above: got 200000; expected prices by tokens of prompt, such as "
                "{200000: {input: 2.50, output: 15}}"
            )
        ],
    ),
    (
        target("price: {above: {many: {input: 1}}}"),
        ["3: targets.a.price.above.many: expected a whole number of tokens such as 200000"],
    ),
    (
        target("price: {above: {200000: {inptu: 1}}}"),
        [
            (
                "3: targets.a.price.above.200000: unknown price 'inptu'; expected some of input, output, request, "
                "cached_input, cache_write, cache_write_1h"
            )
        ],
    ),
    (
        target("price: {tiers: {flex: half}}"),
        [
            (
                "3: targets.a.price.tiers.flex: expected prices such as {input: 0.25, output: 2}, "
                "or a percentage of the others"
            )
        ],
    ),
    (
        target("price: {tiers: {flex: {input: -1}}}"),
        [
            (
                "3: targets.a.price.tiers.flex.input: expected dollars from 0 to 1000000000, such as 5 or 2.50, "
                "with at most 9 decimals"
            )
        ],
    ),
    (
        target("billed_on_cancel: half"),
        [
            (
                "3: targets.a.billed_on_cancel: got 'half'; expected one of full, generated, input, none, "
                "or both of {stream: generated, whole: full}"
            )
        ],
    ),
    (
        target("billed_on_cancel: {stream: full}"),
        [
            (
                "3: targets.a.billed_on_cancel: got a mapping; expected one of full, generated, input, none, "
                "or both of {stream: generated, whole: full}"
            )
        ],
    ),
    (target("billed_on_cancel: {streams: full}"), ["3: targets.a.billed_on_cancel.streams: expected stream or whole"]),
    (target("price: {inputs: 1}"), ["3: targets.a.price.inputs: unknown key; did you mean 'input'?"]),
    *(
        (target(f"price: {{input: {written}}}"), [f"3: targets.a.price.input: got {got}; expected {DOLLARS}"])
        for written, got in (("-1", "-1"), ("off", "'off'"), ("~", "~"))
    ),
    *(
        (target(f"breaker: {{{key}: {written}}}"), [f"3: targets.a.breaker.{key}: got {got}; expected {expected}"])
        for key, written, got, expected in (
            ("failures", "0", "0", "a whole number from 1 to 10000 or off"),
            ("failures", "~", "~", "a whole number from 1 to 10000 or off"),
            ("failure_ratio", "0.5", "0.5", NEEDS_SIGN_OR_OFF),
            ("slow_after", "never", "'never'", "a duration such as 2s, 300ms or off"),
            ("minimum", "101", "101", "a whole number from 1 to 100"),
            ("successes", "0", "0", "a whole number from 1 to 100"),
        )
    ),
    (server("budget: {failover: 1%}"), ["4: server.budget.failover: unknown key; did you mean 'failovers'?"]),
    (server("budget: {burst: 0}"), ["4: server.budget.burst: got 0; expected a number from 1 to 1000000"]),
    (
        server("tenant_budget: {usd_per_hour: -0.5}"),
        [f"4: server.tenant_budget.usd_per_hour: got -0.5; expected {DOLLARS}, or off"],
    ),
]
"""What the schema sees as well."""

RANGES = [
    *(
        (
            target(f"breaker: {{{key}: {written}}}"),
            [f"3: targets.a.breaker.{key}: got '{written}'; expected {expected}"],
        )
        for key, written, expected in (
            ("failure_ratio", "0%", "a percentage between 1% and 100% or off"),
            ("failure_ratio", "101%", "a percentage between 1% and 100% or off"),
            ("slow_ratio", "101%", "a percentage between 1% and 100%"),
            ("slow_after", "0s", "a duration between 1ms and 1d or off"),
            ("window", "0s", "a duration between 1s and 1d"),
            ("open_for", "10ms", "a duration between 50ms and 1d"),
        )
    ),
    *(
        (server(f"{where}: {{{key}: {bad}}}"), [f"4: server.{where}.{key}: got '{bad}'; expected {expected}"])
        for where in ("budget", "tenant_budget")
        for key in ("hedges", "failovers")
        for bad, expected in (
            ("0%", "a percentage between 0.1% and 100% or off"),
            ("101%", "a percentage between 0.1% and 100% or off"),
        )
    ),
]

MAPPINGS = [
    (
        route("idempotency: true"),
        ["6: routes.r.idempotency: got true; expected a mapping such as {window: 10m}"],
    ),
    (route("sticky: user"), ["6: routes.r.sticky: got text; expected a mapping such as {by: x-session-id}"]),
]

CONTRADICTIONS = [
    hedge(
        "mode: race, width: 3",
        "width: is 3, but the route lists 2 targets: list more targets",
    ),
    (
        f"{GOOD_TARGET}routes: {{r: {{targets: [a], hedge: {{mode: race}}}}}}\n",
        [
            (
                "2: routes.r.hedge.mode: is race, which asks 2 targets together, but the route lists 1 target: "
                "list more targets; [a, a] asks the same one twice"
            )
        ],
    ),
    (
        route("hedge: {mode: race}\n    max_attempts: 1"),
        ["6: routes.r.hedge.mode: is race, which asks 2 targets together, but max_attempts is 1: raise it"],
    ),
    *(
        hedge(
            f"mode: race, {key}: 1",
            f"{key}: cannot be set with mode: race, which waits for no delay; drop one of the two",
        )
        for key in ("delay", "max_hedges")
    ),
    (
        route("hedge: {delay: slo: 1.2s}"),
        ["6: not valid YAML (column 23): an objective goes in braces: {slo: 1.2s}"],
    ),
    hedge("only_if: {headers: {X-A: b, x-a: c}}", "only_if.headers.x-a: is given twice; header names ignore case"),
    hedge("only_if: {headers: {'x a': b}}", 'only_if.headers."x a": expected the name of a header'),
    hedge(
        "min_delay: 3s, max_delay: 2s",
        "min_delay: 3s is too long for routes.r.hedge.max_delay (2s): there is no delay between them",
    ),
    hedge(
        "delay: p95, min_delay: 40s",
        "min_delay: 40s is too long for routes.r.hedge.max_delay (30s, the default): there is no delay between them",
    ),
    hedge(
        "max_delay: 10ms",
        "max_delay: 10ms is too short for routes.r.hedge.min_delay (50ms, the default): there is no delay between them",
    ),
    hedge(
        "min_delay: 60s, max_delay: 61s",
        (
            "min_delay: 60s is too long for routes.r.timeouts.first_token (60s, the default): "
            "no stream would ever be hedged"
        ),
    ),
    hedge(
        "min_delay: 10m, max_delay: 10m",
        "min_delay: 10m is too long for routes.r.timeouts.total (10m, the default): nothing would ever be hedged",
    ),
    hedge(
        "warmup: {delay: 40s}",
        f"warmup.delay: 40s is too long for routes.r.hedge.max_delay (30s, the default): {KEPT}",
    ),
    hedge(
        "warmup: {delay: 10ms}",
        f"warmup.delay: 10ms is too short for routes.r.hedge.min_delay (50ms, the default): {KEPT}",
    ),
    hedge(
        "warmup: {delay: 90s}, max_delay: 90s",
        (
            "warmup.delay: 90s is too long for routes.r.timeouts.first_token (60s, the default): "
            "no stream would be hedged before the warm-up is over"
        ),
    ),
    hedge(
        "delay: 60s",
        "delay: 60s is too long for routes.r.timeouts.first_token (60s, the default): no stream would ever be hedged",
    ),
    hedge(
        "delay: 10m",
        "delay: 10m is too long for routes.r.timeouts.total (10m, the default): nothing would ever be hedged",
    ),
    hedge(
        "delay: {slo: 10m}",
        "delay: slo: 10m is too long for routes.r.timeouts.total (10m, the default): no request lasts that long",
    ),
    hedge(
        "delay: {slo: 1s}, min_delay: 1s",
        "min_delay: 1s is too long for routes.r.hedge.delay (slo: 1s): no hedge could make that",
    ),
    hedge(
        "warmup: {samples: 1001}",
        (
            "warmup.samples: 1001 is too many for routes.r.hedge.window.samples (1000, the default): "
            "the warm-up would never end"
        ),
    ),
    hedge(
        "window: {samples: 50}",
        (
            "window.samples: 50 is too few for routes.r.hedge.warmup.samples (100, the default): "
            "the warm-up would never end"
        ),
    ),
    hedge(
        "mode: chain, delay: 2s",
        "delay: contradicts hedge.mode: chain, where one target is asked after the other; drop one of the two",
    ),
    (
        route("hedge: {mode: chain}\n    timeouts: {total: 60s}"),
        [
            (
                "7: routes.r.timeouts.total: 60s is too short for the chain: "
                "the targets before the last may take 60s, so it would never be asked"
            )
        ],
    ),
    (
        f"{OWN_LIMIT}routes:\n  r:\n    targets: [b, a, b]\n    hedge: {{mode: chain}}\n    timeouts: {{total: 62s}}\n",
        [
            (
                "8: routes.r.timeouts.total: 62s is too short for the chain: "
                "the targets before the last may take 62s, so it would never be asked"
            )
        ],
    ),
    (
        target("price: {source: off, input: 1}"),
        ["3: targets.a.price.source: is off, and prices are given beside it; drop one of the two"],
    ),
    (
        route("keep: {ttl: 1m}"),
        ["6: routes.r.keep: has no effect while routes.r.losers is cancel; set keep or drain there"],
    ),
    (
        route("losers: drain\n    keep: {ttl: 1m, scope: content}"),
        [
            f"7: routes.r.keep.{key}: has no effect while routes.r.losers is drain, which keeps nothing; drop it"
            for key in ("ttl", "scope")
        ],
    ),
    (
        route("losers: keep\n    keep: {max_usd: 1}"),
        ["7: routes.r.keep.max_usd: needs targets.a.price: say what it charges, {input: 0.25, output: 2}"],
    ),
    (
        f"{OWN_LIMIT}routes:\n  r:\n    targets: [b, a]\n    hedge: {{delay: 2s}}\n",
        ["7: routes.r.hedge.delay: 2s is too long for targets.b.first_token (2s): no stream would ever be hedged"],
    ),
    (
        f"{OWN_LIMIT}routes:\n  r:\n    targets: [b, a]\n    hedge: {{warmup: {{delay: 3s}}}}\n",
        [
            (
                "7: routes.r.hedge.warmup.delay: 3s is too long for targets.b.first_token (2s): "
                "no stream would be hedged before the warm-up is over"
            )
        ],
    ),
    (
        target("breaker: {slow_ratio: 50%}"),
        ["3: targets.a.breaker.slow_ratio: has no effect without targets.a.breaker.slow_after; set that or drop it"],
    ),
    *(
        (
            text,
            [
                (
                    f"{line}: targets.{each}.price: is required: {who} counts dollars, so say what this target "
                    "charges: {input: 0.25, output: 2}"
                )
                for line, each in ((2, "a"), (3, "b"))
            ],
        )
        for who, text in (
            ("routes.r.spend", route("spend: {usd_per_hour: 5}")),
            ("routes.r.spend", route("spend: {usd_per_month: 0.5}")),
            ("server.budget", f"{PAIR}routes: {{r: {{targets: [a, b]}}}}\nserver: {{budget: {{usd_per_day: 5}}}}\n"),
            (
                "server.tenant_budget",
                f"{PAIR}routes: {{r: {{targets: [a, b, a]}}}}\nserver: {{tenant_budget: {{usd_per_day: 5}}}}\n",
            ),
        )
    ),
    *(
        (
            f"{PRICED}routes:\n  r: {{targets: [a, b], spend: {{usd_per_day: 0}}, hedge: {{delay: {delay}}}}}\n",
            [
                (
                    f"5: routes.r.spend.usd_per_day: is 0: with hedge.delay: {delay} no hedge could ever be paid for; "
                    "drop it, or set delay: off"
                )
            ],
        )
        for delay in ("auto", "2s")
    ),
]

ALL = VALUES + KEYS + RANGES + MAPPINGS + CONTRADICTIONS


@pytest.mark.parametrize(("text", "errors"), ALL, ids=[errors[0][:90] for _, errors in ALL])
def test_a_malformed_file_is_refused_with_exactly_these_errors(text: str, errors: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, {})
    assert caught.value.problems == [f"hedgerow.yaml:{error}" for error in errors]


UNSEEN = (  # ranges of text, which a schema has no words for
    *("'2h'", "'500ms'", "'0s'", "'p40'", "'101%'", "'200%'", "'100%'", "'0%'", "delay: got 'slo: ", "'ema(p95, 2)'"),
    *("0.0000000001", "123456789.123456789", "'p0'", "delay: got 'slo'", "'ema(2s)'", "delay: got a mapping"),
)
SEEN = [text for text, errors in VALUES + KEYS if not any(each in errors[0] for each in UNSEEN)]


@pytest.mark.parametrize("text", SEEN, ids=range(len(SEEN)))
def test_the_schema_refuses_what_an_editor_can_see(text: str) -> None:
    data = yaml.load(text, Loader=yaml.BaseLoader) if "switch: yes" in text else yaml.safe_load(text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json_schema())


def test_a_chain_takes_what_its_targets_take() -> None:
    for chain in ("mode: chain", "mode: chain, delay: off"):
        assert loads(route(f"hedge: {{{chain}}}\n    timeouts: {{total: 120s}}"), {}).warnings == []
    tight = loads(route("hedge: {mode: chain, budget: 5%, rollout: 50%}\n    timeouts: {total: 119s}"), {})
    unused = "has no effect in mode: chain, which never hedges"
    short = "119s leaves the last target of the chain less than its first_token: together they may take 2m"
    assert tight.warnings == [
        f"hedgerow.yaml:6: routes.r.hedge.budget: {unused}",
        f"hedgerow.yaml:6: routes.r.hedge.rollout: {unused}",
        f"hedgerow.yaml:7: routes.r.timeouts.total: {short}",
    ]
    own = f"{OWN_LIMIT}routes: {{r: {{targets: [a, b], hedge: {{mode: chain}}, timeouts: {{total: 62s}}}}}}\n"
    assert loads(own, {}).warnings == []
    lone = loads(f"{GOOD_TARGET}routes: {{r: {{targets: [a], hedge: {{mode: chain}}}}}}\n", {})
    assert lone.warnings == [
        "hedgerow.yaml:2: routes.r.hedge.mode: is chain, but the route allows one attempt: nobody is asked next"
    ]


def test_settings_that_contradict_only_with_hedging_on_are_fine_without_it() -> None:
    for settings in ("delay: off, min_delay: 3s, max_delay: 2s", "max_hedges: 0, warmup: {samples: 1001}"):
        loads(route(f"hedge: {{{settings}}}"), {})
    free = GOOD_TARGET.replace("v1'", "v1', price: {}")
    loads(f"{free}routes: {{r: {{targets: [a, a], spend: {{usd_per_day: 0}}}}}}\n", {})
