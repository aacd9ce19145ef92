"""Malformed configurations: each with the exact text of all its errors."""

from __future__ import annotations

import contextlib
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.config import all_keys, json_schema, load, loads
from hedgerow.errors import ConfigError

KNOWN = sorted({key.rpartition(".")[2] for key in all_keys()})
ENVIRON = {"KEY": "sk-env-secret", "EMPTY": "", "PORT": "seventy"}

GOOD_TARGET = "targets: {a: {base_url: 'https://a.example/v1'}}\n"
GOOD_ROUTE = "routes: {r: {targets: [a]}}\n"
PAIR = "targets:\n  a: {base_url: 'https://a.example/v1'}\n  b: {base_url: 'https://b.example/v1'}\n"


def target(line: str) -> str:
    """A file whose third line is a key of target `a`."""
    return f"targets:\n  a:\n    {line}\n    base_url: https://a.example/v1\n{GOOD_ROUTE}"


def base_url(url: str) -> str:
    return f"targets:\n  a:\n    base_url: {url}\n{GOOD_ROUTE}"


def route(line: str) -> str:
    """A file whose sixth line is a key of route `r`."""
    return f"{PAIR}routes:\n  r:\n    {line}\n    targets: [a, b]\n"


def server(line: str) -> str:
    """A file whose fourth line is a key of the server."""
    return f"{GOOD_TARGET}{GOOD_ROUTE}server:\n  {line}\n"


TEXT = [
    ("empty", "", ["1: the file is empty; `hedgerow init` writes one to start from"]),
    ("only a comment", "# nothing\n", ["1: the file is empty; `hedgerow init` writes one to start from"]),
    ("a list", "- targets\n", ["1: got a list; expected a mapping with the keys targets and routes"]),
    ("a key alone", "sk-oops\n", ["1: got a single value; expected a mapping with the keys targets and routes"]),
    ("a tab", "targets:\n\ta: 1\n", ["2: not valid YAML (column 1): a tab where YAML allows only spaces"]),
    ("two colons", "a: b: c\n", ["1: not valid YAML (column 5): mapping values are not allowed here"]),
    (
        "an unquoted star",
        f"{GOOD_TARGET}routes:\n  *: {{targets: [a]}}\n",
        ['3: not valid YAML (column 4): a name that starts with * must be quoted: "*"'],
    ),
    (
        "unquoted IPv6",
        f"{GOOD_TARGET}{GOOD_ROUTE}server:\n  listen: [::1]:8080\n",
        ['4: not valid YAML (column 12): an IPv6 address must be quoted: "[::1]:8080"'],
    ),
    ("a control character", "targets: \x07\n", ["1: not valid YAML: a character that YAML does not allow"]),
    ("an endless alias", "targets: &a {b: *a}\n", ["1: aliases make the file endless or too large"]),
    (
        "a duplicate key",
        f"{GOOD_TARGET}{GOOD_ROUTE}{GOOD_TARGET}",
        ["1: targets: given twice, on lines 1 and 3"],
    ),
    (
        "a Python tag",
        target("model: !!python/name:os.system x"),
        ["3: targets.a.model: the YAML tag 'python/name:os.system' is not supported"],
    ),
    ("a list as a key", f"{GOOD_TARGET}{GOOD_ROUTE}? [x]\n: 1\n", ["1: a key must be text, not a list or a mapping"]),
    ("a merge of nothing", target("<<: 1"), ["2: targets.a: << needs a mapping to merge"]),
]

