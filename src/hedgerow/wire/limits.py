"""What an upstream says of its rate limits, from an answer's headers. Never raises, whatever they hold.

| upstream | names | reset |
|---|---|---|
| OpenAI, Groq | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` | Go duration: `20ms`, `6m0s`, `2m59.56s` |
| OpenAI | also `-project-tokens` and `-tokens_usage_based` | Go duration |
| Azure OpenAI | some of OpenAI's; -1 where it does not know | whole seconds |
| Cerebras, SambaNova | OpenAI's with `-minute`, `-hour`, `-day` | seconds with decimals, or a duration |
| DigitalOcean | OpenAI's with `-per-minute`, `-per-day` | seconds since the epoch |
| Mistral | `x-ratelimit-{limit,remaining}-{req,tokens}-{minute,month}`, or `[x-]ratelimitbysize-` | none, or seconds |
| OpenRouter, Together | `x-ratelimit-{limit,remaining,reset}`, of requests | milliseconds since the epoch, or seconds |
| Anthropic | `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-` with `limit` ... | RFC 3339 time |

Gemini and Bedrock report none. `resets_in` is the time until all of a limit is there again, as OpenAI and Anthropic
define it. A point in time is taken relative to the answer's own `date` header, so no clock is needed and the upstream's
may be wrong. Where one kind has several limits (per minute and per day, of a project and of its organisation), the one
counts of which the largest share is used up.

Sources: developers.openai.com/api/docs/guides/rate-limits, community.openai.com/t/541210 (usage based),
console.groq.com/docs/rate-limits, learn.microsoft.com/en-us/answers/questions/5625878 (Azure's -1),
inference-docs.cerebras.ai/support/rate-limits, platform.claude.com/docs/en/api/rate-limits,
docs.digitalocean.com/products/inference/reference/quota-specific-response-headers,
openrouter.ai/docs/api_reference/limits; Mistral's and SambaNova's names are those of recorded answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from operator import itemgetter

from hedgerow.events import Headers
from hedgerow.room import RateLimits, Room

MAX_RESET = 31 * 86_400.0
"""Seconds; a longer wait for a reset is taken as this."""

_WINDOWS = ("", "-minute", "-hour", "-day", "-month", "-per-minute", "-per-hour", "-per-day")
_KINDS = {
    "requests": "requests",
    "req": "requests",
    "tokens": "tokens",
    "tokens_usage_based": "tokens",
    "project-requests": "requests",
    "project-tokens": "tokens",
    "input-tokens": "input_tokens",
    "output-tokens": "output_tokens",
}


def _names() -> Iterator[tuple[str, tuple[str, str, int]]]:
    """Each header that is read: which kind of limit it is about, which limit of that kind, and which part of it."""
    for part, name in enumerate(("limit", "remaining", "reset")):
        for (what, kind), window in product(_KINDS.items(), _WINDOWS):
            yield f"x-ratelimit-{name}-{what}{window}", (kind, what + window, part)
        for window in _WINDOWS:
            yield f"x-ratelimitbysize-{name}{window}", ("tokens", "by size" + window, part)
        yield f"ratelimitbysize-{name}", ("tokens", "by size", part)
        yield f"x-ratelimit-{name}", ("requests", "", part)
        for what in ("requests", "tokens", "input-tokens", "output-tokens"):
            yield f"anthropic-ratelimit-{what}-{name}", (_KINDS[what], what, part)


_FIELDS = {name.encode(): field for name, field in _names()}
_has_none = frozenset(_FIELDS).isdisjoint
_name = itemgetter(0)

_DURATION_PART = re.compile(rb"(\d{1,9}(?:\.\d{1,9})?)(ms|us|\xc2\xb5s|ns|[dhms])")
_UNITS = {
    b"d": 86_400.0,
    b"h": 3_600.0,
    b"m": 60.0,
    b"s": 1.0,
    b"ms": 1e-3,
    b"us": 1e-6,
    b"\xc2\xb5s": 1e-6,
    b"ns": 1e-9,
}
_NUMBER = re.compile(rb"\d{1,15}(?:\.\d{1,15})?")
_EPOCH, _EPOCH_MS = 1e9, 1e11
"""Plain numbers from these on are points in time, in seconds and in milliseconds since 1970."""
_RFC_3339 = re.compile(rb"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d):(\d\d(?:\.\d{1,9})?)(?:[Zz]|([+-]\d\d):(\d\d))")
_IMF_DATE = re.compile(rb"[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT")
_MONTHS = {name: 1 + i for i, name in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())}


def rate_limits(headers: Headers) -> RateLimits | None:
    """The limits that these headers report; None when they report none that can be read.

    A limit is known by what remains of it: without a count of that it is left out. Costs well under 1 us when no such
    header is there, else 3 to 12 us.
    """
    if _has_none(map(_name, headers)):
        return None
    limits: dict[tuple[str, str], list[bytes]] = {}
    date = b""
    for name, value in headers:
        if (field := _FIELDS.get(name)) is not None:
            kind, which, part = field
            parts = limits.get((kind, which))
            if parts is None:
                parts = limits[kind, which] = [b"", b"", b""]
            parts[part] = value
        elif name == b"date":
            date = value
    rooms: dict[str, Room] = {}
    for (kind, _), (limit, remaining, reset) in limits.items():
        if (left := _count(remaining)) is not None:
            room = Room(left, _count(limit), _seconds(reset, date))
            if kind not in rooms or _used(room) > _used(rooms[kind]):
                rooms[kind] = room
    return RateLimits(**rooms) if rooms else None


def _used(room: Room) -> float:
    """Which share of its limit is used up; of a limit that is not told only all or nothing."""
    if room.limit:
        return 1.0 - room.remaining / room.limit
    return 0.0 if room.remaining else 1.0


def _count(value: bytes) -> int | None:
    return int(value) if value.isdigit() and len(value) <= 15 else None


def _seconds(reset: bytes, date: bytes) -> float | None:
    """Seconds until `reset`, in any of its forms; a point in time needs `date` to be told from."""
    until: float | None
    if reset[4:5] == b"-":
        until = _rfc_3339(reset)
    elif _NUMBER.fullmatch(reset):
        until = float(reset)
        if until < _EPOCH:
            return min(until, MAX_RESET)
        if until >= _EPOCH_MS:
            until /= 1000
    else:
        return _duration(reset)
    since = _imf_date(date)
    return None if until is None or since is None else min(max(until - since, 0.0), MAX_RESET)


def _duration(value: bytes) -> float | None:
    """A duration as Go's `Duration.String` writes it, or one that ends in days, hours or minutes."""
    seconds, read = 0.0, 0
    for part in _DURATION_PART.finditer(value):
        if part.start() != read:
            return None
        read = part.end()
        seconds += float(part[1]) * _UNITS[part[2]]
    return min(seconds, MAX_RESET) if read and read == len(value) else None


