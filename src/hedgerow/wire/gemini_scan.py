"""Reading Gemini's answers: the first token of a stream, the adequacy of a whole body."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Verdict
from hedgerow.wire.failures import as_event_stream
from hedgerow.wire.gemini_answer import Answer, read_answer, read_usage, read_words
from hedgerow.wire.gemini_document import as_document, as_stream
from hedgerow.wire.gemini_errors import classify_frame
from hedgerow.wire.gemini_sse import ERROR, GeminiBlocks
from hedgerow.wire.scan import StreamScanner
from hedgerow.wire.sse import payloads
from hedgerow.wire.whole import WholeBody, not_json
from hedgerow.wire.words import Words, tier_in, words

_DONE = b"[DONE]"
_BLOCKED = b'"blockReason"'


class GeminiStream(StreamScanner):
    """`data: {GenerateContentResponse}` events without an end marker: the end is EOF after a finish reason."""

    __slots__ = ("_alone", "_reason", "_reports", "_thought")

    END = b'"finishReason"'  # what makes the end of the body the end of the answer
    sign = 0  # no byte of JSON: nothing is to be looked for before the body ends
    ERROR = ERROR
    USAGE = b'TokenCount"'  # not just `usageMetadata`: on Vertex that may hold no count
    DELTA = b'"parts"'
    words_in = staticmethod(read_words)

    def __init__(self, headers: Headers, *, reasoning_counts: bool = True, alone: bool = True) -> None:
        super().__init__(headers, reasoning_counts=reasoning_counts)
        self._blocks = GeminiBlocks()
        self._alone = alone
        """One candidate only: what ends it ends the answer."""
        self._thought = False
        """Thoughts have come that do not count as a first token."""
        self._reason: object = None
        """Why the last candidate that is finished is."""
        self._reports = b""
        """The last events that reported usage; nearly all do, so they are not decoded before the end."""

    def decide(self, payload: bytes) -> Verdict | None:
        """A chunk decides when it holds output, a filter's decision, a fault or an error."""
        try:
            answer = read_answer(payload)
        except ValueError:
            stray = not payload.strip() or payload.startswith(_DONE)
            return None if stray else self.broken("an event whose data is not JSON")
        if answer is None:
            return None
        if answer.error:
            return classify_frame(payload, self._headers)
        if answer.blocked():
            self._finished = True
            return ACCEPTED
        verdict = self._judge_candidates(answer)
        if verdict is None and not self._thought:
            self._deltas -= payload.count(self.DELTA)
        return verdict

    def is_end(self, payload: bytes) -> bool:
        """Notes that a candidate is finished; more may follow, usage at least, so only EOF is the end."""
        answer = _read(payload)
        if answer is not None:
            for candidate in answer.candidates or ():
                if candidate.finished():
                    self._finished, self._reason = True, candidate.finish_reason
        if self._failure is None and self.ERROR in payload:
            self._failure = self.error_in(payload)
        return False

    def error_in(self, payload: bytes) -> Failure | None:
        """A chunk with a truthy `error`."""
        answer = _read(payload)
        return classify_frame(payload, self._headers) if answer is not None and answer.error else None

    def usage_in(self, payload: bytes) -> Usage | None:
        """Running totals: the last report counts."""
        return read_usage(payload)

    def judge_document(self, body: bytes) -> Verdict:
        """An answer that came whole, or as an array of chunks, is made the stream that was asked for."""
        document, stream = body, b""
        with suppress(ValueError):
            if body.lstrip()[:1] == b"[":
                document = as_document(body)
            stream = as_stream(body)
        return self._judge_instead(document, stream, as_event_stream(self._headers))

    def eof(self, held: bytes) -> Verdict:
        """Before commit: the body ended undecided. Its end ends an event too, when it finishes a candidate."""
        for payload in payloads(self._blocks.rest() + b"\n\n"):
            answer = _read(payload)
            if answer is not None and self.decide(payload) is ACCEPTED and self._finishes(answer):
                return ACCEPTED
        return super().eof(held)

    def ending(self, clean: bool) -> Ending:
        """The body ended or broke off: whole is what was closed cleanly after a finish reason."""
        rest = self._blocks.rest()
        reports, self._reports = self._reports, b""
        self._search(rest + b"\n\n")
        failure = self._failure
        if failure is None and not (clean and self._whole()):
            how = "was closed before a finish reason" if clean else "broke off"
            failure = self.broken(f"the stream {how}")
        for payload in reversed(payloads(reports + self._reports)):  # what broke off may not be readable
            if (usage := self.usage_in(payload)) is not None:
                self._usage = usage
                break
        return Ending(failure, self._used(rest, whole=failure is None))

    def words(self) -> Words:
        """The reason may be told long before the end, in a large event; the tier is told in the head."""
        return words(self._reason or super().words().finish_reason, tier_in(self._headers))

    def tier(self) -> str | None:
        """As in `words`."""
        return tier_in(self._headers)

    def _judge_instead(self, document: bytes, instead: bytes, headers: Headers) -> Verdict:
        verdict = judge(document, self._headers)
        if isinstance(verdict, Failure) and verdict.kind is not FailureClass.EMPTY:
            return verdict
        if not instead:
            return self.broken("a JSON document instead of a stream")
        self._finished = True
        self._usage = read_usage(document)
        self._reason = read_words(document).finish_reason
        if isinstance(verdict, Accepted):
            return Accepted(instead)
        return msgspec.structs.replace(verdict, headers=headers, body=instead)

    def _whole(self) -> bool:
        return self._finished

    def _finishes(self, answer: Answer) -> bool:
        return answer.blocked() or any(candidate.finished() for candidate in answer.candidates or ())

    def _judge_candidates(self, answer: Answer) -> Verdict | None:
        faulty = False
        for candidate in answer.candidates or ():
            if candidate.speaks(reasoning_counts=self.reasoning_counts):
                return ACCEPTED
            self._thought = self._thought or candidate.speaks(reasoning_counts=True)
            if candidate.faulty():
                faulty = True
            elif candidate.finished() and self._thought:  # that was all
                return ACCEPTED
            self._finished = self._finished or candidate.finished()
        # Some models say STOP in every chunk, so that does not tell the end; a fault does.
        return self.empty(self.held()) if faulty and self._alone else None

    def _search(self, block: bytes) -> None:
        super()._search(block)
        if block.find(_BLOCKED) >= 0:  # the prompt may be refused late
            answers = map(_read, payloads(block))
            self._finished = self._finished or any(answer is not None and answer.blocked() for answer in answers)

    def _note_usage(self, block: bytes) -> None:
        self._reports = block


