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


def gates_of(route: str, settings: GateSettings | None) -> Gates | None:
    """The gates of the route of this name. Raises `ConfigError` where one cannot be made: the process that checked the
    configuration may have found what this one does not.
    """
    if settings is None or not settings.require:
        return None
    try:
        keeper = Gatekeeper([_gate(each) for each in settings.require])
    except (ImportError, ValueError) as error:
        raise ConfigError([f"routes.{route}.gates: {error}"]) from None
    return Gates(keeper, settings.prefix)


def _gate(spec: Spec) -> AnyGate:
    match spec:
        case Python():
            return _own(spec)
        case JsonSchema(schema=None):
            return InThread(builtin(spec), SCHEMA_TIMEOUT)
        case _:
            return builtin(spec)


def _own(spec: Python) -> AnyGate:
    call, takes_request, is_coroutine = load(spec.call, spec.folder)
    check: Callable[[Answer, bytes], Any] = call if takes_request else lambda answer, _request: call(answer)
    if is_coroutine:
        return OnLoop(spec.call, check, spec.timeout)
    return InThread(OwnGate(spec.call, check), spec.timeout)