SECTIONS = [
    (
        "no routes",
        GOOD_TARGET,
        ["1: routes: is required: at least one route"],
    ),
    (
        "no targets",
        "targets: {}\n" + GOOD_ROUTE,
        [
            "1: targets: is required: at least one target",
            "2: routes.r.targets[0]: there is no target 'a'",
        ],
    ),
    (
        "targets as a list",
        f"targets: [a]\n{GOOD_ROUTE}",
        [
            "1: targets: got a list; expected a mapping of names",
            "2: routes.r.targets[0]: there is no target 'a'",
        ],
    ),
    (
        "a key instead of a target",
        f"targets:\n  a: sk-oops\n{GOOD_ROUTE}",
        ["2: targets.a: got text; expected a mapping such as {base_url: https://api.openai.com/v1}"],
    ),
    (
        "a LiteLLM config",
        "# of ours\nmodel_list: [{model_name: x, litellm_params: {api_key: '${UNSET}'}}]\n",
        [
            "2: this is a LiteLLM config; make a hedgerow.yaml of it: hedgerow import hedgerow.yaml -o hedgerow.yaml",
        ],
    ),
    (
        "an unknown section",
        f"{GOOD_TARGET}{GOOD_ROUTE}sever: {{}}\n",
        ["3: sever: unknown key; did you mean 'server'?"],
    ),
    (
        "an unknown key",
        target("apikey: sk-oops"),
        ["3: targets.a.apikey: unknown key; did you mean 'api_key'?"],
    ),
    (
        "a key unlike any other",
        target("tls: {ciphers: ALL}"),
        ["3: targets.a.tls.ciphers: unknown key; the keys here are: verify, ca_file"],
    ),
    (
        "a dotted name",
        f"{GOOD_TARGET}routes:\n  gpt-4.1: {{targets: [a], hege: 1}}\n",
        ["3: routes.\"gpt-4.1\".hege: unknown key; did you mean 'hedge'?"],
    ),
    (
        "a star in the middle",
        f"{GOOD_TARGET}routes: {{gpt-*-mini: {{targets: [a]}}}}\n",
        ["2: routes.gpt-*-mini: a * may stand only at the end of a route's name"],
    ),
]

