"""A simulated provider's books: what it generated, what that would cost, who left when.

Times are seconds on the loop's clock. That is CLOCK_MONOTONIC, so on one machine times from different processes can be
compared; uvloop's clock moves in steps of a millisecond.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

import msgspec

LOG_LENGTH = 20_000
KEYS_REMEMBERED = 200_000
_NANO = 1_000_000_000


class Ending(StrEnum):
    """How a request at the provider ended, as the provider sees it."""

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    """By a fault of the provider's own: an error status, a cut, an error frame, a clean close too early."""
    CANCELLED_BEFORE_HEADERS = "cancelled_before_headers"
    CANCELLED_BEFORE_TOKEN = "cancelled_before_token"
    CANCELLED_MID_STREAM = "cancelled_mid_stream"


class OnCancel(StrEnum):
    """What a request costs whose client has left."""

    FULL = "full"
    """As much as if it had stayed."""
    GENERATED = "generated"
    """Its prompt and what was generated."""
    INPUT = "input"
    """Its prompt."""
    NONE = "none"
    """Nothing."""


class Record(msgspec.Struct, kw_only=True):
    """One request. Times are None where it did not get that far.

    `seen` counts earlier requests with the same key. `ttft` is the planned time to first token in seconds, already
    divided by the lab's speed; None for an answer that is an error. `tokens` have been generated of the `planned` ones,
    `input_tokens` is an estimate (4 characters a token), `cached_tokens` of them came from a cache, as it says;
    `billed_nano_usd` is known at the end. `left_at` is when the client was seen to
    have gone, `tokens_after` have been generated since.
    """

    seq: int
    key: str
    seen: int
    model: str
    stream: bool
    input_tokens: int
    started_at: float
    ttft: float | None = None
    headers_at: float | None = None
    first_token_at: float | None = None
    left_at: float | None = None
    closed_at: float | None = None
    ending: Ending = Ending.OPEN
    status: int | None = None
    fault: str | None = None
    cached_tokens: int = 0
    planned: int = 0
    tokens: int = 0
    tokens_after: int = 0
    billed_nano_usd: int = 0


@dataclass(frozen=True, slots=True)
class Prices:
    """Nano-dollars per million tokens, so that money stays in integers."""

    input: int
    output: int
    cached: int

    @classmethod
    def usd_per_million(cls, input_price: float, output_price: float, cached_price: float | None = None) -> Prices:
        """From the usual notation, e.g. 0.25 and 2.0 dollars per million tokens; cached ones as others if left out."""
        cached = input_price if cached_price is None else cached_price
        return cls(*(round(price * _NANO) for price in (input_price, output_price, cached)))

    def bill(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int:
        """Nano-dollars, rounded half up; the cached tokens are among those of the input."""
        read = (input_tokens - cached_tokens) * self.input + cached_tokens * self.cached
        return (read + output_tokens * self.output + 500_000) // 1_000_000


class Stats(msgspec.Struct, kw_only=True):
    """Counters since start or reset. Tokens and money count when a request is over; `open` are not over yet.

    Each of `requests` is either open or in exactly one of completed, failed and the three cancelled. `tokens_wasted`
    were generated for requests that were cancelled, and are among `tokens_generated`; of them `tokens_after_cancel`
    after their clients had gone, for `ran_on` requests. `other_requests` were not for the model: lists of models, and
    what is only echoed.
    """

    requests: int = 0
    open: int = 0
    most_open: int = 0
    completed: int = 0
    failed: int = 0
    cancelled_before_headers: int = 0
    cancelled_before_token: int = 0
    cancelled_mid_stream: int = 0
    input_tokens: int = 0
    tokens_generated: int = 0
    tokens_wasted: int = 0
    ran_on: int = 0
    tokens_after_cancel: int = 0
    billed_nano_usd: int = 0
    billed_wasted_nano_usd: int = 0
    other_requests: int = 0


class Accounts:
    """The books from one reset to the next; a request is closed in the books it was opened in."""

    __slots__ = ("_on_cancel", "_prices", "_seen", "log", "stats")

    def __init__(self, prices: Prices, on_cancel: OnCancel = OnCancel.GENERATED) -> None:
        self._prices = prices
        self._on_cancel = on_cancel
        self._seen: dict[str, int] = {}
        self.stats = Stats()
        self.log: deque[Record] = deque(maxlen=LOG_LENGTH)

    def open(self, *, key: str, model: str, stream: bool, input_tokens: int, now: float) -> Record:
        """A request has come in."""
        stats = self.stats
        seen = self._seen.get(key, 0)
        self._seen[key] = seen + 1
        if len(self._seen) > KEYS_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        record = Record(
            seq=stats.requests,
            key=key,
            seen=seen,
            model=model,
            stream=stream,
            input_tokens=input_tokens,
            started_at=now,
        )
        self.log.append(record)
        stats.requests += 1
        stats.open += 1
        stats.most_open = max(stats.most_open, stats.open)
        return record

    def close(self, record: Record, ending: Ending, now: float) -> None:
        """A request is over. One refused with an error status costs nothing; any other its input and its tokens.

        One whose client has left costs what `OnCancel` says.
        """
        stats = self.stats
        record.ending = ending
        record.closed_at = now
        stats.open -= 1
        if record.status is None or record.status < 400:
            record.billed_nano_usd = self._bill(record, ending)
            stats.input_tokens += record.input_tokens
        stats.tokens_generated += record.tokens
        stats.billed_nano_usd += record.billed_nano_usd
        match ending:
            case Ending.COMPLETED:
                stats.completed += 1
                return
            case Ending.FAILED:
                stats.failed += 1
                return
            case Ending.CANCELLED_BEFORE_HEADERS:
                stats.cancelled_before_headers += 1
            case Ending.CANCELLED_BEFORE_TOKEN:
                stats.cancelled_before_token += 1
            case Ending.CANCELLED_MID_STREAM:
                stats.cancelled_mid_stream += 1
            case Ending.OPEN:
                raise ValueError("a closed request cannot be open")
        stats.tokens_wasted += record.tokens
        stats.tokens_after_cancel += record.tokens_after
        stats.ran_on += record.closed_at != record.left_at
        stats.billed_wasted_nano_usd += record.billed_nano_usd

    def _bill(self, record: Record, ending: Ending) -> int:
        tokens = record.tokens
        if ending not in (Ending.COMPLETED, Ending.FAILED):
            match self._on_cancel:
                case OnCancel.NONE:
                    return 0
                case OnCancel.INPUT:
                    tokens = 0
                case OnCancel.FULL:
                    tokens = record.planned
        return self._prices.bill(record.input_tokens, tokens, record.cached_tokens)
