"""What the settings have in common. Every key is described in its model and nowhere else."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from hedgerow.config.fields import SAME_AS, Leaf, Schema, duration

DAY = 86_400.0
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

Patience = Annotated[float, duration(0.001, DAY)]
"""A timeout in seconds; never nought, never endless."""


class Model(BaseModel):
    """Immutable, knows all its keys, and keeps values (which may be secrets) out of its error messages."""

    in_short: ClassVar[tuple[object, ...]] = ()
    """What may stand in place of the whole section."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_sections(cls, data: Any) -> Any:
        """A section with nothing below it (all of it commented out) means its defaults."""
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or not cls._is_section(key)}

    @classmethod
    def _is_section(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        return field is not None and not any(isinstance(each, Leaf) for each in field.metadata)


class ShortFor:
    """Lets a list, or one word, stand for the key of this name of the model `of`."""

    def __init__(self, key: str, *, of: str) -> None:
        self._key = key
        self._of = of

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._spread, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return {"anyOf": [{SAME_AS: f"{self._of}/properties/{self._key}"}, handler(core), {"type": "null"}]}

    def _spread(self, value: Any) -> Any:
        return value if value is None or isinstance(value, dict | Model) else {self._key: value}
