"""What the gateway tells the writer: records of requests, in batches, and what the writer answers.

Everything is msgpack in frames: four bytes of length, eight of the batch's number, then the records, each with its
length before it. The writer answers `Reply` frames of the same form.
"""

from __future__ import annotations

from enum import StrEnum
from struct import Struct as Layout
from typing import Final

import msgspec

from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
    AttemptLaunched,
    HedgeSkipped,
    RequestBilled,
    RequestFinished,
    RequestStarted,
)
from hedgerow.unshown import Unshown

FRAME: Final = Layout("<IQ")
"""Length of what follows, number of the batch."""
URGENT: Final = "--urgent"
"""To a writer: do not let everything else go first."""
LENGTH: Final = Layout("<I")
"""Length of a record."""


class Record(msgspec.Struct, array_like=True, tag=0):
    """All that is known of one request: its events, by kind. `number` counts the requests of a gateway process.

    `epoch` is the Unix time when the clock of its events showed 0, as it was believed when the request started.
    It may be told several times while the request is under way; with `billed` it is complete. `repeats`: how often a
    client asked again for its answer meanwhile.
    """

    number: int
    epoch: float
    started: RequestStarted
    launched: list[AttemptLaunched]
    ended: list[AttemptEnded]
    skipped: list[HedgeSkipped] | None = None
    rejected: list[AnswerRejected] | None = None
    not_judged: list[AnswerNotJudged] | None = None
    rescued: list[AnswerRescued] | None = None
    finished: RequestFinished | None = None
    billed: RequestBilled | None = None
    repeats: int = 0


class Repeat(msgspec.Struct, array_like=True, tag=1, frozen=True, gc=False):
    """A client asked again for the answer of a request whose record is complete already."""

    request_id: str


PROMPT: Final = -1
"""In place of an attempt's number: the prompt belongs to all of them."""


class Part(StrEnum):
    """Whose words they are: the client's, those of the answer it got, or of another attempt's."""

    PROMPT = "prompt"
    ANSWER = "answer"
    UNUSED = "unused"


class Content(Unshown, msgspec.Struct, array_like=True, tag=2, frozen=True, gc=False):
    """What was asked or answered, where the ledger keeps that: the beginning of `size` bytes."""

    number: int
    attempt: int
    part: Part
    body: bytes
    size: int


Told = Record | Repeat | Content
"""What a batch holds."""


class Hello(Unshown, msgspec.Struct, frozen=True):
    """The first frame to a writer: where to write, and for which gateway process.

    `key` is what the process is known by, the same for each of its writers. `keep` and `keep_hourly` are seconds, None
    for ever.
    """

    url: str
    key: str
    host: str
    pid: int
    version: str
    keep: float | None
    keep_hourly: float | None


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """From the writer. All batches up to this one are in the database; of their records `refused` could not be written.

    `trouble` is what keeps it from writing, "" once it can again; None says nothing about that. `note` is for the log.
    """

    refused: int = 0
    trouble: str | None = None
    note: str | None = None


decode: Final = msgspec.msgpack.Decoder(Told).decode
decode_hello: Final = msgspec.msgpack.Decoder(Hello).decode
decode_reply: Final = msgspec.msgpack.Decoder(Reply).decode
encode: Final = msgspec.msgpack.Encoder().encode
encode_into: Final = msgspec.msgpack.Encoder().encode_into


def frame(number: int, payload: bytes | bytearray) -> bytes:
    """The payload with its head."""
    return FRAME.pack(len(payload), number) + payload


def records_in(payload: bytes) -> list[memoryview]:
    """The records of a batch, still encoded."""
    view, found, at = memoryview(payload), [], 0
    while at < len(view):
        (length,) = LENGTH.unpack_from(view, at)
        at += LENGTH.size
        found.append(view[at : at + length])
        at += length
    return found
