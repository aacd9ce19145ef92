"""What a book makes of events, and what waits to be written."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
    AttemptLaunched,
    Event,
    Failure,
    FailureClass,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestRepeated,
    Role,
)
from hedgerow.ledger.backlog import BATCH, Backlog
from hedgerow.ledger.book import Book, ContentBook
from hedgerow.ledger.record import FRAME, Content, Part, Record, Repeat, Told, decode, records_in
from tests.ledger.support import EPOCH, records, told


def test_a_record_is_told_once_when_nothing_more_can_come() -> None:
    events = list(told("r1"))
    found: list[Told] = []
    book = Book(found.append, EPOCH)
    for event in events[:-1]:
        book(event)
    assert found == []
    assert len(book) == 1
    book(events[-1])
    started, launched, ended, finished, billed = events
    assert found == [Record(1, EPOCH, started, [launched], [ended], finished=finished, billed=billed)]  # type: ignore[arg-type, list-item]
    assert len(book) == 0
    assert list(book.unfinished()) == []


def test_unfinished_ones_are_given_again_only_when_they_have_changed() -> None:
    started, launched, *rest = told("r1")
    book = Book(lambda _: None, EPOCH)
    book(started)
    book(launched)
    assert [record.number for record in book.unfinished()] == [1]
    assert list(book.unfinished()) == []
    book(AttemptLaunched("r1", 1, "backup", Role.HEDGE, 1.0))
    assert [len(record.launched) for record in book.unfinished()] == [2]
    book(rest[0])
    given = book.unfinished()
    for event in rest[1:]:
        book(event)
    assert list(given) == []  # it has come to its end meanwhile, and was told


def test_each_kind_of_event_is_kept() -> None:
    started, launched, ended, finished, billed = told("r1")
    more: list[Event] = [
        HedgeSkipped("r1", "fast", Reason.BUDGET, 1.0),
        AnswerRejected("r1", "fast", 0, "primary", "non_empty", "empty", 1.0, False),
        AnswerNotJudged("r1", "fast", 1, "backup", "late", 1.0),
        AnswerRescued("r1", "fast", 1, "backup", 12, 1.0),
        RequestRepeated("r1", "fast", 1.0, True),
        RequestRepeated("r1", "fast", 1.0, True),
    ]
    [record] = records(started, launched, *more, ended, finished, billed)
    assert isinstance(record, Record)
    kept: list[object] = [record.skipped, record.rejected, record.not_judged, record.rescued]
    assert kept == [[each] for each in more[:4]]
    assert record.repeats == 2


def test_who_asks_again_later_is_told_apart() -> None:
    assert records(*told("r1"), RequestRepeated("r1", "fast", 9.0, False))[1:] == [Repeat("r1")]


def test_of_a_failure_no_header_field_and_no_body_is_kept() -> None:
    started, launched, ended, *_ = told("r1")
    failure = Failure(FailureClass.SERVER_ERROR, "it said 500", 500, [(b"x-key", b"secret")], b"secret", 2.0)
    assert isinstance(ended, AttemptEnded)
    [record] = records(started, launched, msgspec.structs.replace(ended, outcome=Outcome.FAILED, failure=failure))
    assert isinstance(record, Record)
    assert record.ended[0].failure == Failure(FailureClass.SERVER_ERROR, "it said 500", 500, retry_after=2.0)


def test_a_name_that_a_client_uses_again_while_losers_run_is_another_request() -> None:
    first, second = list(told("same")), list(told("same", 1.0))
    found = records(*first[:-1], *second)
    assert [record.number for record in found if isinstance(record, Record)] == [1, 2]


def test_what_is_told_of_a_request_that_nobody_saw_begin_is_nothing() -> None:
    assert records(*list(told("r1"))[1:]) == []


def test_records_go_through_the_pipe_whole() -> None:
    sent = records(*told("r1"), *told("r2", 1.0), RequestRepeated("r1", "fast", 9.0, False))
    backlog = Backlog(1 << 20)
    for record in sent:
        assert backlog.add(record)
    assert backlog.next() is None
    backlog.close_batch()
    frame = backlog.next()
    assert frame is not None
    assert FRAME.unpack(frame[: FRAME.size]) == (len(frame) - FRAME.size, 1)
    assert [decode(each) for each in records_in(frame[FRAME.size :])] == sent
    assert (backlog.queued, backlog.size, backlog.written, backlog.lost) == (3, len(frame), 0, 0)
    backlog.confirm(1)
    assert (backlog.queued, backlog.size, backlog.written, backlog.lost) == (0, 0, 3, 0)


def test_a_request_keeps_the_clock_of_its_start() -> None:
    found: list[Told] = []
    book = Book(found.append, EPOCH)
    first, second = list(told("r1")), list(told("r2", 1.0))
    book(first[0])
    book.epoch = EPOCH + 3600.0  # the clock is set, an hour ahead
    for event in (*first[1:], *second):
        book(event)
    assert [record.epoch for record in found if isinstance(record, Record)] == [EPOCH, EPOCH + 3600.0]


def test_contents_are_cut_off_and_belong_to_a_request_that_is_not_complete() -> None:
    found: list[Told] = []
    book = ContentBook(found.append, EPOCH, 10)
    events = list(told("r1"))
    book(events[0])
    book.tell("r1", 0, Part.ANSWER, b"0123456789abcdef", 16)
    book.tell("nobody", 0, Part.ANSWER, b"x", 1)
    for event in events[1:]:
        book(event)
    book.tell("r1", 0, Part.ANSWER, b"too late", 8)
    assert found[:-1] == [Content(1, 0, Part.ANSWER, b"0123456789", 16)]


def test_contents_leave_half_of_the_room_to_what_matters_more() -> None:
    backlog = Backlog(1000)
    content = Content(1, 0, Part.ANSWER, b"x" * 92, 92)
    taken = [backlog.add(content) for _ in range(10)]
    assert taken == [True] * taken.count(True) + [False] * taken.count(False)
    assert 500 <= len(backlog._buffer) < 620
    assert backlog.add(Repeat("x" * 100))


def test_what_is_not_confirmed_is_given_to_the_next_writer_in_order() -> None:
    backlog = Backlog(1 << 20)
    for number in range(3):
        backlog.add(Repeat(f"r{number}"))
        backlog.close_batch()
    sent = [backlog.next() for _ in range(2)]
    backlog.confirm(1)
    backlog.again()
    assert [backlog.next(), backlog.next()] == [sent[1], backlog._batches[1].frame]
    assert backlog.next() is None


def test_a_batch_that_is_large_enough_does_not_wait_for_the_flush() -> None:
    backlog = Backlog(1 << 30)
    while (frame := backlog.next()) is None:
        backlog.add(Repeat("x" * 1000))
    assert BATCH <= len(frame) < BATCH + 2000


def test_what_finds_no_room_is_lost_and_counted_and_there_is_room_again() -> None:
    backlog = Backlog(1000)
    taken = [backlog.add(Repeat("x" * 100)) for _ in range(20)]
    assert taken == [True] * 10 + [False] * 10  # 107 bytes each, the last over the limit
    assert (backlog.queued, backlog.lost) == (10, 10)
    backlog.close_batch()
    backlog.next()
    backlog.confirm(1, refused=2)
    assert (backlog.queued, backlog.written, backlog.lost) == (0, 8, 12)
    assert backlog.add(Repeat("x"))
    assert backlog.give_up() == 1
    assert (backlog.queued, backlog.size, backlog.lost) == (0, 0, 13)


def test_a_record_that_cannot_be_encoded_spoils_no_other() -> None:
    backlog = Backlog(1 << 20)
    backlog.add(Repeat("a"))
    with pytest.raises(UnicodeEncodeError):
        backlog.add(Repeat("\ud800"))
    backlog.add(Repeat("b"))
    backlog.close_batch()
    frame = backlog.next()
    assert frame is not None
    assert [decode(each) for each in records_in(frame[FRAME.size :])] == [Repeat("a"), Repeat("b")]
    assert backlog.lost == 1
