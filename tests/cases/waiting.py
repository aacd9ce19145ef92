"""What the cases ask for and hedgerow does not have yet, by feature. Who builds a feature takes its lines off here.

A case whose policy, protocol or script needs one is not run. A case with only such keys in its record is run in full:
everything else must be right, and then it waits for those keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from tests.cases.case import AttemptExpected, Case, Expected, RecordExpected, given

_Part = TypeVar("_Part", RecordExpected, AttemptExpected)

PROTOCOLS: Mapping[str, str] = {"bedrock.converse": "Bedrock's ConverseStream"}
POLICY: Mapping[str, str] = {
    "pin_probe_ms": "probes of targets that are out",
}
SCRIPT: Mapping[str, str] = {"http": "HTTP/2 to upstreams"}

RECORD: Mapping[str, str] = {
    "cost_is_lower_bound": "costs",
}
ATTEMPT: Mapping[str, str] = {"billed": "costs"}


def needed_to_run(case: Case) -> dict[str, str]:
    """What the case cannot be run without, by key, with the feature."""
    needs = {f"protocol {case.protocol}": PROTOCOLS[case.protocol]} if case.protocol in PROTOCOLS else {}
    needs |= {f"policy.{key}": POLICY[key] for key in given(case.policy) if key in POLICY}
    if case.policy.retry_same_upstream:
        needs["policy.retry_same_upstream"] = "retries at the same target"
    for step in case.steps:
        for name, script in step.upstreams.items():
            needs |= {f"upstreams.{name}.{key}": SCRIPT[key] for key in given(script) if key in SCRIPT}
    return needs


def take_off(expected: Expected) -> tuple[Expected, dict[str, str]]:
    """What can be checked now; and the keys that cannot, with the feature each of them waits for."""
    record = expected.record
    if isinstance(record, msgspec.UnsetType):
        return expected, {}
    waiting: dict[str, str] = {}
    kept = _without(record, "record", RECORD, waiting)
    if isinstance(kept.attempts, dict):
        kept.attempts = {
            name: _without(attempt, f"record.attempts.{name}", ATTEMPT, waiting)
            for name, attempt in kept.attempts.items()
        }
    return msgspec.structs.replace(expected, record=kept), waiting


def _without(part: _Part, where: str, table: Mapping[str, str], waiting: dict[str, str]) -> _Part:
    off: dict[str, Any] = {}
    for key in given(part):
        if key in table:
            waiting[f"{where}.{key}"] = table[key]
            off[key] = msgspec.UNSET
    return msgspec.structs.replace(part, **off)
