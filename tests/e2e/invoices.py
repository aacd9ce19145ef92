"""`python -m tests.e2e.invoices [N]`: N mixed requests, what they came to, and the invoices of the labs that answered.

Three labs that bill cancels differently, with faults of every kind, behind one gateway; chats, messages, responses and
embeddings, streamed and whole, hedged, failed over, judged, left by their clients. A lab knows a request by the key
that its client sent.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgerow.lab.accounts import LOG_LENGTH
from hedgerow.lab.process import LabProcess
from hedgerow.ledger import read
from tests.e2e.support import Config, GatewayProcess, until

AT_ONCE = 48
FAULTS = "500:0.03,400:0.01,401:0.003,cut:0.02,close:0.01,error:0.02,stall@3:0.01,hang:0.02"
LABS: Mapping[str, tuple[Sequence[str], Config]] = {
    "one": (["--fault", FAULTS], {}),
    "two": (
        ["--fault", FAULTS, "--billed-on-cancel", "full", "--cached", "0.5", "--cached-price", "0.025"],
        {"price": {"input": 0.25, "output": 2, "cached_input": 0.025}, "billed_on_cancel": "full"},
    ),
    "three": (["--fault", FAULTS, "--billed-on-cancel", "input"], {"billed_on_cancel": "input"}),
    "four": (["--ignore-cancel"], {"billed_on_cancel": "full"}),
    "five": (["--billed-on-cancel", "none"], {"billed_on_cancel": "none"}),
}
"""Each lab's options, and what its target says of it."""
SOON = {"max_time": "300ms"}
ROUTES: Mapping[str, Config] = {
    "fast": {"targets": ["one", "two", "three", "four"]},
    "other": {"targets": ["three", "five", "dead", "one"]},
    "dead": {"targets": ["dead", "two", "one"]},
    "race": {"targets": ["five", "four", "two"], "hedge": {"mode": "race", "width": 3}},
    "picky": {"targets": ["one", "three", "five"], "gates": [{"min_chars": 40}]},
    "whole": {"targets": ["two", "one", "five"], "nonstream_as_stream": True, "on_stall": "restart"},
    "drained": {"targets": ["four", "five", "one"], "losers": "drain", "keep": SOON},
    "kept": {"targets": ["one", "two", "five"], "losers": "keep", "keep": SOON, "hedge": {"mode": "race"}},
}


Told = dict[str, Any]
"""A bill, as the event log has it, or a lab's record."""
Row = tuple[str, int, str, str, str, int | None, int | None, int | None]
"""An attempt: its request, number, target, outcome, certainty, nano-dollars, least and most."""


