"""Whether an answer's text is the JSON that a schema allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from hedgerow.answer import Answer
from hedgerow.policy.gates.bounded import room_for
from hedgerow.policy.gates.documents import judged
from hedgerow.policy.gates.gate import Says, is_wordless
from hedgerow.policy.gates.requested import Schema, requested_schema
from hedgerow.policy.gates.settings import JsonSchema

_LONGEST_PLACE = 100
_NOT_ALLOWED = "the schema does not allow it"


def compiled(schema: Schema, *, room: int | None = None) -> Any:
    """What validates against this schema, which may refer to nothing outside of it. With `room` each of its patterns
    takes at most so many bytes, and its time grows with the text only: there is no looking ahead or back in it. Nor
    are formats looked at then, of which some take long.

    Raises `ImportError` without the extra `gates`, `ValueError` with what is wrong with the schema.
    """
    validation = import_module("jsonschema_rs")
    bounds: dict[str, Any] = {}
    if room is not None:
        patterns = validation.RegexOptions(size_limit=room, dfa_size_limit=room)
        bounds = {"pattern_options": patterns, "validate_formats": False}
    try:
        return validation.validator_for(schema, retriever=_refuse, **bounds)
    except validation.ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        raise ValueError(f"{error.message.splitlines()[0]}{place and f' (at {place})'}") from None


def json_schema(spec: JsonSchema) -> Says:
    """It is JSON, and the schema of the configuration or of its request allows it."""
    import_module("jsonschema_rs")  # if it is missing, that is said at the start
    own = None if spec.schema is None else partial(_fault, compiled(msgspec.json.decode(spec.schema)))

    def says(answer: Answer, request: bytes) -> str | None:
        if is_wordless(answer) or (fault := own or _requested(request)) is None:
            return None
        return judged(answer, fault, fenced=spec.fenced)

    return says


def _requested(request: bytes) -> Callable[[Any], str | None] | None:
    """What checks a document against the schema of the request, if it asks for one; it may be hostile."""
    schema = requested_schema(request)
    return None if schema is None else partial(_fault_with, schema)


def _fault_with(schema: Schema, document: Any) -> str | None:
    return None if compiled(schema, room=room_for(schema, document)).is_valid(document) else _NOT_ALLOWED


def _fault(validator: Any, document: Any) -> str | None:
    """Where the document breaks the schema, in the schema's words: those of the answer are not repeated.

    Not with a schema that comes with a request: unlike `is_valid`, the search for errors may take all memory there is.
    """
    if validator.is_valid(document):
        return None
    error = next(iter(validator.iter_errors(document)), None)
    rule = "" if error is None else ": " + "/".join(map(str, error.schema_path))[:_LONGEST_PLACE]
    return _NOT_ALLOWED + rule


def _refuse(_uri: str) -> Any:
    raise ValueError("a schema may refer to nothing outside of it")
