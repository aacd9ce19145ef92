"""The few fields of a `GenerateContentResponse`, whole or one chunk of it, that hedgerow looks at."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hedgerow.events import Usage
from hedgerow.wire.lenient import read_or_none
from hedgerow.wire.skipped import Skipped
from hedgerow.wire.words import NO_WORDS, Words, words

DECISIONS = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION"),
        "NO_IMAGE",
    }
)
"""Finish reasons that are the model's or a filter's decision to say nothing (more): answers. Those about images, of
which there are more and more, all start alike."""
_OF_AN_IMAGE = "IMAGE_"

FAULTS = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "OTHER"}
)
"""Finish reasons that say that generating went wrong: asking again may well help."""

_UNSPECIFIED = ("FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")


class Part(msgspec.Struct, gc=False, rename="camel"):
    """One part; values may have any type, since servers differ."""

    text: Any = None
    thought: Any = None
    function_call: Skipped = None
    inline_data: Skipped = None
    executable_code: Skipped = None
    code_execution_result: Skipped = None
    file_data: Skipped = None
    tool_call: Skipped = None
    tool_response: Skipped = None
    function_response: Skipped = None
    audio_transcription: Skipped = None

    def present(self, *, reasoning_counts: bool) -> bool:
        """Whether it holds output; the model's thoughts are output if `reasoning_counts`."""
        if self.thought and not reasoning_counts:
            return False
        if self.text or self.function_call is not None or self.inline_data is not None:
            return True
        return not (
            self.executable_code is None
            and self.code_execution_result is None
            and self.file_data is None
            and self.tool_call is None
            and self.tool_response is None
            and self.function_response is None
            and self.audio_transcription is None
        )


class Content(msgspec.Struct, gc=False):
    """What a candidate says."""

    parts: list[Part] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    """One candidate."""

    content: Content | None = None
    finish_reason: Any = None

    def finished(self) -> bool:
        """Whether it ends here."""
        return bool(self.finish_reason) and self.finish_reason not in _UNSPECIFIED

    def faulty(self) -> bool:
        """Whether generating it went wrong."""
        return isinstance(self.finish_reason, str) and self.finish_reason in FAULTS

    def speaks(self, *, reasoning_counts: bool) -> bool:
        """Whether it holds output, or the decision that there will be none."""
        if self.finish_reason and isinstance(self.finish_reason, str):
            if self.finish_reason in DECISIONS or self.finish_reason.startswith(_OF_AN_IMAGE):
                return True
            if self.finish_reason in FAULTS:
                return False
        parts = self.content.parts if self.content is not None else None
        for part in parts or ():  # noqa: SIM110  # a generator would double its cost
            if part.present(reasoning_counts=reasoning_counts):
                return True
        return False


class _Feedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: Any = None


class Answer(msgspec.Struct, gc=False, rename="camel"):
    """A whole answer or a chunk; `candidates` is unset where there are none, as when the prompt was blocked."""

    candidates: list[Candidate] | msgspec.UnsetType | None = msgspec.UNSET
    prompt_feedback: _Feedback | None = None
    error: Any = None
    usage_metadata: Skipped = None
    model_version: Skipped = None
    response_id: Skipped = None

    def blocked(self) -> bool:
        """Whether the prompt was refused."""
        return self.prompt_feedback is not None and bool(self.prompt_feedback.block_reason)

    def known(self) -> bool:
        """Whether this is what it should be and no other JSON."""
        found = self.usage_metadata is not None or self.model_version is not None or self.response_id is not None
        return found or self.candidates is not msgspec.UNSET or self.prompt_feedback is not None


class _Tokens(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None


class _Report(msgspec.Struct, gc=False, rename="camel"):
    usage_metadata: _Tokens | None = None


_decode = msgspec.json.Decoder(Answer).decode
_decode_array = msgspec.json.Decoder(list[Answer]).decode
_report = msgspec.json.Decoder(_Report)


def read_answer(document: bytes) -> Answer | None:
    """Decode one JSON document; None when it is JSON of some other shape. An error may come in an array.

    Raises `ValueError` when it is no JSON. What only strict parsers refuse (lone surrogates, NaN, bad UTF-8 inside
    strings) is read all the same.
    """
    try:
        return _decode(document)
    except msgspec.ValidationError:
        return _error_in(document)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(read_leniently(document), Answer)
    except msgspec.ValidationError:
        return None


def _error_in(array: bytes) -> Answer | None:
    try:
        found = _decode_array(array)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found[0] if found and found[0].error else None


def read_leniently(document: bytes) -> Any:
    """Decode JSON that strict parsers refuse. Raises `ValueError` when it is no JSON at all."""
    try:
        return json.loads(document.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_words(document: bytes) -> Words:
    """What an answer or a chunk says of it."""
    try:
        answer = read_answer(document)
    except ValueError:
        return NO_WORDS
    if answer is None:
        return NO_WORDS
    if answer.blocked() and answer.prompt_feedback is not None:
        return words(answer.prompt_feedback.block_reason)
    reasons = [candidate.finish_reason for candidate in answer.candidates or () if candidate.finished()]
    return words(reasons[-1] if reasons else None)


def read_usage(document: bytes) -> Usage | None:
    """The tokens that an answer or a chunk reports; None when it reports none.

    Tokens of the prompts that tools made are billed as input, the model's thoughts as output. Counts of zero are left
    out on the wire.
    """
    report = read_or_none(document, _report, _Report)
    tokens = report.usage_metadata if report is not None else None
    if tokens is None:
        return None
    given, made, thoughts = tokens.prompt_token_count, tokens.candidates_token_count, tokens.thoughts_token_count
    if given is None and made is None and thoughts is None:
        return None
    if given is not None:
        given += tokens.tool_use_prompt_token_count or 0
    return Usage(given, (made or 0) + (thoughts or 0), tokens.cached_content_token_count, thoughts)
