"""What a route says of its gates, as plain data that can be sent to a serving process. Times are seconds."""

from __future__ import annotations

from math import inf

import msgspec


class _Spec(msgspec.Struct, frozen=True, gc=False, tag_field="gate"):
    """One gate of a route, by the name it has in the configuration."""


class Finished(_Spec, frozen=True, tag="finished"):
    """The answer came to its end; with `length` one that ran into its limit of tokens is good too."""

    length: bool = False


class NonEmpty(_Spec, frozen=True, tag="non_empty"):
    """There is text, or a tool call."""


class MinChars(_Spec, frozen=True, tag="min_chars"):
    """There are at least so many characters of text."""

    least: int


class MinTokens(_Spec, frozen=True, tag="min_tokens"):
    """There are at least so many tokens: as reported, else one for every four characters."""

    least: int


class Json(_Spec, frozen=True, tag="json"):
    """The text is JSON; with `fenced` also within one Markdown fence."""

    fenced: bool = False


class JsonSchema(_Spec, frozen=True, tag="json_schema"):
    """The text is JSON that this JSON Schema (as JSON text) allows; None: the schema that the request asks for."""

    schema: str | None = None
    fenced: bool = False


class RequiredFields(_Spec, frozen=True, tag="required_fields"):
    """The text is JSON in which each of these dotted paths leads to something other than null."""

    paths: tuple[str, ...]
    fenced: bool = False


class Matches(_Spec, frozen=True, tag="matches"):
    """The regular expression is found in the text."""

    pattern: str


class NotMatches(_Spec, frozen=True, tag="not_matches"):
    """The regular expression is not found in the text."""

    pattern: str


class NoRefusal(_Spec, frozen=True, tag="no_refusal"):
    """The model did not refuse; None: the phrases of `policy.gates.refusal`."""

    phrases: tuple[str, ...] | None = None


class Python(_Spec, frozen=True, tag="python"):
    """A callable of one's own, `module:function`, given `timeout` seconds; `folder`: where its module may be."""

    call: str
    folder: str = ""
    timeout: float = 1.0


Spec = (
    Finished
    | NonEmpty
    | MinChars
    | MinTokens
    | Json
    | JsonSchema
    | RequiredFields
    | Matches
    | NotMatches
    | NoRefusal
    | Python
)


class Prefix(msgspec.Struct, frozen=True, gc=False):
    """How much of a stream is held back and judged before any of it reaches the client, whichever comes first.

    `tokens` are counted as four characters each; `time` runs from the first token.
    """

    tokens: int
    time: float = inf


class GateSettings(msgspec.Struct, frozen=True, gc=False):
    """The gates of a route, and what follows from a rejection.

    `prefix` None: streams are judged when they are over, and only reported on. `wait`: how long a rejected answer waits
    for a rival that is still running. `strict`: if all were rejected the client gets an error, not the best of them.
    `unhealthy`: a rejected answer counts against its target's breaker.
    """

    require: tuple[Spec, ...] = ()
    prefix: Prefix | None = None
    wait: float = 5.0
    strict: bool = False
    unhealthy: bool = False
