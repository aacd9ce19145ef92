"""What may stand where a mapping must: one example of each, for whoever wrote something else there."""

from __future__ import annotations

from collections.abc import Mapping

from hedgerow.config.problem import KeyPath

_EXAMPLES: Mapping[str, str] = {
    "admin": "{token_file: /run/secrets/admin}",
    "breaker": "{failure_ratio: 50%}",
    "budget": "{usd_per_day: 50}",
    "connections": "{max: 100}",
    "experiment": "{holdout: 5%}",
    "failover": "{budget: 20%}",
    "gates": "{require: [finished]}",
    "hedge": "{delay: 2s}",
    "idempotency": "{window: 10m}",
    "keep": "{max_time: 30s}",
    "ledger": "{url: 'sqlite:///hedgerow-ledger.db'}, or on",
    "limits": "{body_bytes: 64MiB}",
    "metrics": "{enabled: true}",
    "only_if": "{streaming: true}",
    "outage": "{max_tokens: 20}",
    "prefix": "{tokens: 40}",
    "price": "{input: 0.25, output: 2}",
    "prices": "{file: prices.json, update: 1d}",
    "spend": "{usd_per_day: 5}",
    "sticky": "{by: x-session-id}",
    "tenant_budget": "{usd_per_day: 5}",
    "timeouts": "{total: 2m, first_token: 30s}",
    "traces": "{endpoint: http://127.0.0.1:4318}",
    "warmup": "{samples: 100}",
    "window": "{age: 30m}",
}


def example_of(path: KeyPath) -> str:
    """Such a mapping for the key at `path`, as YAML on one line."""
    match path:
        case ("targets", _):
            return "{base_url: https://api.openai.com/v1}"
        case ("routes", _):
            return "{targets: [openai, azure]}"
        case ("server",):
            return "{listen: 127.0.0.1:8080}"
        case ("server", "tls"):
            return "{cert: cert.pem, key: key.pem}"
        case ("server", "timeouts"):
            return "{drain: 30s}"
        case ("targets", _, "tls"):
            return "{verify: true}"
        case _:
            return _EXAMPLES[str(path[-1])]
