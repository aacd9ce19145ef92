"""From a gate's place in the configuration to the gate."""

from __future__ import annotations

from hedgerow.policy.gates import settings as spec
from hedgerow.policy.gates.finished import finished
from hedgerow.policy.gates.gate import Builtin, Gate, Says
from hedgerow.policy.gates.json_schema import json_schema
from hedgerow.policy.gates.json_text import json, required_fields
from hedgerow.policy.gates.patterns import matches, not_matches
from hedgerow.policy.gates.refusal import no_refusal
from hedgerow.policy.gates.sizes import min_chars, min_tokens, non_empty

BuiltinSpec = (
    spec.Finished
    | spec.NonEmpty
    | spec.MinChars
    | spec.MinTokens
    | spec.Json
    | spec.JsonSchema
    | spec.RequiredFields
    | spec.Matches
    | spec.NotMatches
    | spec.NoRefusal
)


def builtin(wanted: BuiltinSpec) -> Gate:
    """The gate that was asked for. Raises `ImportError` where it needs a library that is not there, `ValueError` for a
    schema or an expression that is none.
    """
    return Builtin(str(wanted.__struct_config__.tag), _says(wanted))


def _says(wanted: BuiltinSpec) -> Says:
    match wanted:
        case spec.Finished():
            return finished(wanted)
        case spec.NonEmpty():
            return non_empty
        case spec.MinChars():
            return min_chars(wanted)
        case spec.MinTokens():
            return min_tokens(wanted)
        case spec.Json():
            return json(wanted)
        case spec.JsonSchema():
            return json_schema(wanted)
        case spec.RequiredFields():
            return required_fields(wanted)
        case spec.Matches(pattern):
            return matches(pattern)
        case spec.NotMatches(pattern):
            return not_matches(pattern)
        case spec.NoRefusal():
            return no_refusal(wanted)