TARGETS = [
    (
        "a name with a line break",
        'targets: {"a\\r\\nx: y": {base_url: "https://a.example/v1"}}\nroutes: {r: {targets: ["a\\r\\nx: y"]}}\n',
        ['1: targets."a\\r\\nx: y": a target\'s name must be printable text'],
    ),
    ("no base_url", f"targets:\n  a: {{model: m}}\n{GOOD_ROUTE}", ["2: targets.a.base_url: is required"]),
    (
        "no scheme",
        base_url("api.openai.com/v1"),
        ["3: targets.a.base_url: has no scheme; start it with https:// or http://"],
    ),
    ("another scheme", base_url("ftp://a.example"), ["3: targets.a.base_url: must start with https:// or http://"]),
    (
        "the whole endpoint",
        base_url("https://a.example/v1/chat/completions/"),
        ["3: targets.a.base_url: ends in /chat/completions, which hedgerow adds by itself; drop that ending"],
    ),
    (
        "a password in the URL",
        base_url("https://me:hunter2@a.example/v1"),
        ["3: targets.a.base_url: must not hold a user name or password; use api_key or headers"],
    ),
    (
        "a query",
        base_url("https://a.example/v1?api-version=1"),
        ["3: targets.a.base_url: must not hold a query or fragment; drop everything from the '?' or '#'"],
    ),
    (
        "a bad port",
        base_url("https://a.example:99999/v1"),
        ["3: targets.a.base_url: is not a valid URL: check its host and port"],
    ),
    (
        "a URL with an umlaut",
        base_url("https://a.example/ä/v1"),
        ["3: targets.a.base_url: holds a blank or a letter beyond ASCII; write such characters as %20 and the like"],
    ),
    ("no host", base_url("https:///v1"), ["3: targets.a.base_url: is not a valid URL: check its host and port"]),
    (
        "another protocol",
        target("protocol: anthropc"),
        ["3: targets.a.protocol: got 'anthropc'; expected some of openai, anthropic, gemini, http"],
    ),
    (
        "another protocol among others",
        target("protocol: [openai, anthropc]"),
        ["3: targets.a.protocol[1]: got 'anthropc'; expected one of openai, anthropic, gemini, http"],
    ),
    (
        "no protocol at all",
        target("protocol: []"),
        ["3: targets.a.protocol: needs at least one of openai, anthropic, gemini, http"],
    ),
    (
        "another header for the key",
        target("api_key: k\n    key_header: x-key"),
        [
            (
                "4: targets.a.key_header: got 'x-key'; expected one of auto, authorization, x-api-key, api-key, "
                "x-goog-api-key"
            )
        ],
    ),
    (
        "a header for keys that is none",
        target("idempotency_header: 'my key'"),
        [("3: targets.a.idempotency_header: got 'my key'; expected the name of a header such as Idempotency-Key")],
    ),
    (
        "a header for keys that is ours",
        target("idempotency_header: Content-Length"),
        ["3: targets.a.idempotency_header: is set by hedgerow itself and cannot be overridden"],
    ),
    (
        "a header for no key",
        target("key_header: api-key"),
        ["3: targets.a.key_header: has no effect: the target has no key; set api_key or drop it"],
    ),
    (
        "two values for the header of the key",
        target("api_key: k\n    key_header: api-key\n    headers: {api-key: j}"),
        ["5: targets.a.headers: api-key contradicts targets.a.api_key; keep one of the two"],
    ),
    (
        "an unset variable",
        target("api_key: ${NOPE}"),
        ["3: targets.a.api_key: the environment variable NOPE is not set"],
    ),
    (
        "an empty variable",
        target("api_key: ${EMPTY}"),
        ["3: targets.a.api_key: the environment variable EMPTY is empty"],
    ),
    (
        "a shell expression",
        target("model: ${KEY:?no}"),
        ["3: targets.a.model: a reference is written ${NAME} or ${NAME:-default}; $${ gives a plain ${"],
    ),
    (
        "an open reference",
        target("model: ${KEY"),
        ["3: targets.a.model: a reference is written ${NAME} or ${NAME:-default}; $${ gives a plain ${"],
    ),
    (
        "a reference in a reference",
        target("model: ${NOPE:-${KEY}}"),
        ["3: targets.a.model: a reference is written ${NAME} or ${NAME:-default}; $${ gives a plain ${"],
    ),
    (
        "a key that is a number",
        target("api_key: 12345"),
        ["3: targets.a.api_key: expected a key: text, in quotes if it looks like a number"],
    ),
    (
        "a key with a blank",
        target("api_key: sk oops"),
        ["3: targets.a.api_key: holds a blank or a character that cannot be sent in a header"],
    ),
    (
        "two keys",
        target("api_key: a\n    api_key_file: secret.txt"),
        ["4: targets.a.api_key_file: targets.a.api_key is set too; keep one of the two"],
    ),
    (
        "one key and several",
        target("api_keys: [sk-a, sk-b]\n    api_key: sk-c"),
        ["3: targets.a.api_keys: targets.a.api_key is set too; keep one of the two"],
    ),
    (
        "a key twice",
        target("api_keys: [sk-a, sk-b, sk-a]"),
        ["3: targets.a.api_keys[2]: is the same key as number 1"],
    ),
    (
        "an account of several keys",
        target("api_keys: [sk-a, sk-b]\n    account: mine"),
        ["4: targets.a.account: contradicts targets.a.api_keys: each key has its own"],
    ),
    (
        "no such key file",
        target("api_key_file: sk-oops"),
        [
            (
                "3: targets.a.api_key_file: the file cannot be read: No such file or directory; "
                "a relative path starts from {folder}"
            )
        ],
    ),
    (
        "an empty key file",
        target("api_key_file: empty.txt"),
        ["3: targets.a.api_key_file: {folder}/empty.txt must hold one key on one line"],
    ),
    (
        "a model that is a number",
        target("model: 4.10"),
        ["3: targets.a.model: got 4.10; expected text: put the value in quotes"],
    ),
    ("a blank model", target("model: ' '"), ["3: targets.a.model: is empty"]),
    (
        "two models",
        target("override: {model: x}\n    model: y"),
        ["3: targets.a.override.model: targets.a.model is set too; keep one of the two"],
    ),
    (
        "a model of nothing",
        target("override: {model: }"),
        ["3: targets.a.override.model: expected the name of a model"],
    ),
    (
        "overrides that are a list",
        target("override: [max_tokens]"),
        [
            (
                "3: targets.a.override: got a list; "
                "expected a mapping of the request's fields to values such as {max_tokens: 256}"
            )
        ],
    ),
    (
        "a field that is no name",
        target("override: {a b: 1}"),
        ['3: targets.a.override."a b": expected the name of a field: letters and _, with dots into objects'],
    ),
    (
        "a field within another",
        target("override: {reasoning.effort: low, reasoning: {effort: high}}"),
        ['3: targets.a.override."reasoning.effort": is within reasoning, which is set as a whole; keep one of the two'],
    ),
    (
        "a number that JSON does not know",
        target("override: {seed: [1e999]}"),
        ["3: targets.a.override.seed: holds a number that JSON does not know"],
    ),
    (
        "an overridden stream",
        target("override: {stream: false}"),
        [
            (
                "3: targets.a.override.stream: stream cannot be overridden: it is the question, or what hedgerow "
                "decides by, as are audio, background, best_of, cachedContent, candidateCount, container, "
                "contents, continuationToken, conversation, fallback_credit_token, generationOutputConfig, input,"
                " instructions, mcp_servers, messages, modalities, n, plugins, previous_response_id, prompt, "
                "responseModalities, search_parameters, store, stream_format, stream_options, suffix, system, "
                "systemInstruction, thread, tools, web_search_options"
            )
        ],
    ),
    (
        "a header of ours",
        target("headers: {Content-Length: '3'}"),
        ["3: targets.a.headers.Content-Length: is set by hedgerow itself and cannot be overridden"],
    ),
    (
        "a header name with a blank",
        target("headers: {'X Y': z}"),
        ['3: targets.a.headers."X Y": is not a valid header name'],
    ),
    (
        "a header that splits",
        target('headers: {X-Y: "a\\r\\nb: c"}'),
        ["3: targets.a.headers.X-Y: holds a character that cannot be sent in a header"],
    ),
    (
        "a header twice",
        target("headers: {X-Y: a, x-y: b}"),
        ["3: targets.a.headers.x-y: is given twice; header names ignore case"],
    ),
    (
        "two authorizations",
        target("headers: {Authorization: Basic x}\n    api_key: k"),
        ["3: targets.a.headers: authorization contradicts targets.a.api_key; keep one of the two"],
    ),
    (
        "no connections",
        target("connections: {max: 0}"),
        ["3: targets.a.connections.max: got 0; expected a whole number from 1 to 100000"],
    ),
    (
        "not a flag",
        target("tls: {verify: no}"),
        ["3: targets.a.tls.verify: got 'no'; expected true or false, on or off"],
    ),
    (
        "a CA that is not used",
        target("tls: {verify: false, ca_file: secret.txt}"),
        ["3: targets.a.tls.ca_file: has no effect while targets.a.tls.verify is false; drop one of the two"],
    ),
    (
        "not a proxy",
        target("proxy: socks5"),
        ["3: targets.a.proxy: expected env, off, or a URL such as http://proxy.example:3128"],
    ),
    (
        "a bad proxy with a password",
        target("proxy: http://me:hunter2@"),
        ["3: targets.a.proxy: is not a valid URL: check its host and port"],
    ),
]

