"""Reading text completions, the older sister of the chats: chunks hold `text` where those hold a `delta`."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.wire.base import Verdict
from hedgerow.wire.chat_answer import read_text, read_usage, read_words
from hedgerow.wire.chat_scan import ChatStream, judge
from hedgerow.wire.chunks import (
    Json,
    added,
    choices_of,
    chunk_head,
    encoded,
    merged,
    read_chunks,
    read_object,
    written,
)
from hedgerow.wire.whole import WholeBody
from hedgerow.wire.words import Words

_KIND = "text_completion"


def as_document(stream: bytes) -> bytes:
    """The completion that a whole stream amounts to.

    Raises `ValueError` when it does not end with `[DONE]`, reports an error, or its chunks do not fit together.
    """
    try:
        answer, choices = read_chunks(stream)
        whole = [_choice(index, parts) for index, parts in choices]
        return encoded({**answer, "object": _KIND, "choices": whole})
    except RecursionError:
        raise ValueError("nested too deeply") from None


def as_stream(document: bytes, *, usage: bool = True) -> bytes:
    """The chunks that a whole completion amounts to, with its usage or without.

    Raises `ValueError` when it is no completion.
    """
    try:
        whole = read_object(document)
        choices = choices_of(whole)
        chunks = (chunk for choice in choices for chunk in _chunks(choice))
        return written(whole, chunk_head(whole, _KIND), chunks, usage=usage)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class TextStream(ChatStream):
    """`data: {chunk}` events, ended by `data: [DONE]`."""

    __slots__ = ()

    DELTA = b'"text"'
    read = staticmethod(read_text)
    converted = staticmethod(as_stream)


class TextBody(WholeBody):
    """A whole completion: judged when it is complete."""

    __slots__ = ()

    def words(self) -> Words:
        """What the completion says of itself."""
        return read_words(self.document)

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate completion."""
        self.usage = read_usage(body)
        return judge(body, self.headers, read_text)

    def collected(self, stream: bytes) -> bytes | None:
        """The completion that a whole stream of chunks amounts to."""
        try:
            return as_document(stream)
        except ValueError:
            return None


def _choice(index: int, parts: list[Json]) -> Json:
    choice: Json = {"index": index, "text": "", "logprobs": None, "finish_reason": None}
    texts = None
    for part in parts:
        for key, value in part.items():
            if key == "text":
                texts = merged(texts, value)
            elif key == "logprobs":
                choice[key] = merged(choice[key], value)
            elif key == "finish_reason":
                choice[key] = value or choice[key]
            elif key != "index":
                added(choice, key, value)
    choice["text"] = texts if texts is not None else ""
    return choice


def _chunks(choice: Json) -> Iterator[Json]:
    """All of its text, its end."""
    if "text" not in choice:
        raise ValueError("a choice without a text")
    index = choice.get("index", 0)
    known = ("index", "text", "logprobs", "finish_reason")
    rest = {key: value for key, value in choice.items() if key not in known}
    yield {"index": index, "text": choice["text"], "logprobs": choice.get("logprobs"), "finish_reason": None}
    yield {"index": index, "text": "", "logprobs": None, "finish_reason": choice.get("finish_reason"), **rest}
