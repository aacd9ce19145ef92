"""What the cases ask for and hedgerow does not have yet, by feature. Who builds a feature takes its lines off here.

A case whose policy, protocol or script needs one is not run.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.cases.case import Case, given

PROTOCOLS: Mapping[str, str] = {"bedrock.converse": "Bedrock's ConverseStream"}
POLICY: Mapping[str, str] = {
    "pin_probe_ms": "probes of targets that are out",
}
SCRIPT: Mapping[str, str] = {"http": "HTTP/2 to upstreams"}


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