ROUTES = [
    (
        "an unknown target",
        "targets:\n  openai: {base_url: 'https://a.example/v1'}\nroutes:\n  r: {targets: [openai, opnai]}\n",
        ["4: routes.r.targets[1]: there is no target 'opnai'; did you mean 'openai'?"],
    ),
    (
        "an order that is none",
        route("order: fastst"),
        ["6: routes.r.order: got 'fastst'; expected one of fixed, rotate, fastest, cheapest"],
    ),
    (
        "an order by nothing",
        route("order: {quantile: p90}"),
        ["6: routes.r.order: says no order: expected one such as {by: fastest, quantile: p90}"],
    ),
    (
        "an option of another order",
        route("order: {by: rotate, explore: 3%}"),
        ["6: routes.r.order.explore: is no option of rotate; it has none"],
    ),
    (
        "an option that is too much",
        route("order: {by: fastest, explore: 60%}"),
        ["6: routes.r.order.explore: got '60%'; expected a percentage between 0% and 50%"],
    ),
    (
        "an unknown order with options",
        route("order: {by: fastst}"),
        ["6: routes.r.order.by: got 'fastst'; expected one of fixed, rotate, fastest, cheapest"],
    ),
    (
        "no targets in a route",
        f"{GOOD_TARGET}routes: {{r: {{targets: []}}}}\n",
        ["2: routes.r.targets: needs at least one target"],
    ),
    (
        "one target not in a list",
        f"{GOOD_TARGET}routes: {{r: {{targets: a}}}}\n",
        ["2: routes.r.targets: got 'a'; expected a list of target names such as [openai, azure]"],
    ),
    (
        "not a duration",
        route("hedge: {delay: soon}"),
        [
            (
                "6: routes.r.hedge.delay: got 'soon'; expected 2s, 300ms, p95, p99.5, ema(p95), {slo: 1.2s}, auto, "
                "0 (at once) or off"
            )
        ],
    ),
    (
        "a delay in place of the hedge",
        route("hedge: 300ms"),
        ["6: routes.r.hedge: got text; expected a mapping; did you mean {delay: 300ms}?"],
    ),
    (
        "a percentile in place of the hedge",
        route("hedge: p95"),
        ["6: routes.r.hedge: got text; expected a mapping; did you mean {delay: p95}?"],
    ),
    (
        "off in place of the hedge",
        route("hedge: off"),
        ["6: routes.r.hedge: got text; expected a mapping; did you mean {delay: off}?"],
    ),
    (
        "what may be a secret in place of the hedge",
        route("hedge: sk-oops"),
        ["6: routes.r.hedge: got text; expected a mapping such as {delay: 2s}"],
    ),
    (
        "a delay in bare milliseconds that is too long for a timeout",
        route("hedge: {delay: 300}"),
        [
            (
                "6: routes.r.hedge.delay: 5m is too long for routes.r.timeouts.first_token (60s, the default): "
                "no stream would ever be hedged; a bare number means seconds, did you mean 300ms?"
            )
        ],
    ),
    (
        "a delay in bare milliseconds that is too long for a delay",
        route("hedge: {delay: 4000}"),
        [
            (
                "6: routes.r.hedge.delay: got 4000; expected a delay between 0s and 1h; "
                "a bare number means seconds, did you mean 4000ms?"
            )
        ],
    ),
    (
        "a negative duration",
        route("timeouts: {stall: -1}"),
        ["6: routes.r.timeouts.stall: got -1; expected a duration such as 2s or 300ms"],
    ),
    (
        "a timeout of nought",
        route("timeouts: {stall: 0s}"),
        ["6: routes.r.timeouts.stall: got '0s'; expected a duration between 1ms and 1d"],
    ),
    (
        "too many hedges",
        route("hedge: {max_hedges: 4}"),
        ["6: routes.r.hedge.max_hedges: got 4; expected a whole number from 0 to 3"],
    ),
    *(
        (
            f"a budget of {budget}",
            route(f"hedge: {{budget: {budget}}}"),
            [f"6: routes.r.hedge.budget: got {got}; expected a percentage such as 10% or off; a number needs its %"],
        )
        for budget, got in (
            ("10", "10"),
            ("0.1", "0.1"),
            ('"10"', "'10'"),
            ("-5%", "'-5%'"),
            ("ten%", "'ten%'"),
            ("true", "true"),
            ("~", "~"),
            ("[10%]", "a list"),
        )
    ),
    *(
        (
            f"a budget of {budget}",
            route(f"hedge: {{budget: {budget}}}"),
            [f"6: routes.r.hedge.budget: got '{budget}'; expected a percentage between 0.1% and 100% or off{hint}"],
        )
        for budget, hint in (
            ("0%", " (no cap); to hedge nothing, set delay: off"),
            ("0.05%", ""),
            ("100.1%", ""),
        )
    ),
    (
        "too many attempts",
        route("max_attempts: 3"),
        ["6: routes.r.max_attempts: 3 is more than the 2 of routes.r.targets; list a target twice to try it twice"],
    ),
    (
        "a delay beyond first_token",
        route("hedge: {delay: 90s}"),
        [
            (
                "6: routes.r.hedge.delay: 90s is too long for routes.r.timeouts.first_token (60s, the default): "
                "no stream would ever be hedged"
            )
        ],
    ),
    (
        "a first_token below the delay",
        route("timeouts: {first_token: 1s}"),
        [
            (
                "6: routes.r.timeouts.first_token: 1s is too short for routes.r.hedge.warmup.delay (2s, the default): "
                "no stream would be hedged before the warm-up is over"
            )
        ],
    ),
    (
        "a total below the delay",
        route("timeouts: {total: 1s}"),
        [
            (
                "6: routes.r.timeouts.total: 1s is too short for routes.r.hedge.warmup.delay (2s, the default): "
                "nothing would be hedged before the warm-up is over"
            )
        ],
    ),
    (
        "timeouts beyond the total",
        route("timeouts: {first_token: 9s, stall: 8s, total: 7s}"),
        [
            "6: routes.r.timeouts.first_token: 9s is too long for routes.r.timeouts.total (7s): it could never run out",
            "6: routes.r.timeouts.stall: 8s is too long for routes.r.timeouts.total (7s): it could never run out",
        ],
    ),
]

