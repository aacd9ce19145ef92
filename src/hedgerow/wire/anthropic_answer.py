"""The few fields of a message, or of one event of its stream, that hedgerow looks at."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.events import Usage
from hedgerow.wire.lenient import read, read_or_none
from hedgerow.wire.words import NO_WORDS, Words, words

_TEXT = ("text", "thinking")
_DELTAS = ("text_delta", "input_json_delta", "citations_delta", "thinking_delta", "signature_delta", "compaction_delta")


class Delta(msgspec.Struct, gc=False):
    """What an event adds to a block, or to the message; values may have any type, since servers differ."""

    type: Any = None
    text: Any = None
    partial_json: Any = None
    thinking: Any = None
    signature: Any = None
    content: Any = None
    stop_reason: Any = None

    def speaks(self) -> bool:
        """Whether it holds output that is no reasoning: text, a call's input, a summary of the conversation."""
        return bool(self.text or self.partial_json or self.content)

    def left_trace(self) -> bool:
        """Whether the answer holds something with it, though it says nothing: a signature, or what is not known."""
        return bool(self.signature) or self.type not in _DELTAS


class Block(msgspec.Struct, gc=False):
    """A content block."""

    type: Any = None
    text: Any = None
    thinking: Any = None
    signature: Any = None

    def speaks(self) -> bool:
        """Whether it holds output that is no reasoning; a call does as soon as it starts, since it names its tool."""
        return bool(self.text) or (isinstance(self.type, str) and self.type.endswith("tool_use"))

    def left_trace(self) -> bool:
        """Whether the answer holds something with it: redacted reasoning, a tool's result, what is not known."""
        return bool(self.signature) or self.type not in _TEXT


class Event(msgspec.Struct, gc=False):
    """One event of a stream."""

    type: Any = None
    delta: Delta | None = None
    content_block: Block | None = None
    error: Any = None


class _Details(msgspec.Struct, gc=False):
    thinking_tokens: int | None = None


class _Written(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: int | None = None


class Tokens(msgspec.Struct, gc=False):
    """Usage as Anthropic writes it. In a stream each number is the total so far; those that are missing stay."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _Written | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _Details | None = None
    service_tier: Any = None

    def update(self, report: Tokens) -> None:
        """Take over what a later report says; an input of 0 is what servers write that do not know it there."""
        self.input_tokens = report.input_tokens or self.input_tokens
        self.cache_creation_input_tokens = report.cache_creation_input_tokens or self.cache_creation_input_tokens
        self.cache_creation = report.cache_creation or self.cache_creation
        self.cache_read_input_tokens = report.cache_read_input_tokens or self.cache_read_input_tokens
        if report.output_tokens is not None:
            self.output_tokens = report.output_tokens
        self.output_tokens_details = report.output_tokens_details or self.output_tokens_details
        self.service_tier = report.service_tier or self.service_tier

    def given(self) -> Usage:
        """The same as we write it. No prompt is empty, so an input of 0 is one that is not known."""
        given, made, read = self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens
        details, written = self.output_tokens_details, self.cache_creation
        return Usage(
            (given or 0) + (made or 0) + (read or 0) or None,
            self.output_tokens,
            read,
            details.thinking_tokens if details is not None else None,
            made,
            written.ephemeral_1h_input_tokens if written is not None else None,
        )


class Message(msgspec.Struct, gc=False):
    """A whole message, or an error in its place; `content` is unset where the JSON has none: some other document."""

    type: Any = None
    content: list[Block] | msgspec.UnsetType | None = msgspec.UNSET
    stop_reason: Any = None
    error: Any = None


class _Started(msgspec.Struct, gc=False):
    usage: Tokens | None = None


class Report(msgspec.Struct, gc=False):
    """The usage in a message, in `message_start`, or in `message_delta`."""

    message: _Started | None = None
    usage: Tokens | None = None
    delta: Delta | None = None

    def tokens(self) -> Tokens | None:
        """What is reported; None where nothing is."""
        return self.message.usage if self.message is not None else self.usage


class _Stopped(msgspec.Struct, gc=False):
    stop_reason: Any = None


class _Served(msgspec.Struct, gc=False):
    service_tier: Any = None


class _Said(msgspec.Struct, gc=False):
    stop_reason: Any = None
    delta: _Stopped | None = None
    usage: _Served | None = None


_event = msgspec.json.Decoder(Event)
_said = msgspec.json.Decoder(_Said)
_message = msgspec.json.Decoder(Message)
_report = msgspec.json.Decoder(Report)


def read_event(payload: bytes) -> Event | None:
    """Decode one event's JSON; None when it is JSON of some other shape. Raises `ValueError` when it is no JSON."""
    return read(payload, _event, Event)


def read_message(document: bytes) -> Message | None:
    """As `read_event`, for a whole message."""
    return read(document, _message, Message)


def read_words(document: bytes) -> Words:
    """What a message, or the event that ends one, says of it."""
    said = read_or_none(document, _said, _Said)
    if said is None:
        return NO_WORDS
    reason = said.stop_reason if said.delta is None else said.delta.stop_reason
    return words(reason, said.usage.service_tier if said.usage is not None else None)


def read_report(document: bytes) -> Report | None:
    """The usage that a message or an event reports; None when it cannot be read."""
    return read_or_none(document, _report, Report)
