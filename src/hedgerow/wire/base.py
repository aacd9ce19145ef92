"""The one small interface behind which each wire protocol lives.

A `Protocol` object is stateless and shared. Per attempt it hands out a `Scanner`, which is fed the body as it arrives:
first through `feed` until there is a verdict, then, if the attempt was committed, through `watch` until the end.
"""

from __future__ import annotations

import typing

import msgspec

from hedgerow.events import Failure, Headers, Usage


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The first token (for a non-streaming answer: the whole adequate body) is here."""


ACCEPTED = Accepted()
Verdict = Accepted | Failure


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a committed answer ended: `failure` is None when it was whole by its protocol's own end marker."""

    failure: Failure | None
    usage: Usage | None


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What the gateway needs to know of a request body.

    `forbids_hedge` says in a few words why a second attempt must not be started by delay (side effects), None if it
    may. `max_output_tokens` is the client's own limit, if any.
    """

    model: str | None
    stream: bool
    forbids_hedge: str | None = None
    max_output_tokens: int | None = None


class Scanner(typing.Protocol):
    """Reads one attempt's 2xx body."""

    @property
    def sign(self) -> int | None:
        """A byte of the protocol's end marker; None where there is no end to look for: `feed` and `watch` say nothing.

        Pieces without it may be collected and watched as one: nobody waits for what they say.
        """

    def feed(self, data: bytes) -> Verdict | None:
        """Before commit: a piece of the body; None while undecided. Not called again after a verdict."""

    def eof(self, held: bytes) -> Verdict:
        """Before commit: the body ended undecided; `held` is all of it."""

    def watch(self, data: bytes) -> bool:
        """After commit: another piece; True once the protocol's end marker has been seen.

        The piece in which `feed` found the first token is not passed again: `watch(b"")` right after commit tells
        whether it already held the marker.
        """

    def ending(self, clean: bool) -> Ending:
        """After commit: the body ended (`clean`) or broke off (not `clean`).

        The usage is also right after a failed verdict: what the attempt reported until then.
        """


class Protocol(typing.Protocol):
    """One wire protocol, e.g. OpenAI chat completions."""

    name: str
    """As in metrics and events, e.g. "openai.chat"."""
    hedgeable: bool
    """False: the request goes to the route's primary only, whatever happens."""
    accepts_head: bool
    """True: the response head alone decides, with any status; the body is not judged before commit."""

    def facts(self, body: bytes) -> Facts:
        """Raises `RequestError` (400) when the body cannot be understood well enough to route it."""

    def rewrite(self, body: bytes, facts: Facts, model: str | None) -> bytes:
        """The body to send upstream: the bytes unchanged but for `model` (None: keep the client's)."""

    def scanner(self, facts: Facts, headers: Headers) -> Scanner:
        """A scanner for one attempt's 2xx answer with these response headers."""

    def classify(self, status: int, headers: Headers, body: bytes) -> Failure:
        """What a non-2xx answer means; the failure carries status, headers and body unchanged."""

    def error_body(
        self, status: int, message: str, *, kind: str, code: str | None = None, param: str | None = None
    ) -> bytes:
        """A JSON error in this protocol's shape, for when no upstream answered."""

    def error_frame(self, failure: Failure) -> bytes:
        """An in-stream error in this protocol, sent after commit when the winner broke off."""
