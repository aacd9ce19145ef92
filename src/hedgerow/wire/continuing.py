"""Continuing a stream that broke off: what its client has been told, asking on from there, and joining the rest to it.

Only plain text is continued. What the client gets is the text it had, then the continuation's, character for character,
in one stream as if of one answer: one id, one end, one usage.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from hedgerow.wire.body import edit
from hedgerow.wire.chunks import Json, encoded, read_object
from hedgerow.wire.reading import objects
from hedgerow.wire.scan import CHARACTERS_PER_TOKEN
from hedgerow.wire.sse import Blocks, payloads


class Form(StrEnum):
    """How a target is asked to go on with an assistant message that has been begun."""

    FINAL_MESSAGE = "continue_final_message"
    """It is the last of the messages, and the body says so: vLLM, SGLang, llama.cpp."""
    PREFIX = "prefix"
    """It is the last of the messages and says so itself: DeepSeek's beta API."""
    PREFIX_ECHO = "prefix_echo"
    """The same, and the answer begins with it: Mistral."""
    LAST_MESSAGE = "last_message"
    """It is the last of the messages: Anthropic, OpenRouter."""


_EVENT_END = re.compile(rb"(?>\r\n|\r|\n)(?:\r\n|\r|\n)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_CUT_CHARACTER = "\ufffd"


class Continuation(ABC):
    """One stream to one client, which sees whole events only: so that another can go on after the last of them.

    First `pass_on` takes what comes. Once that broke off, `prefix` is the text to go on from, `request` asks a target
    to, and `splice` takes what that answers. `end` is what is left where nothing goes on.
    """

    ERROR: ClassVar[bytes] = b'"error"'
    FORMS: ClassVar[frozenset[Form]] = frozenset(Form)
    """Those that the protocol has."""
    LIMITS: ClassVar[tuple[str, ...]]
    """The names of a request's limits of output tokens."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._texts: list[str] = []
        self._deltas = 0
        self._plain = True
        self._unsaid = b""
        self._echo = ""
        self._wants_usage = True
        self.broken: str | None = None
        """Why what came after the splice cannot be joined to what was before it."""
        self.finished = False
        """The answer has said how it ends."""

    # Before the splice.

    def pass_on(self, data: bytes) -> bytes:
        """What of this piece, and of those held before, goes out now: whole events, and none from an error on."""
        block = self._blocks.cut(data)
        if self._unsaid:
            self._unsaid += block
            return b""
        if self.ERROR in block:
            block, self._unsaid = self._before_error(block)
        for payload in payloads(block):
            self._hear(payload)
        return block

    def end(self) -> bytes:
        """What was held back: the report of an error, or the start of an event."""
        return self._unsaid + self._blocks.rest()

    @property
    def unsaid(self) -> bytes:
        """The report of an error that was held back."""
        return self._unsaid

    @property
    def prefix(self) -> str | None:
        """All that the client has been told, if that is text which has not ended; else None."""
        text = "".join(self._texts)
        if _SURROGATE.search(text) is not None:
            try:
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            except UnicodeDecodeError:  # half a character
                return None
        return text if self._plain and not self.finished and text and not text.endswith(_CUT_CHARACTER) else None

    @property
    def tokens(self) -> int:
        """About how many tokens that is: at least one in each event, and one for some four characters."""
        return max(self._deltas, sum(map(len, self._texts)) // CHARACTERS_PER_TOKEN)

    def request(self, body: bytes, form: Form) -> bytes | None:
        """`body`, the request as its target would get it, with the demand to go on from `prefix`.

        None where that cannot be asked for: what was to come is bound from its start, or not only text.
        """
        text = self.prefix
        try:
            request = read_object(body)
            messages = objects(request.get("messages"))
        except ValueError:
            return None
        if text is None or not messages or messages[-1].get("role") == "assistant":
            return None
        if not self.may_go_on(request, text, form):
            return None
        message: Json = {"role": "assistant", "content": text}
        members: dict[str, Any] = {}
        match form:
            case Form.FINAL_MESSAGE:
                members |= {"continue_final_message": b"true", "add_generation_prompt": b"false"}
            case Form.PREFIX | Form.PREFIX_ECHO:
                message["prefix"] = True
        for name in self.LIMITS:
            limit = request.get(name)
            if isinstance(limit, int) and not isinstance(limit, bool):
                members[name] = b"%d" % max(1, limit - self.tokens)
        last = msgspec.json.encode(message)
        members["messages"] = lambda old: b"%b,%b]" % ((old or b"[]").rstrip()[:-1].rstrip(), last)
        return edit(body, members)

    # After it.

    def follow(self, form: Form, *, usage: bool) -> None:
        """What comes from now on is the continuation; with `usage` the client wants a report of it."""
        self._echo = (self.prefix or "") if form is Form.PREFIX_ECHO else ""
        self._wants_usage = usage
        self._blocks = Blocks()
        self._unsaid = b""

    def splice(self, data: bytes) -> bytes:
        """What of this piece of the continuation, and of those held before, goes out now."""
        out: list[bytes] = []
        for payload in payloads(self._blocks.cut(data)):
            if self.broken is None and payload.strip():
                out += self._join(payload)
        return b"".join(out)

    # What a protocol says.

    @abstractmethod
    def may_go_on(self, request: Json, text: str, form: Form) -> bool:
        """Whether the answer to this request can be continued from the text."""

    @abstractmethod
    def take(self, event: Json) -> None:
        """What one event tells the client: text by `heard`, its end by `finished`, anything else by `not_plain`."""

    @abstractmethod
    def is_error(self, event: Json) -> bool:
        """Whether this event, which holds `ERROR`, reports one."""

    @abstractmethod
    def join(self, event: Json) -> Iterator[bytes]:
        """The events that the client gets for this one of the continuation."""

    # For protocols.

    def heard(self, text: str) -> None:
        """More text, in an event of its own."""
        self._texts.append(text)
        self._deltas += 1

    def not_plain(self) -> None:
        """Something came that no text says."""
        self._plain = False

    def fresh(self, text: str) -> str:
        """What is new of a text of the continuation, which may first repeat the prefix."""
        echo = self._echo
        if not echo:
            return text
        if echo.startswith(text):
            self._echo = echo[len(text) :]
            return ""
        if not text.startswith(echo):
            self.broken = "it did not repeat what it was to continue"
            return ""
        self._echo = ""
        return text[len(echo) :]

    def ends(self) -> None:
        """The continuation has said how it ends."""
        self.finished = True
        if self._echo:
            self.broken = "it ended before it had repeated what it was to continue"

    def one_usage(self, usage: Json, read: str, made: str) -> Json:
        """A report of the continuation as one of the whole answer: the prefix was made, and not read."""
        prompt, output = usage.get(read), usage.get(made)
        moved = self.tokens
        if isinstance(prompt, int):
            moved = min(moved, prompt)
            usage = usage | {read: prompt - moved}
        return usage | {made: output + moved} if isinstance(output, int) else usage

    def _hear(self, payload: bytes) -> None:
        if payload.startswith(b"[DONE]"):
            self.finished = True
            return
        if not payload.strip():
            return
        try:
            payload.decode()  # of what is no text no text can be repeated
            self.take(read_object(payload))
        except ValueError:
            self._plain = False

    def _join(self, payload: bytes) -> Iterator[bytes]:
        if payload.startswith(b"[DONE]"):
            yield b"data: [DONE]\n\n"
            return
        try:
            event = read_object(payload)
            if not (self.ERROR in payload and self.is_error(event)):
                yield from self.join(event)
                return
        except ValueError:
            pass
        yield b"".join(b"data: %b\n" % line for line in payload.split(b"\n")) + b"\n"  # no sense in it to be kept

    def _before_error(self, block: bytes) -> tuple[bytes, bytes]:
        """A block up to the first event that reports an error, and from there on."""
        done = 0
        for end in [blank.end() for blank in _EVENT_END.finditer(block)]:
            for payload in payloads(block[done:end]):
                try:
                    if self.ERROR in payload and self.is_error(read_object(payload)):
                        return block[:done], block[done:]
                except ValueError:
                    continue
            done = end
        return block, b""


def data(event: Json) -> bytes:
    """An event without a name."""
    return b"data: %b\n\n" % encoded(event)
