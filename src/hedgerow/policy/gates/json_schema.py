"""Whether an answer's text is the JSON that a schema allows."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec

from hedgerow.answer import Answer
from hedgerow.policy.gates.documents import NotJson, cannot_become, document_of
from hedgerow.policy.gates.gate import Says, is_wordless
from hedgerow.policy.gates.requested import Schema, requested_schema
from hedgerow.policy.gates.settings import JsonSchema

_LONGEST_PLACE = 100


def compiled(schema: Schema) -> Any:
    """What validates against this schema, which may refer to nothing outside of it.

    Raises `ImportError` without the extra `gates`, `ValueError` with what is wrong with the schema.
    """
    validation = import_module("jsonschema_rs")
    try:
        return validation.validator_for(schema, retriever=_refuse)
    except validation.ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        raise ValueError(f"{error.message.splitlines()[0]}{place and f' (at {place})'}") from None


def json_schema(spec: JsonSchema) -> Says:
    """It is JSON, and the schema of the configuration or of its request allows it."""
    own = None if spec.schema is None else compiled(msgspec.json.decode(spec.schema))

    def says(answer: Answer, request: bytes) -> str | None:
        if is_wordless(answer):
            return None
        validator = own
        if validator is None:
            schema = requested_schema(request)
            if schema is None:
                return None
            validator = compiled(schema) if answer.complete else None
        if not answer.complete:
            return cannot_become(answer, fenced=spec.fenced)
        try:
            document = document_of(answer, fenced=spec.fenced)
        except NotJson as error:
            return str(error)
        return _fault(validator, document)

    return says


def _fault(validator: Any, document: Any) -> str | None:
    """Where the document breaks the schema, in the schema's words: those of the answer are not repeated."""
    if validator.is_valid(document):
        return None
    error = next(iter(validator.iter_errors(document)), None)
    if error is None:
        return "the schema does not allow it"
    rule = "/".join(map(str, error.schema_path))[:_LONGEST_PLACE]
    return f"the schema does not allow it: {rule}"


def _refuse(_uri: str) -> Any:
    raise ValueError("a schema may refer to nothing outside of it")