REDIS_URL = "expected the URL of a Redis, such as redis://127.0.0.1:6379/0, rediss://:password@host:6380"
LEDGER_URL = (
    "expected the URL of a database: sqlite:///hedgerow-ledger.db, sqlite:////var/lib/ledger.db, postgresql://host/name"
)
SERVER = [
    *(
        (f"no database: {written}", server(f"ledger: {{url: {written}}}"), [f"4: server.ledger.url: {LEDGER_URL}"])
        for written in ("ledger.db", "mysql://me:pw@host/db", "'sqlite:///:memory:'", "sqlite://", "7", "[x]")
    ),
    (
        "a ledger in no folder",
        server("ledger: {url: 'sqlite:////no/such/l.db'}"),
        ["4: server.ledger.url: there is no folder /no/such"],
    ),
    (
        "a ledger that is a word",
        server("ledger: maybe"),
        ["4: server.ledger: got text; expected a mapping such as {url: 'sqlite:///hedgerow-ledger.db'}, or on"],
    ),
    (
        "sums that go before their rows",
        server("ledger: {url: 'sqlite:///l.db', keep: 90d, keep_hourly: 30d}"),
        ["4: server.ledger.keep_hourly: must be at least as long as keep"],
    ),
    *(
        (f"no Redis: {written}", server(f"redis: {written}"), [f"4: server.redis: {REDIS_URL}"])
        for written in ("localhost:6379", "http://x", "redis://", "redis://host/name", "6379", "[redis://host]")
    ),
    *(
        (
            f"no collector: {written}",
            server(f"traces: {{endpoint: '{written}'}}"),
            [f"4: server.traces.endpoint: {why}"],
        )
        for written, why in (
            ("collector:4318", "has no scheme; start it with https:// or http://"),
            ("http://me:word@collector", "must not hold a user name or password; use headers"),
            (
                "http://collector/v1/traces?x=1",
                "must not hold a query or fragment; drop everything from the '?' or '#'",
            ),
        )
    ),
    *(
        (
            f"no share: {written}",
            server(f"traces: {{sample: {written}}}"),
            [
                (
                    f"4: server.traces.sample: got {written}; "
                    "expected a percentage between 0% and 100%; a number needs its %"
                )
            ],
        )
        for written in ("0.1", "'many'")
    ),
    (
        "a port alone",
        server("listen: 8080"),
        [
            (
                "4: server.listen: got 8080; expected host:port such as 127.0.0.1:8080, [::1]:8080, "
                "or :8080 for all interfaces"
            )
        ],
    ),
    (
        "a port too high",
        server("listen: ':70000'"),
        ["4: server.listen: got ':70000'; expected a port from 0 to 65535"],
    ),
    (
        "IPv6 without brackets",
        server("listen: '::1:8080'"),
        ["4: server.listen: got '::1:8080'; expected an IPv6 address in brackets: '[::1]:8080'"],
    ),
    (
        "a port from the environment",
        server("listen: ':${PORT}'"),
        [
            (
                "4: server.listen: got ':${PORT}'; expected host:port such as 127.0.0.1:8080, [::1]:8080, "
                "or :8080 for all interfaces"
            )
        ],
    ),
    ("a certificate without its key", server("tls: {cert: secret.txt}"), ["4: server.tls.key: is required"]),
    (
        "a key that is not there",
        server("tls: {cert: secret.txt, key: nowhere.pem}"),
        ["4: server.tls.key: cannot read {folder}/nowhere.pem: No such file or directory"],
    ),
    ("one key not in a list", server("api_keys: sk-oops"), ["4: server.api_keys: expected a list of keys"]),
    (
        "an empty client key",
        server("api_keys: [a, '']"),
        ["4: server.api_keys[1]: is empty; leave it out if no key is needed"],
    ),
    (
        "not a size",
        server("limits: {body_bytes: big}"),
        ["4: server.limits.body_bytes: got 'big'; expected a size such as 64KiB or 4MB"],
    ),
    (
        "a size too small",
        server("limits: {header_bytes: 12}"),
        ["4: server.limits.header_bytes: got 12; expected a size between 1KiB and 16MiB"],
    ),
    (
        "an unknown level",
        server("log_level: loud"),
        ["4: server.log_level: got 'loud'; expected one of debug, info, warning, error"],
    ),
    (
        "an unknown default route",
        server("default_route: s"),
        ["4: server.default_route: there is no route 's'; the routes are: r"],
    ),
    (
        "passthrough with keys of our own",
        (
            f"targets:\n  a: {{base_url: 'https://a.example/v1', api_key: passthrough}}\n{GOOD_ROUTE}"
            "server: {api_keys: [k]}\n"
        ),
        [
            (
                "2: targets.a.api_key: passthrough contradicts server.api_keys: one key of the client's cannot be both "
                "hedgerow's and the provider's; drop one of the two"
            )
        ],
    ),
    (
        "a circle",
        f"targets:\n  a: {{base_url: 'http://localhost:8080/v1'}}\n{GOOD_ROUTE}",
        [
            (
                "2: targets.a.base_url: is hedgerow's own address (server.listen is 127.0.0.1:8080): "
                "requests would go round in circles"
            )
        ],
    ),
]