@dataclass
class Books:
    """Both sides: bills by (target, request), invoices by (lab, key), and how requests and attempts ended."""

    bills: dict[tuple[str, str], list[Told]] = field(default_factory=dict)
    invoices: dict[tuple[str, str], list[Told]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    certainties: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    billed: Counter[str] = field(default_factory=Counter)
    rows: Counter[Row] = field(default_factory=Counter)
    """Of the ledger: how often each request, attempt and what it comes to is there."""

    def read(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take up what the gateway told."""
        for event in events:
            if event["event"] == "request_finished":
                self.finished[event["request_id"]] += 1
            elif event["event"] == "request_billed":
                self.billed[event["request_id"]] += 1
                for bill in event["bills"]:
                    self.bills.setdefault((bill["target"], event["request_id"]), []).append(bill)
                    self.outcomes[bill["outcome"]] += 1
                    self.certainties[bill["certainty"]] += 1

    def problems(self) -> Iterator[str]:
        """Everything in which the two sides do not fit together, and in which the ledger has it otherwise."""
        told = Counter(_row(request, bill) for (_, request), bills in self.bills.items() for bill in bills)
        for row in told - self.rows:
            yield f"{row}: not in the ledger"
        for row in self.rows - told:
            yield f"{row}: in the ledger alone, or twice"
        for request, times in (self.billed + self.finished).items():
            if (self.billed[request], self.finished[request]) != (1, 1):
                yield f"{request}: told {times} times that it was finished or billed"
        for where in self.bills.keys() | self.invoices.keys():
            yield from _differences(where, self.bills.get(where, []), self.invoices.get(where, []))

    @property
    def exact(self) -> tuple[int, int]:
        """Nano-dollars of all that is known exactly: as billed here, and as the labs say."""
        sure = [where for where, bills in self.bills.items() if _is_exact(bills)]
        ours = sum(_sum(self.bills[where], "nanousd") for where in sure)
        return ours, sum(_sum(self.invoices.get(where, []), "billed_nano_usd") for where in sure)

    @property
    def others(self) -> tuple[int, int, int, int]:
        """Of the rest: sums of the least and of the guesses, what the labs say, and how many have no upper bound."""
        rest = [(where, bills) for where, bills in self.bills.items() if not _is_exact(bills)]
        said = sum(_sum(self.invoices.get(where, []), "billed_nano_usd") for where, _ in rest)
        least, guess = (sum(_sum(bills, key) for _, bills in rest) for key in ("least", "nanousd"))
        return least, guess, said, sum(bill["most"] is None for _, bills in rest for bill in bills)


def _row(request: str, bill: Told) -> Row:
    which = request, bill["attempt"], bill["target"], bill["outcome"]
    return (*which, bill["certainty"], bill["nanousd"], bill["least"], bill["most"])


def _rows(url: str) -> Iterator[Row]:
    """The ledger's attempts, with the names of their requests."""
    with read.ledger(url) as ledger:
        names = {(row.process, row.number): row.request_id for page in ledger.requests() for row in page}
        for page in ledger.attempts():
            for row in page:
                sums = row.cost_nanousd, row.least_nanousd, row.most_nanousd
                how = row.outcome, row.certainty or "none"
                yield (names[row.process, row.number], row.attempt, row.target, *how, *sums)


def _is_exact(bills: Iterable[Told]) -> bool:
    return all(bill["certainty"] == "exact" for bill in bills)


def _differences(where: tuple[str, str], bills: list[Told], invoices: list[Told]) -> Iterator[str]:
    """Of one request at one lab, which may have been asked twice: a second attempt may begin an answer anew there."""
    amount, told = sum(each["billed_nano_usd"] for each in invoices), f"{bills} {invoices}"
    if len(invoices) > len(bills):
        yield f"{where}: no bill for an invoice: {told}"
    if len(invoices) < sum(bill["outcome"] in ("won", "kept") for bill in bills):
        yield f"{where}: an answer of which no lab knows: {told}"
    if _is_exact(bills) and _sum(bills, "nanousd") != amount:
        yield f"{where}: exactly {_sum(bills, 'nanousd')}, and the invoice is {amount}: {told}"
    most = None if any(bill["most"] is None for bill in bills) else _sum(bills, "most")
    if not _sum(bills, "least") <= amount or (most is not None and amount > most):
        yield f"{where}: between {_sum(bills, 'least')} and {most}, and the invoice is {amount}: {told}"


def _sum(bills: Iterable[Told], key: str) -> int:
    return sum(bill[key] for bill in bills)


def requests(count: int, seed: int) -> Iterator[tuple[str, bytes, float | None]]:
    """The path, the request without its key, and after how many seconds its client leaves, if it does."""
    chance = random.Random(seed)
    for number in range(count):
        route, stream = chance.choice([*ROUTES]), chance.random() < 0.6
        text = " ".join(f"word{chance.randrange(1000)}" for _ in range(chance.randrange(1, 60)))
        limit: Config = {"max_tokens": chance.randrange(1, 40)} if chance.random() < 0.6 else {}
        messages = [{"role": "user", "content": f"{number}: {text}"}]
        kinds: list[tuple[str, Config]] = [
            ("/v1/chat/completions", {"messages": messages, "stream": stream, **limit}),
            ("/v1/messages", {"messages": messages, "stream": stream, "max_tokens": 30}),
            ("/v1/responses", {"input": text, "stream": stream, "store": False}),
            ("/v1/embeddings", {"input": text}),
        ]
        path, body = chance.choices(kinds, [6, 2, 2, 1])[0]
        leaves = chance.uniform(0.0, 0.12) if chance.random() < 0.15 else None
        yield path, json.dumps({"model": route, **body}).encode(), leaves


async def ask(address: tuple[str, int], path: str, body: bytes, name: str, leaves: float | None) -> None:
    """One request on a connection of its own, read to its end or left."""
    reader, writer = await asyncio.open_connection(*address)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
    mark = f"x-lab-key: {name}\r\nx-hedgerow-request-id: {name}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write((head + mark).encode() + body)
    try:
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(leaves):
                while await reader.read(65_536):
                    pass
    finally:
        writer.transport.abort()


def settings(labs: Mapping[str, LabProcess], event_log: str, ledger: Config) -> Config:
    """Nothing keeps attempts back: every request is hedged that is late, and tried where it can be."""
    plain = {
        "protocol": ["openai", "anthropic"],
        "breaker": {"failure_ratio": "off"},
        "price": {"input": 0.25, "output": 2},
        "connections": {"connect_timeout": "5s"},
    }
    targets = {name: {**plain, "base_url": lab.base_url, **LABS[name][1]} for name, lab in labs.items()}
    hedge = {"budget": "off", "outage": {"max_tokens": 1000, "both_slow": "off"}}
    late = {"delay": "60ms", "max_hedges": 2}
    limits = {"failover": {"budget": "off"}, "timeouts": {"first_token": "500ms", "stall": "500ms", "total": "5s"}}
    return {
        "targets": {**targets, "dead": {**plain, "base_url": "http://127.0.0.1:1/v1"}},
        "routes": {
            name: {**limits, **route, "hedge": {**hedge, **route.get("hedge", late)}} for name, route in ROUTES.items()
        },
        "server": {"listen": "127.0.0.1:0", "event_log": event_log, "log_level": "error", "ledger": ledger},
    }


def play(count: int, folder: Path, *, seed: int = 1) -> Books:
    """So many requests; both sides' books when all of them are closed."""
    books = Books()
    log, ledger = folder / "events.jsonl", f"sqlite:///{folder / 'ledger.db'}"
    times = ["--p50-ms", "40", "--p95-ms", "120", "--gap-ms", "3", "--tokens", "20", "--seed", str(seed)]
    with ExitStack() as stack:
        labs = {
            name: stack.enter_context(LabProcess(["--name", name, *times, *options]))
            for name, (options, _) in LABS.items()
        }
        with GatewayProcess(settings(labs, str(log), {"url": ledger})) as gateway:
            for start in range(0, count, LOG_LENGTH // 4):  # a lab remembers so many requests, and gets fewer of them
                known = {name: lab.stats()["requests"] for name, lab in labs.items()}
                asyncio.run(_some(gateway.address, start, min(count, start + LOG_LENGTH // 4), seed))
                until(lambda: all(lab.stats()["open"] == 0 for lab in labs.values()), within=30.0)
                for name, lab in labs.items():
                    for record in lab.log(after=known[name] - 1):
                        books.invoices.setdefault((name, record["key"]), []).append(record)
    books.read(map(json.loads, log.read_text().splitlines()))
    books.rows.update(_rows(ledger))
    return books


async def _some(address: tuple[str, int], start: int, end: int, seed: int) -> None:
    waiting = [(f"r-{start + number}", *each) for number, each in enumerate(requests(end - start, seed + start))][::-1]

    async def work() -> None:
        while waiting:
            name, path, body, leaves = waiting.pop()
            await ask(address, path, body, name, leaves)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def main(arguments: Sequence[str]) -> int:
    """Play, and say what came of it."""
    import tempfile

    count = int(arguments[0]) if arguments else 2_000
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        books = play(count, Path(folder))
    problems = list(books.problems())
    least, guess, said, unbounded = books.others
    print(f"{len(books.billed)} requests, {sum(map(len, books.bills.values()))} attempts", end=", ")
    print(f"{sum(map(len, books.invoices.values()))} invoices, {time.monotonic() - started:.0f} s")
    print(f"outcomes: {dict(books.outcomes)}, certainty: {dict(books.certainties)}")
    print(f"ledger: {books.rows.total()} attempts, {sum(row[5] or 0 for row in books.rows.elements())} nano-dollars")
    print("exact: {} nano-dollars billed, {} on the invoices".format(*books.exact))
    print(f"others: at least {least}, guessed {guess}, on the invoices {said}; {unbounded} have no upper bound")
    print(f"{len(problems)} problems", *problems[:20], sep="\n  ")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
