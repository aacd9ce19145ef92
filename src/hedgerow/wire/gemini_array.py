"""Reading Gemini's streams as they are without `alt=sse`: one JSON array, sent chunk by chunk."""

from __future__ import annotations

from hedgerow.events import Headers
from hedgerow.wire.base import Verdict
from hedgerow.wire.failures import as_json
from hedgerow.wire.gemini_document import as_document
from hedgerow.wire.gemini_scan import GeminiStream
from hedgerow.wire.gemini_sse import Elements, as_events
from hedgerow.wire.sse import payloads
from hedgerow.wire.whole import is_event_stream

_WHOLE = b"{"
_ELEMENTS = b","


class GeminiArray(GeminiStream):
    """`[{chunk},\\r\\n{chunk}]`: each object is an event, and the closing bracket must come."""

    __slots__ = ()
    _blocks: Elements

    def __init__(self, headers: Headers, *, reasoning_counts: bool = True, alone: bool = True) -> None:
        super().__init__(headers, reasoning_counts=reasoning_counts, alone=alone)
        self._blocks = Elements()

    def judge_document(self, body: bytes) -> Verdict:
        """An answer that came whole, or as events, is made the array that was asked for."""
        array, document = b"[" + body.strip() + b"]", body
        if is_event_stream(body):
            array = b"[" + b",\r\n".join(payloads(as_events(body) + b"\n\n")) + b"]"
            try:
                document = as_document(body)
            except ValueError:
                return self.broken("events instead of a JSON array, and no whole answer")
        self._blocks.closed = True
        return self._judge_instead(document, array, as_json(self._headers))

    def _whole(self) -> bool:
        return self._finished and self._blocks.closed

    def _sniff(self, data: bytes) -> Verdict | None:
        verdict = super()._sniff(data)
        if self._body:  # whatever is no array is judged when it is whole
            self._body = _ELEMENTS if self._body == b"[" else _WHOLE
        return verdict