CASES = TEXT + SECTIONS + TARGETS + ROUTES + SERVER


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    (folder / "secret.txt").write_text("sk-file-secret\n")
    (folder / "empty.txt").write_text("\n")
    return folder


@pytest.mark.parametrize(("text", "errors"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_malformed_file_is_refused_with_exactly_these_errors(text: str, errors: list[str], folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, ENVIRON, folder=folder)
    assert caught.value.problems == [f"hedgerow.yaml:{error.replace('{folder}', str(folder))}" for error in errors]


@pytest.mark.parametrize("text", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_no_error_shows_a_secret(text: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, ENVIRON, folder=folder)
    for secret in ("sk-oops", "sk oops", "hunter2", "sk-env-secret", "sk-file-secret", "seventy", "12345"):
        assert secret not in str(caught.value)


def test_all_errors_are_told_at_once_in_the_order_of_the_file(folder: Path) -> None:
    text = """\
targets:
  openai:
    base_url: api.openai.com
    api_key: ${NOPE}
    connections: {max: 0, queu: 3}
  own: {base_url: "http://127.0.0.1:8080/v1"}
routes:
  fast:
    hedge: {delay: soon}
    targets: [opnai, openai]
  slow: {targets: [own, owm], hedge: {delay: 90s}}
server:
  default_route: fats
  listen: 1
bogus: 1
"""
    with pytest.raises(ConfigError) as caught:
        loads(text, {}, folder=folder)
    found = [problem.removeprefix("hedgerow.yaml:").split(": ")[:2] for problem in caught.value.problems]
    assert found == [
        ["3", "targets.openai.base_url"],
        ["4", "targets.openai.api_key"],
        ["5", "targets.openai.connections.max"],
        ["5", "targets.openai.connections.queu"],
        ["9", "routes.fast.hedge.delay"],
        ["10", "routes.fast.targets[0]"],
        ["11", "routes.slow.targets[1]"],
        ["11", "routes.slow.hedge.delay"],
        ["13", "server.default_route"],
        ["14", "server.listen"],
        ["15", "bogus"],
    ]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path / "none.yaml", "there is no such file; `hedgerow init` writes one to start from"),
        (tmp_path, "cannot be read: Is a directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(path, {})
        assert caught.value.problems == [f"{path}: {why}"]
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"targets: \xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 9\)"):
        load(binary, {})


def test_messages_name_the_file_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text(GOOD_TARGET)
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert caught.value.problems == [f"{path}:1: routes: is required: at least one route"]


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for name, before in zip("bcdefgh", "abcdefg", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    with pytest.raises(ConfigError, match="aliases make the file endless or too large"):
        loads("\n".join(lines), {})


SCALARS = st.sampled_from(
    [
        "",
        "~",
        "true",
        "1",
        "0.5",
        "2s",
        "a",
        "${KEY}",
        "${",
        "*a",
        "&a x",
        "<<",
        "'",
        '"',
        "!!set {}",
        "-",
        "[",
        "}",
        "?",
    ]
)
KEYS = st.sampled_from(
    ["targets", "routes", "server", "a", "base_url", "hedge", "delay", "timeouts", "tls", "headers", "<<", "*", "{"]
)
LINES = st.builds(lambda depth, key, value: f"{'  ' * depth}{key}: {value}", st.integers(0, 4), KEYS, SCALARS)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=12).map("\n".join) | st.text(max_size=60))
def test_no_text_makes_anything_but_settings_or_a_config_error(text: str) -> None:
    try:
        loads(text, ENVIRON)
    except ConfigError as error:
        assert all(problem.startswith("hedgerow.yaml:") for problem in error.problems)  # noqa: PT017  # either may happen


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "2s", "https://x/", "${KEY}", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*"ab*", *KNOWN]), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries({"targets": VALUES, "routes": VALUES}, optional={"server": VALUES, "x": VALUES}))
def test_no_shape_makes_anything_but_settings_or_a_config_error(data: dict[str, object]) -> None:
    with contextlib.suppress(ConfigError):
        loads(yaml.safe_dump(data), ENVIRON)


