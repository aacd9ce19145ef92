"""What every scanner of an event stream shares: holding until the first token, then watching for the end.

Before commit every event is looked at as soon as its blank line is there. After commit nobody waits for the scanner,
so it only searches whole events for three byte strings; JSON is decoded only where one is found. An escaped quote in
generated text is `\\"`, so a quoted JSON key never matches inside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage, UsageSource
from hedgerow.wire.base import Accepted, Ending, Verdict
from hedgerow.wire.sse import BOM, MAX_EVENT, Blocks, keep, payloads, without_bom
from hedgerow.wire.words import Words, tier_at_end

_BLANK = b" \t\r\n" + BOM
_DOCUMENT = (b"{", b"[")
CHARACTERS_PER_TOKEN = 4
"""Roughly, in English (https://help.openai.com/en/articles/4936856)."""
_LATE = 4096
"""Bytes at the end of what is held back in which an answer without a token says why."""
_TOO_LONG = f"an event of more than {MAX_EVENT >> 20} MiB"


class StreamScanner(ABC):
    """A scanner of one event stream; a protocol fills in what its payloads mean."""

    __slots__ = (
        "_before",
        "_blocks",
        "_body",
        "_deltas",
        "_done",
        "_failure",
        "_finished",
        "_headers",
        "_held",
        "_instead",
        "_last",
        "_passed",
        "_usage",
        "reasoning_counts",
    )

    END: ClassVar[bytes]
    """Found in every event that is the protocol's end marker."""
    sign: ClassVar[int | None]
    ERROR: ClassVar[bytes]
    """Found in every event that reports an error."""
    USAGE: ClassVar[bytes]
    """Found in every event that reports usage."""
    ADDS_UP: ClassVar[bool] = False
    """Every report of usage counts, not only the last; see `added`."""
    DELTA: ClassVar[bytes]
    """Found once in every event that carries output. `decide` takes one off `_deltas` for each that carries none."""

    def __init__(self, headers: Headers, *, reasoning_counts: bool = True) -> None:
        self._headers = headers
        self.reasoning_counts = reasoning_counts
        self._deltas = 0
        self._passed = 0
        """Characters of output before commit that decided nothing: reasoning, where that does not count."""
        self._blocks = Blocks()
        self._held: list[bytes] = []
        self._body = b""
        """First byte of the body that is not blank; b"" while there is none."""
        self._finished = False
        self._done = False
        self._failure: Failure | None = None
        self._usage: Usage | None = None
        self._before = self._last = b""
        """The last two blocks of events from the first token on: a stream's last words are in them."""
        self._instead = b""
        """A document that came instead of a stream."""

    # What a protocol says.

    @abstractmethod
    def decide(self, payload: bytes) -> Verdict | None:
        """What one event before commit means; sets `_finished` when it says that the answer is over."""

    @abstractmethod
    def is_end(self, payload: bytes) -> bool:
        """Whether this payload, which holds `END`, is the end marker."""

    @abstractmethod
    def error_in(self, payload: bytes) -> Failure | None:
        """The failure that this payload, which holds `ERROR`, reports; None when it reports none."""

    @abstractmethod
    def usage_in(self, payload: bytes) -> Usage | None:
        """The usage that this payload, which holds `USAGE`, reports; None when it reports none."""

    @abstractmethod
    def words_in(self, document: bytes) -> Words:
        """What one event, or a whole document, says of the answer."""

    @abstractmethod
    def judge_document(self, body: bytes) -> Verdict:
        """What a body means that is one JSON document although a stream was asked for."""

    def added(self, before: Usage, report: Usage) -> Usage:
        """What is known after another report, where these add up."""
        return report

    # The scanner's interface.

    def feed(self, data: bytes) -> Verdict | None:
        """Before commit: a piece of the body; None while undecided."""
        if not self._body and (verdict := self._sniff(data)) is not None:
            return verdict
        if self._body in _DOCUMENT:
            return None
        keep(self._held, data)
        block = self._blocks.cut(data)
        if not block:
            return self.broken(_TOO_LONG) if self._blocks.overflowed else None
        self._deltas += block.count(self.DELTA)
        if block.find(self.USAGE) >= 0:
            self._note_usage(block)
        for payload in payloads(block):
            verdict = self.decide(payload)
            if verdict is None:
                continue
            if isinstance(verdict, Accepted):
                self._held = []
                self._last = block
                self._search(block)
            return verdict
        return None

    def eof(self, held: bytes) -> Verdict:
        """Before commit: the body ended undecided; `held` is all of it."""
        if self._body in _DOCUMENT:
            self._instead = document = without_bom(held)
            return self.judge_document(document)
        for payload in payloads(self._blocks.rest() + b"\n\n"):
            verdict = self.decide(payload)
            if isinstance(verdict, Failure):  # a token in an unfinished event is no token
                return verdict
        if self._finished:
            return self.empty(held)
        return self.broken("the stream ended before its first token" if held else "the answer has no body")

    def watch(self, data: bytes) -> bool:
        """After commit: another piece; True once the end marker has been seen."""
        block = self._blocks.cut(data)
        if block:
            self._deltas += block.count(self.DELTA)
            if not self._done:
                self._before = self._last
                self._last = block
            self._search(block)
        return self._done

    def ending(self, clean: bool) -> Ending:
        """After commit: the body ended or broke off. An end marker makes it whole in either case."""
        rest = self._blocks.rest()
        if not self._done:
            self._search(rest + b"\n\n")
        failure = self._failure
        if failure is None and not self._done:
            how = "was closed" if clean else "broke off"
            why = f", after {_TOO_LONG}" if self._blocks.overflowed else ""
            failure = self.broken(f"the stream {how} before its end marker{why}")
        return Ending(failure, self._used(rest, whole=failure is None))

    def words(self) -> Words:
        """What the last events say; before the first token, the last of what is held back."""
        if self._instead:
            return self.words_in(self._instead)
        return self._words_of(self.held()[-_LATE:] if self._held else self._before + self._last)

    def tier(self) -> str | None:
        """The one that the last events name."""
        return tier_at_end(self._instead or self._before + self._last)

    # For protocols.

    def _words_of(self, events: bytes) -> Words:
        """What these events say, the last ones first."""
        reason = tier = None
        for payload in reversed(payloads(events)):
            found = self.words_in(payload)
            tier = tier or found.service_tier
            if reason := found.finish_reason:
                break
        return Words(reason, tier)

    def empty(self, held: bytes) -> Failure:
        """The answer is over and holds nothing; it can still be delivered when nobody has better."""
        return Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, self._headers, held)

    def broken(self, why: str) -> Failure:
        """The bytes are not an answer of this protocol."""
        return Failure(FailureClass.PROTOCOL, why)

    def held(self) -> bytes:
        """Everything fed so far, before commit."""
        return b"".join(self._held)

    def _sniff(self, data: bytes) -> Verdict | None:
        """The first byte tells a stream from a JSON document and an HTML page more surely than a content type."""
        self._body = data.lstrip(_BLANK)[:1]
        if self._body == b"<":
            return self.broken("an HTML page instead of a stream")
        return None

    def _used(self, rest: bytes, *, whole: bool) -> Usage | None:
        """As reported, or about what came: a delta holds a token or more, a token some four characters.

        An answer that is over has reported all there is. `rest`: the event that is not complete.
        """
        reported = self._usage
        if self._instead or (reported is not None and (whole or self._finished)):
            return reported
        output = max(self._deltas + rest.count(self.DELTA), self._passed // CHARACTERS_PER_TOKEN)
        if reported is None:
            return Usage(output_tokens=output, source=UsageSource.ESTIMATED)
        output = max(reported.output_tokens or 0, output)
        return msgspec.structs.replace(reported, output_tokens=output, source=UsageSource.PARTIAL)

    def _search(self, block: bytes) -> None:
        # `find`, because `in` first makes and drops an error when it is given bytes: it costs twice as much.
        if block.find(self.USAGE) >= 0:
            self._note_usage(block)
        if (block.find(self.END) < 0 and block.find(self.ERROR) < 0) or self._done:
            return
        for payload in payloads(block):
            if self.END in payload and self.is_end(payload):
                self._done = True
                return  # an error after the end is nobody's business
            if self._failure is None and self.ERROR in payload:
                self._failure = self.error_in(payload)

    def _note_usage(self, block: bytes) -> None:
        found = payloads(block)
        for payload in found if self.ADDS_UP else reversed(found):
            if self.USAGE in payload and (usage := self.usage_in(payload)) is not None:
                self._usage = usage if self._usage is None else self.added(self._usage, usage)
                if not self.ADDS_UP:
                    return
