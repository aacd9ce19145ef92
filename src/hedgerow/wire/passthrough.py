"""Everything else under `/v1/`: handed to the primary as it is, once, and its answer handed back as it comes."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

import msgspec

from hedgerow.events import Failure, FailureClass, Headers
from hedgerow.wire import errors, gemini_errors
from hedgerow.wire.base import ACCEPTED, Ending, Facts, Family, Protocol, Scanner, Verdict
from hedgerow.wire.body import replace_model
from hedgerow.wire.override import Tree
from hedgerow.wire.words import NO_WORDS, Words


class _Request(msgspec.Struct, gc=False):
    model: str | None = None
    stream: bool | None = None


_decode = msgspec.json.Decoder(_Request).decode
ENDPOINT = "endpoint"
"""Why such a request is never sent twice: nobody here knows what it does."""
_UNKNOWN = Facts(None, False, ENDPOINT)
_IN_PATH = re.compile(rb"/models/([^/:?]+):[A-Za-z]+(?=\Z|\?)")
"""`/v1beta/models/{model}:countTokens`"""


class Passthrough(Protocol):
    """Any endpoint that hedgerow does not understand."""

    name = "http.passthrough"
    hedgeable = False
    accepts_head = True
    retargets = True

    def __init__(self, family: Family = Family.OPENAI) -> None:
        self.family = family

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Model and stream flag where the body is JSON that has them, Gemini's model in the path; never raises."""
        if self.family is Family.GEMINI and (found := _IN_PATH.search(target)) is not None:
            return Facts(unquote_to_bytes(found[1]).decode("utf-8", "replace"), False, ENDPOINT)
        if body[:64].lstrip()[:1] != b"{":
            return _UNKNOWN
        try:
            request = _decode(body)
        except (msgspec.DecodeError, RecursionError):
            return _UNKNOWN
        return Facts(request.model, bool(request.stream), _UNKNOWN.forbids_hedge)

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body with every top-level `model` replaced, where it had one."""
        if model is None or facts.model is None or model == facts.model:
            return body
        return replace_model(body, model)

    def override(self, body: bytes, tree: Tree) -> bytes:
        """The body as it is: nobody here knows its fields."""
        return body

    def retarget(self, target: bytes, facts: Facts, model: str | None, *, stream: bool = False) -> bytes:
        """The path with its model replaced, where it had one."""
        found = None if model is None or self.family is not Family.GEMINI else _IN_PATH.search(target)
        if found is None or model is None:
            return target
        return target[: found.start(1)] + quote(model, safe="").encode() + target[found.end(1) :]

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner that takes everything."""
        return _Anything()

    def error_body(
        self, status: int, message: str, *, kind: str, code: str | None = None, param: str | None = None
    ) -> bytes:
        """An error in JSON as the family's SDKs read it."""
        if self.family is Family.ANTHROPIC:
            return errors.anthropic_body(status, message)
        if self.family is Family.GEMINI:
            return gemini_errors.error_body(status, message, code=code)
        return errors.openai_body(message, kind=kind, code=code, param=param)

    def error_frame(self, failure: Failure) -> bytes:
        """Nothing: the answer's format is not known, so a cut is shown by cutting."""
        return b""


class _Anything:
    """Accepts any body; only a broken connection is a failure."""

    __slots__ = ()
    sign = None

    def feed(self, data: bytes) -> Verdict | None:
        return ACCEPTED

    def eof(self, held: bytes) -> Verdict:
        return ACCEPTED

    def watch(self, data: bytes) -> bool:
        return False

    def ending(self, clean: bool) -> Ending:
        return Ending(None if clean else Failure(FailureClass.PROTOCOL, "the answer broke off"), None)

    def words(self) -> Words:
        return NO_WORDS

    def tier(self) -> str | None:
        return None
