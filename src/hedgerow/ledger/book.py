"""The listener that gathers what happens by request. It keeps the events themselves, and works nothing out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
    AttemptLaunched,
    Event,
    Failure,
    HedgeSkipped,
    RequestBilled,
    RequestFinished,
    RequestRepeated,
    RequestStarted,
)
from hedgerow.ledger.record import Content, Part, Record, Repeat, Told

_replace: Final = msgspec.structs.replace


class Book:
    """Hands each request's record to `tell` once it is complete; `unfinished` has those that changed and are not."""

    kinds = (
        RequestStarted,
        AttemptLaunched,
        HedgeSkipped,
        AnswerRejected,
        AnswerNotJudged,
        AttemptEnded,
        RequestFinished,
        RequestRepeated,
        AnswerRescued,
        RequestBilled,
    )

    def __init__(self, tell: Callable[[Told], object], epoch: float = 0.0) -> None:
        self._tell = tell
        self.epoch = epoch
        """The Unix time when the clock of the events showed 0. A request keeps that of its start to its end."""
        self._open: dict[str, Record] = {}
        self._changed: dict[str, Record] = {}  # of those open, since they were last told
        self._number = 0
        self.ears = {
            RequestStarted: self._started,
            AttemptLaunched: self._launched,
            HedgeSkipped: self._skipped,
            AnswerRejected: self._rejected,
            AnswerNotJudged: self._not_judged,
            AttemptEnded: self._ended,
            RequestFinished: self._finished,
            RequestRepeated: self._repeated,
            AnswerRescued: self._rescued,
            RequestBilled: self._billed,
        }

    def __call__(self, event: Event) -> None:
        self.ears[type(event)](event)  # type: ignore[operator]  # each is given its own kind

    def __len__(self) -> int:
        """Requests that are not complete."""
        return len(self._open)

    def unfinished(self) -> Iterator[Record]:
        """Requests under way whose record has changed since they were given here last."""
        changed, self._changed = self._changed, {}
        for request_id, record in changed.items():
            if self._open.get(request_id) is record:
                yield record

    def _started(self, event: RequestStarted) -> None:
        request_id = event.request_id
        self._number += 1
        record = Record(self._number, self.epoch, event, [], [])
        if request_id in self._open:  # its client has named a new one like one whose losers still run
            self._tell(self._open[request_id])
        self._open[request_id] = self._changed[request_id] = record

    def _of(self, request_id: str) -> Record | None:
        """The record that something is added to; None of a request that had begun before anybody listened."""
        record = self._open.get(request_id)
        if record is not None:
            self._changed[request_id] = record
        return record

    def _launched(self, event: AttemptLaunched) -> None:
        if (record := self._of(event.request_id)) is not None:
            record.launched.append(event)

    def _ended(self, event: AttemptEnded) -> None:
        if (record := self._of(event.request_id)) is not None:
            if event.failure is not None:
                event = _replace(event, failure=_bare(event.failure))
            record.ended.append(event)

    def _skipped(self, event: HedgeSkipped) -> None:
        if (record := self._of(event.request_id)) is not None:
            record.skipped = [*(record.skipped or ()), event]

    def _rejected(self, event: AnswerRejected) -> None:
        if (record := self._of(event.request_id)) is not None:
            record.rejected = [*(record.rejected or ()), event]

    def _not_judged(self, event: AnswerNotJudged) -> None:
        if (record := self._of(event.request_id)) is not None:
            record.not_judged = [*(record.not_judged or ()), event]

    def _rescued(self, event: AnswerRescued) -> None:
        if (record := self._of(event.request_id)) is not None:
            record.rescued = [*(record.rescued or ()), event]

    def _finished(self, event: RequestFinished) -> None:
        if (record := self._of(event.request_id)) is not None:
            record.finished = event

    def _repeated(self, event: RequestRepeated) -> None:
        if (record := self._of(event.request_id)) is not None:
            record.repeats += 1
        else:
            self._tell(Repeat(event.request_id))

    def _billed(self, event: RequestBilled) -> None:
        record = self._open.pop(event.request_id, None)
        if record is not None:
            self._changed.pop(event.request_id, None)
            record.billed = event
            self._tell(record)


class ContentBook(Book):
    """One that takes prompts and answers as well: of each the first `limit` bytes."""

    def __init__(self, tell: Callable[[Told], object], epoch: float, limit: int) -> None:
        super().__init__(tell, epoch)
        self.limit = limit

    def tell(self, request_id: str, attempt: int, part: Part, body: bytes, size: int) -> None:
        """What was said in a request that is not complete: the whole of its `size` bytes, or their beginning."""
        if (record := self._open.get(request_id)) is not None:
            self._tell(Content(record.number, attempt, part, body[: self.limit], size))


def _bare(failure: Failure) -> Failure:
    """Without the upstream's header fields and body."""
    return Failure(failure.kind, failure.message, failure.status, None, None, failure.retry_after)