def test_a_file_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        loads("targets: " + "[" * 5000, {})
    assert caught.value.problems == ["hedgerow.yaml:1: is nested too deeply"]


# What a schema can see: everything but references between keys, files, the environment and YAML itself.
BEYOND_A_SCHEMA = {
    *("a duplicate key", "a star in the middle", "the whole endpoint", "a bad port", "two keys", "no such key file"),
    *("an empty key file", "an unset variable", "an empty variable", "a shell expression", "an open reference"),
    *("a reference in a reference", "a name with a line break", "a total below the delay"),
    *("a key with a blank", "a blank model", "a header of ours", "a header name with a blank", "a header that splits"),
    *("a header for no key", "a header for keys that is ours", "two values for the header of the key"),
    *("a header twice", "two authorizations", "a CA that is not used", "an unknown target", "too many attempts"),
    *(
        "a delay beyond first_token",
        "a first_token below the delay",
        "timeouts beyond the total",
        "a timeout of nought",
        "a delay in bare milliseconds that is too long for a timeout",
    ),
    *("a budget of 0%", "a budget of 0.05%", "a budget of 100.1%"),
    *("a port too high", "IPv6 without brackets", "a port from the environment", "a key that is not there"),
    *("an unknown default route", "passthrough with keys of our own", "a circle", "no host", "a URL with an umlaut"),
    *("a bad proxy with a password", "two models", "a field within another", "a number that JSON does not know"),
    *("a ledger in no folder", "sums that go before their rows"),
    *("an option that is too much", "one key and several", "a key twice", "an account of several keys"),
}
FOR_A_SCHEMA = [case for case in SECTIONS + TARGETS + ROUTES + SERVER if case[0] not in BEYOND_A_SCHEMA]


@pytest.mark.parametrize("text", [case[1] for case in FOR_A_SCHEMA], ids=[case[0] for case in FOR_A_SCHEMA])
def test_the_schema_refuses_what_an_editor_can_see(text: str) -> None:
    data = yaml.load(text, Loader=yaml.BaseLoader) if "verify: no" in text else yaml.safe_load(text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json_schema())
