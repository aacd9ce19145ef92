"""One simulated provider: reads a request, makes its plan, starts its answer."""

from __future__ import annotations

from hashlib import sha256

from hedgerow.http.exchange import Exchange
from hedgerow.lab.accounts import Accounts, OnCancel, Record
from hedgerow.lab.answers import Answer, Clock, Refusal, Stream, Visit, Whole
from hedgerow.lab.chunks import Chunks, Fields, Said
from hedgerow.lab.endpoint import Asked, Endpoint
from hedgerow.lab.latency import EVEN, bits, uniform
from hedgerow.lab.options import Behaviour, LabOptions
from hedgerow.lab.plan import Plan
from hedgerow.lab.script import PLAIN, Fault, FaultMix, Script, parse_script

_LONGEST = 1_000_000


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
        self.accounts = Accounts(self._behaviour.prices, OnCancel(self.options.billed_on_cancel))
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

    def answer(self, endpoint: Endpoint, exchange: Exchange) -> None:
        """Answer a request. Raises RequestError when it cannot be understood; then nothing is sent."""
        asked = endpoint.read(exchange.target, exchange.body)
        headers = dict(exchange.headers)
        script = self._script_of(headers)
        record = self.accounts.open(
            key=_key(headers, asked),
            model=asked.model,
            stream=asked.stream,
            input_tokens=0 if asked.free else asked.input_tokens,
            now=self._clock.time(),
        )
        record.cached_tokens = int(record.input_tokens * self.options.cached) if asked.generates else 0
        self._answer(endpoint, exchange, asked, script, record).begin()

    def _script_of(self, headers: dict[bytes, bytes]) -> Script | None:
        for name in (self._own_script, b"x-lab-script"):
            if (text := headers.get(name)) is not None:
                return parse_script(text, name.decode())
        return self.script

    def _answer(
        self, endpoint: Endpoint, exchange: Exchange, asked: Asked, script: Script | None, record: Record
    ) -> Answer:
        name = self.options.name
        luck = uniform(self.seed, "fault", name, record.key, record.seen)
        script = script or self.faults.pick(luck) or PLAIN
        record.fault = script.fault or (str(script.status) if script.status else None)
        fields: Fields = [
            (endpoint.id_field, f"req-{name}-{record.seq}".encode()),
            (b"x-lab-provider", name.encode()),
        ]
        visit = Visit(self._clock, exchange, self.accounts, record, fields, endpoint.errors, self.options.ignore_cancel)
        if script.status is not None and script.fault is not Fault.ERROR:
            return Refusal(visit, script, delay=script.delay_ms / 1000 / self.options.speed)
        wanted = asked.length(script.tokens, self._behaviour.tokens)
        plan = self._plan(record, script, min(wanted, _LONGEST))
        record.ttft, record.planned = plan.ttft, plan.tokens
        body = asked.speak(
            Said(
                answer_id=f"{endpoint.prefix}-{name}-{record.seq}",
                model=asked.model,
                speaker=name,
                input_tokens=asked.input_tokens,
                cached_tokens=record.cached_tokens,
                tokens=plan.tokens,
                cut_short=asked.limit is not None and wanted >= asked.limit,
            )
        )
        return Stream(visit, plan, body) if asked.stream and isinstance(body, Chunks) else Whole(visit, plan, body)

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


def _key(headers: dict[bytes, bytes], asked: Asked) -> str:
    """What identifies a request across providers and runs: x-lab-key, else its user, else its prompt."""
    if key := headers.get(b"x-lab-key"):
        return key.decode("latin-1")
    return asked.user or sha256(asked.prompt).hexdigest()[:16]
