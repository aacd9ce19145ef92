"""From what a route says of its gates to what judges its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hedgerow.answer import Answer
from hedgerow.errors import ConfigError
from hedgerow.gatekeeper import AnyGate, Gatekeeper, InThread, OnLoop, OwnGate
from hedgerow.gateway.trial import Gates
from hedgerow.plugin import load
from hedgerow.policy.gates.build import builtin
from hedgerow.policy.gates.settings import GateSettings, JsonSchema, Python, Spec

SCHEMA_TIMEOUT = 1.0
"""Seconds for an answer and the schema of its own request, which may be made to take for ever."""


def gates_of(settings: GateSettings | None) -> Gates | None:
    """Raises `ConfigError` where a gate cannot be made; the configuration was checked, but maybe somewhere else."""
    if settings is None or not settings.require:
        return None
    return Gates(Gatekeeper([_gate(each) for each in settings.require]), settings.prefix)


def _gate(spec: Spec) -> AnyGate:
    try:
        match spec:
            case Python():
                return _own(spec)
            case JsonSchema(schema=None):
                return InThread(builtin(spec), SCHEMA_TIMEOUT)
            case _:
                return builtin(spec)
    except (ImportError, ValueError) as error:
        raise ConfigError([f"gates: {error}"]) from None


def _own(spec: Python) -> AnyGate:
    call, takes_request, is_coroutine = load(spec.call, spec.folder)
    check: Callable[[Answer, bytes], Any] = call if takes_request else lambda answer, _request: call(answer)
    if is_coroutine:
        return OnLoop(spec.call, check, spec.timeout)
    return InThread(OwnGate(spec.call, check), spec.timeout)
