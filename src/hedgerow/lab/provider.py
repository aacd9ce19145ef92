"""One simulated provider: reads a chat request, makes its plan, starts its answer."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from hedgerow.errors import RequestError
from hedgerow.http.exchange import Exchange
from hedgerow.lab.accounts import Accounts, Record
from hedgerow.lab.answers import Answer, Clock, Fields, Refusal, Stream, Visit, Whole
from hedgerow.lab.chunks import CREATED, Chunks
from hedgerow.lab.latency import EVEN, bits, uniform
from hedgerow.lab.options import Behaviour, LabOptions
from hedgerow.lab.plan import Plan
from hedgerow.lab.script import PLAIN, Fault, FaultMix, Script, parse_script

CHARACTERS_PER_TOKEN = 4
_LONGEST = 1_000_000


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Chat(msgspec.Struct):
    """What the lab reads of a chat completions request."""

    model: str
    messages: msgspec.Raw
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    user: str | None = None

    @property
    def limit(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


_chat_decoder = msgspec.json.Decoder(_Chat)


class Provider:
    """A provider's state. What it does to a request is decided when the request comes in and holds to its end."""

    __slots__ = ("_behaviour", "_clock", "_own_script", "_reset_at", "accounts", "faults", "script")

    def __init__(self, options: LabOptions, clock: Clock) -> None:
        self._clock = clock
        self._own_script = b"x-lab-script-" + options.name.lower().encode()
        self.script: Script | None = None
        """Obeyed by every request that brings none of its own."""
        self._behaviour = Behaviour(options)
        self.faults: FaultMix = self._behaviour.faults
        self._start_books()

    def _start_books(self) -> None:
        self.accounts = Accounts(self._behaviour.prices)
        self._reset_at = self._clock.time()

    @property
    def options(self) -> LabOptions:
        return self._behaviour.options

    @property
    def seed(self) -> int:
        return self._behaviour.model.seed

    @property
    def uptime(self) -> float:
        """Real seconds since start or reset."""
        return self._clock.time() - self._reset_at

    def reset(self, seed: int | None) -> None:
        """New books, keys unseen, times from the beginning; behaviour set at run time is forgotten.

        Requests under way end in the old books.
        """
        self._behaviour = Behaviour(self.options, seed=self.seed if seed is None else seed)
        self.faults = self._behaviour.faults
        self.script = None
        self._start_books()

    def models(self) -> bytes:
        """The answer to GET /v1/models."""
        names = self.options.models
        data = [{"id": name, "object": "model", "created": CREATED, "owned_by": self.options.name} for name in names]
        return msgspec.json.encode({"object": "list", "data": data})

    def chat(self, exchange: Exchange) -> None:
        """Answer a chat completions request. Raises RequestError when it cannot be understood; then nothing is sent."""
        try:
            chat = _chat_decoder.decode(exchange.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestError(400, f"Invalid request body: {error}") from error
        if chat.limit is not None and chat.limit < 1:
            raise RequestError(400, f"The token limit must be at least 1, got {chat.limit}", param="max_tokens")
        headers = dict(exchange.headers)
        script = self._script_of(headers)
        record = self.accounts.open(
            key=_key(headers, chat),
            model=chat.model,
            stream=bool(chat.stream),
            input_tokens=len(bytes(chat.messages)) // CHARACTERS_PER_TOKEN + 1,
            now=self._clock.time(),
        )
        self._answer(exchange, chat, script, record).begin()

    def _script_of(self, headers: dict[bytes, bytes]) -> Script | None:
        for name in (self._own_script, b"x-lab-script"):
            if (text := headers.get(name)) is not None:
                return parse_script(text, name.decode())
        return self.script

    def _answer(self, exchange: Exchange, chat: _Chat, script: Script | None, record: Record) -> Answer:
        name = self.options.name
        luck = uniform(self.seed, "fault", name, record.key, record.seen)
        script = script or self.faults.pick(luck) or PLAIN
        record.fault = script.fault or (str(script.status) if script.status else None)
        fields: Fields = [(b"x-request-id", f"req-{name}-{record.seq}".encode()), (b"x-lab-provider", name.encode())]
        visit = Visit(self._clock, exchange, self.accounts, record, fields)
        if script.status is not None and script.fault is not Fault.ERROR:
            return Refusal(visit, script, delay=script.delay_ms / 1000 / self.options.speed)
        tokens = next(n for n in (script.tokens, chat.limit, self._behaviour.tokens) if n is not None)
        plan = self._plan(record, script, min(tokens, _LONGEST))
        record.ttft = plan.ttft
        chunks = Chunks(
            answer_id=f"chatcmpl-{name}-{record.seq}",
            model=chat.model,
            speaker=name,
            usage=bool(chat.stream_options and chat.stream_options.include_usage),
        )
        kind = Stream if record.stream else Whole
        return kind(visit, plan, chunks, cut_short=chat.limit is not None and tokens >= chat.limit)

    def _plan(self, record: Record, script: Script, tokens: int) -> Plan:
        behaviour, speed = self._behaviour, self.options.speed
        if script.ttft_ms is None:
            ttft = behaviour.model.ttft(
                record.key,
                record.seen,
                prompt_tokens=record.input_tokens,
                nth=record.seq,
                elapsed=self.uptime * speed,
            )
        else:
            ttft = script.ttft_ms / 1000
        scripted_gap = script.gap_ms is not None
        return Plan(
            ttft=ttft / speed,
            gap=(script.gap_ms / 1000 if script.gap_ms is not None else behaviour.gap) / speed,
            tokens=tokens,
            pace=EVEN if scripted_gap else behaviour.pace,
            walk=bits(self.seed, "pace", self.options.name, record.key, record.seen),
            script=script,
        )


def _key(headers: dict[bytes, bytes], chat: _Chat) -> str:
    """What identifies a request across providers and runs: x-lab-key, else `user`, else its messages."""
    if key := headers.get(b"x-lab-key"):
        return key.decode("latin-1")
    return chat.user or sha256(chat.messages).hexdigest()[:16]