class GeminiBody(WholeBody):
    """A whole `GenerateContentResponse`: judged when it is complete."""

    __slots__ = ()

    def words(self) -> Words:
        """What the answer says of itself, and its head."""
        return words(read_words(self.document).finish_reason, tier_in(self.headers))

    def tier(self) -> str | None:
        """As in `words`."""
        return tier_in(self.headers)

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate answer."""
        self.usage = read_usage(body)
        return judge(body, self.headers)

    def collected(self, stream: bytes) -> bytes | None:
        """The document that an event stream amounts to, None where it is not whole or not clear."""
        try:
            return as_document(stream)
        except ValueError:
            return None


def judge(body: bytes, headers: Headers) -> Verdict:
    """What a complete 2xx body means that should be one answer."""
    if body[:64].lstrip()[:1] not in (b"{", b"["):
        return not_json(body)
    try:
        answer = read_answer(body)
    except ValueError:
        return Failure(FailureClass.PROTOCOL, "the body is not whole JSON")
    if answer is None or not (answer.known() or answer.error):
        return Failure(FailureClass.PROTOCOL, "JSON that is no GenerateContentResponse")
    if answer.error:
        return classify_frame(body, headers)
    if answer.blocked() or any(candidate.speaks(reasoning_counts=True) for candidate in answer.candidates or ()):
        return ACCEPTED
    return Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, headers, body)


def _read(payload: bytes) -> Answer | None:
    try:
        return read_answer(payload)
    except ValueError:
        return None