def _rfc_3339(value: bytes) -> float | None:
    """Seconds since the epoch."""
    found = _RFC_3339.fullmatch(value)
    if found is None:
        return None
    minute, second, hours, minutes = found.groups()
    if hours is None:
        return _minute(minute) + float(second)
    offset = int(hours) * 3600 + int(hours[:1] + minutes) * 60
    return _minute(minute) + float(second) - offset


@lru_cache(maxsize=16)
def _minute(value: bytes) -> int:
    """Seconds since the epoch of `2026-11-30T17:05`; a report's times seldom lie more than some minutes apart."""
    days = _days(int(value[:4]), int(value[5:7]), int(value[8:10]))
    return days * 86_400 + int(value[11:13]) * 3600 + int(value[14:16]) * 60


@lru_cache(maxsize=16)
def _imf_date(value: bytes) -> int | None:
    """Seconds since the epoch of a date as servers must write it (RFC 9110 §5.6.7); the same for a second on end."""
    found = _IMF_DATE.fullmatch(value)
    if found is None or (month := _MONTHS.get(found[2])) is None:
        return None
    days = _days(int(found[3]), month, int(found[1]))
    return days * 86_400 + int(found[4]) * 3600 + int(found[5]) * 60 + int(found[6])


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar; years count from March, so that leap days come last."""
    if month <= 2:
        year, month = year - 1, month + 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719_469
