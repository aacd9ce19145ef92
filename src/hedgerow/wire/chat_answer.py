"""The few fields of a completion, of a chat or of a text, or of one chunk of it, that hedgerow looks at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from hedgerow.events import Usage
from hedgerow.wire.lenient import read_or_none
from hedgerow.wire.thoughts import output_with_reasoning
from hedgerow.wire.words import NO_WORDS, Words, words


class Output(msgspec.Struct, gc=False):
    """A message or a delta; values may have any type, since servers differ."""

    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None
    images: Any = None
    """OpenRouter's and LiteLLM's, of models that draw."""

    def present(self, reasoning_counts: bool = True) -> bool:
        """Whether the model has said anything in it: text, refusal, a call's name or arguments, audio, reasoning."""
        if self.content and (reasoning_counts or not _only_thinks(self.content)):
            return True
        if self.refusal or (reasoning_counts and self.thought()):
            return True
        if self.tool_calls and isinstance(self.tool_calls, list) and any(map(_called, self.tool_calls)):
            return True
        if _any_of(self.function_call, "name", "arguments") or _any_of(self.audio, "data", "transcript"):
            return True
        return bool(self.images)

    def thought(self) -> int:
        """How much reasoning it holds, in characters; at least 1 where it holds any."""
        thought = self.reasoning_content or self.reasoning
        if not thought and not self.content:
            return 0
        return _length(thought) or int(_only_thinks(self.content))


class Choice(msgspec.Struct, gc=False):
    """One choice of a chat: `delta` in a stream, `message` otherwise."""

    delta: Output | None = None
    message: Output | None = None
    finish_reason: Any = None

    def speaks(self, reasoning_counts: bool = True) -> bool:
        """Whether it holds output, or the decision that there will be none."""
        output = self.delta or self.message
        return (output is not None and output.present(reasoning_counts)) or self.finish_reason == "content_filter"

    def thought(self) -> int:
        """How much reasoning it holds, as `Output.thought`."""
        return 0 if self.delta is None else self.delta.thought()


class TextChoice(msgspec.Struct, gc=False):
    """One choice of a text completion, in a stream and otherwise."""

    text: Any = None
    reasoning: Any = None
    finish_reason: Any = None

    def speaks(self, reasoning_counts: bool = True) -> bool:
        """Whether it holds output, or the decision that there will be none."""
        return bool(self.text or (reasoning_counts and self.reasoning)) or self.finish_reason == "content_filter"

    def thought(self) -> int:
        """How much reasoning it holds, as `Output.thought`."""
        return _length(self.reasoning)


C = TypeVar("C", Choice, TextChoice)


class Answer(msgspec.Struct, Generic[C], gc=False):
    """A completion or a chunk; `choices` is unset where the JSON has none, so it is some other document."""

    choices: list[C] | msgspec.UnsetType | None = msgspec.UNSET
    error: Any = None
    object: Any = None

    def failed(self) -> bool:
        """Whether it reports an error: in OpenAI's form, or flat as old vLLM does."""
        if self.error or self.object == "error":
            return True
        for choice in self.choices or ():  # noqa: SIM110  # a generator would double the cost of every chunk
            if choice.finish_reason == "error":
                return True
        return False

    def speaks(self) -> bool:
        """Whether any choice does."""
        for choice in self.choices or ():  # noqa: SIM110  # as above
            if choice.speaks():
                return True
        return False

    def thinks(self) -> bool:
        """Whether any choice holds reasoning."""
        return any(choice.thought() for choice in self.choices or ())


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class Tokens(msgspec.Struct, gc=False):
    """The usage of a completion or chunk, as OpenAI writes it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: Any = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None

    def given(self) -> Usage | None:
        """The same as we write it; None where no tokens are given."""
        read, made, total = self.prompt_tokens, self.completion_tokens, self.total_tokens
        if read is None and made is None:
            return None
        prompt, completion = self.prompt_tokens_details, self.completion_tokens_details
        thought = completion.reasoning_tokens if completion is not None else None
        if total is not None and read is not None and made is not None and total != read + made:  # rarely
            made = output_with_reasoning(read, made, thought, total)
        return Usage(
            read,
            made,
            prompt.cached_tokens if prompt is not None else None,
            thought,
            prompt.cache_write_tokens if prompt is not None else None,
        )


class _Report(msgspec.Struct, gc=False):
    usage: Tokens | None = None


class Whole(Answer[Choice], gc=False):
    """A completion with its usage."""

    usage: Tokens | None = None


class _Ended(msgspec.Struct, gc=False):
    finish_reason: Any = None


class _Said(msgspec.Struct, gc=False):
    choices: list[_Ended] | None = None
    service_tier: Any = None


_report = msgspec.json.Decoder(_Report)
_said = msgspec.json.Decoder(_Said)
_decode_whole = msgspec.json.Decoder(Whole).decode


def read_whole(document: bytes) -> Whole | None:
    """A completion and its usage in one go; None when either is not as OpenAI writes it, for a closer look."""
    try:
        return _decode_whole(document)
    except (msgspec.DecodeError, RecursionError):
        return None


class Reader(Generic[C]):
    """Decodes completions of one kind."""

    __slots__ = ("_decode", "_shape")

    def __init__(self, choice: type[C]) -> None:
        self._shape: Any = Answer[choice]  # type: ignore[valid-type]  # a type that is only known here
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(self._shape).decode

    def read(self, document: bytes) -> Answer[C] | None:
        """Decode one JSON document; None when it is JSON of some other shape.

        Raises `ValueError` when it is no JSON. What only strict parsers refuse (lone surrogates, NaN, bad UTF-8 inside
        strings) is read all the same.
        """
        answer: Answer[C]
        try:
            answer = self._decode(document)
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            return answer
        try:
            answer = msgspec.convert(json.loads(document.decode("utf-8", "replace")), self._shape)
        except msgspec.ValidationError:
            return None
        except RecursionError:
            raise ValueError("nested too deeply") from None
        return answer


read_chat = Reader(Choice).read
read_text = Reader(TextChoice).read


def read_usage(document: bytes) -> Usage | None:
    """The tokens that a completion or chunk reports; None when it reports none."""
    report = read_or_none(document, _report, _Report)
    return report.usage.given() if report is not None and report.usage is not None else None


def read_words(document: bytes) -> Words:
    """What a completion or chunk says of the answer."""
    said = read_or_none(document, _said, _Said)
    if said is None:
        return NO_WORDS
    reasons = [choice.finish_reason for choice in said.choices or () if choice.finish_reason]
    return words(reasons[-1] if reasons else None, said.service_tier)


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else int(bool(text))


def _only_thinks(content: Any) -> bool:
    """Mistral's content is a list, of thinking and of text."""
    if not content or not isinstance(content, list):
        return False
    return all(isinstance(part, dict) and part.get("type") == "thinking" for part in content)


def _called(call: Any) -> bool:
    if not isinstance(call, dict):
        return False
    return _any_of(call.get("function"), "name", "arguments") or _any_of(call.get("custom"), "name", "input")


def _any_of(value: Any, *keys: str) -> bool:
    return isinstance(value, dict) and any(value.get(key) for key in keys)
