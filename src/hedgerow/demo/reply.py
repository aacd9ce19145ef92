"""One streamed chat answer as a client sees it: when its first token came, its text, and whether it was whole."""

from __future__ import annotations

import asyncio

import msgspec

from hedgerow.errors import UpstreamError
from hedgerow.events import Headers


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What came of one request. Times are seconds on the loop's clock; `problem` is None for a whole 200 answer."""

    key: str
    sent_at: float
    first_token_at: float | None
    text: str
    answer_id: str
    attempts: int
    hedged: bool
    target: str
    problem: str | None
    skipped: str = ""
    """Why a hedge that was due was not launched."""

    @property
    def first_token(self) -> float:
        """Seconds from send to first token; infinite when none came."""
        return float("inf") if self.first_token_at is None else self.first_token_at - self.sent_at


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    id: str = ""
    choices: list[_Choice] = []
    error: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Chunk).decode


class Reply:
    """The sink of one request: reads its server-sent events and settles `answer` when it is over."""

    __slots__ = (
        "_done",
        "_error",
        "_first",
        "_headers",
        "_id",
        "_loop",
        "_rest",
        "_sent",
        "_status",
        "_text",
        "answer",
        "key",
    )

    def __init__(self, key: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.key = key
        self._sent = self._loop.time()
        self._first: float | None = None
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._rest = b""
        self._text: list[str] = []
        self._id = ""
        self._done = 0
        self._error: str | None = None
        self.answer: asyncio.Future[Answer] = self._loop.create_future()

    def on_head(self, status: int, headers: Headers) -> None:
        self._status = status
        self._headers = dict(headers)

    def on_data(self, data: bytes) -> None:
        if self._status != 200:
            self._rest += data
            return
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            self._on_event(event)

    def on_end(self) -> None:
        self._settle()

    def on_error(self, error: UpstreamError) -> None:
        self._error = f"{type(error).__name__}: {error}"
        self._settle()

    def _on_event(self, event: bytes) -> None:
        if not event.startswith(b"data: "):
            return
        payload = event[6:]
        if payload == b"[DONE]":
            self._done += 1
            return
        try:
            chunk = _decode(payload)
        except msgspec.MsgspecError as error:
            self._error = f"an event that is no chat chunk: {error}"
            return
        if refusal := bytes(chunk.error):
            self._error = f"an error in the stream: {refusal[:200]!r}"
            return
        if self._id not in ("", chunk.id):
            self._error = f"chunks of two answers in one stream: {self._id} and {chunk.id}"
        self._id = chunk.id
        for choice in chunk.choices:
            if choice.delta.content:
                if self._first is None:
                    self._first = self._loop.time()
                self._text.append(choice.delta.content)

    def _settle(self) -> None:
        if self.answer.done():
            return
        self.answer.set_result(
            Answer(
                key=self.key,
                sent_at=self._sent,
                first_token_at=self._first,
                text="".join(self._text),
                answer_id=self._id,
                attempts=int(self._headers.get(b"x-hedgerow-attempts", b"0")),
                hedged=self._headers.get(b"x-hedgerow-hedged") == b"true",
                target=self._headers.get(b"x-hedgerow-target", b"").decode("latin-1"),
                problem=self._problem(),
                skipped=self._headers.get(b"x-hedgerow-hedge-skipped", b"").decode("latin-1"),
            )
        )

    def _problem(self) -> str | None:
        if self._error is not None:
            return self._error
        if self._status != 200:
            return f"status {self._status}: {self._rest[:200]!r}"
        if self._done != 1:
            return f"the stream ended with {self._done} [DONE] marks in place of 1"
        if self._rest.strip():
            return f"{len(self._rest)} bytes after the last event"
        if self._first is None:
            return "a stream without content"
        return None
