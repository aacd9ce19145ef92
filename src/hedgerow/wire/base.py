"""The one small interface behind which each wire protocol lives.

A `Protocol` object is stateless and shared. Per attempt it hands out a `Scanner`, which is fed the body as it arrives:
first through `feed` until there is a verdict, then, if the attempt was committed, through `watch` until the end.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from enum import StrEnum

import msgspec

from hedgerow.answer import Answer
from hedgerow.events import Failure, Headers, Usage
from hedgerow.unshown import Unshown
from hedgerow.wire import failures
from hedgerow.wire.override import Tree, override
from hedgerow.wire.reading import BodyReading, Reading, text_of
from hedgerow.wire.words import Words

if typing.TYPE_CHECKING:
    from hedgerow.wire.continuing import Continuation


class Family(StrEnum):
    """Protocols that one kind of server speaks, with one way to present a key."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    HTTP = "http"


KEY_HEADERS = {Family.ANTHROPIC: "x-api-key", Family.GEMINI: "x-goog-api-key"}
"""Where a family's servers look for a key, unless it is in `authorization`."""


class Accepted(Unshown, msgspec.Struct, frozen=True, gc=False):
    """The first token (for a non-streaming answer: the whole adequate body) is here.

    `instead` is the whole answer in the form that was asked for, where it came in the other one (a JSON document
    instead of a stream, or the reverse): it is delivered in place of what came. Only `Scanner.eof` sets it.
    """

    instead: bytes | None = None


ACCEPTED = Accepted()
Verdict = Accepted | Failure


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a committed answer ended: `failure` is None when it was whole by its protocol's own end marker."""

    failure: Failure | None
    usage: Usage | None


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What the gateway needs to know of a request.

    `forbids_hedge` says in a few words why a second attempt must never be started by delay (side effects), None if it
    may. `needs` are the things that a route must allow before one may be: "n", "audio", "store". `max_output_tokens` is
    the client's own limit, if any, for each of so many `answers`; `inputs` how many texts are to be embedded.
    `wants_usage` is False where the protocol's streams report usage only on demand and the client made none;
    `has_options` where it said anything that such a demand would have to be put into. `service_tier` is the client's
    wish, if it is a string.
    """

    model: str | None
    stream: bool
    forbids_hedge: str | None = None
    max_output_tokens: int | None = None
    needs: tuple[str, ...] = ()
    inputs: int | None = None
    wants_usage: bool = True
    has_options: bool = False
    service_tier: str | None = None
    answers: int = 1


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
        """The body ended (`clean`), broke off or was given up (not `clean`).

        The usage is right at any time, before commit too: what the attempt reported or sent until then. Where it
        reported nothing, the output is estimated from what came, and the input is not known here.
        """

    def words(self) -> Words:
        """What the upstream has said of its answer; asked after `ending`."""

    def tier(self) -> str | None:
        """As in `words`, by a quick look."""


class Protocol(ABC):
    """One wire protocol, e.g. OpenAI chat completions."""

    name: typing.ClassVar[str]
    """As in metrics and events, e.g. "openai.chat"."""
    family: Family
    hedgeable: typing.ClassVar[bool] = True
    """False: the request goes to the route's primary only, whatever happens."""
    accepts_head: typing.ClassVar[bool] = False
    """True: the response head alone decides, with any status; the body is not judged before commit."""
    asks_for_usage: typing.ClassVar[bool] = False
    """True: streams report usage only where the request asks for it, which `rewrite` can."""
    retargets: typing.ClassVar[bool] = False
    """True: the path and query say more than the endpoint."""
    converts: typing.ClassVar[bool] = False
    """True: `as_document` and `as_stream` are there."""

    @abstractmethod
    def facts(self, target: bytes, body: bytes) -> Facts:
        """What is known of a request to `target` (path and query) with this body.

        Raises `RequestError` (400) when it cannot be understood well enough to route it.
        """

    @abstractmethod
    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body to send upstream: the bytes unchanged but for `model` (None: keep the client's).

        `usage` asks a stream to report usage, `stream` asks for a stream where the client did not.
        """

    def override(self, body: bytes, tree: Tree) -> bytes:
        """The body with a target's own fields, where this protocol's bodies have any that are a matter of taste."""
        return override(body, tree)

    def retarget(self, target: bytes, facts: Facts, model: str | None, *, stream: bool = False) -> bytes:
        """The path and query to ask for, where they say more than the endpoint; as `rewrite` for bodies."""
        return target

    @abstractmethod
    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for one attempt's 2xx answer with these response headers.

        Without `reasoning_counts` the model's reasoning is not yet a first token.
        """

    def classify(self, status: int, headers: Headers, body: bytes) -> Failure:
        """What a non-2xx answer means; the failure carries status, headers and body unchanged."""
        return failures.classify(status, headers, body)

    @abstractmethod
    def error_body(
        self, status: int, message: str, *, kind: str, code: str | None = None, param: str | None = None
    ) -> bytes:
        """A JSON error in this protocol's shape, for when no upstream answered."""

    @abstractmethod
    def error_frame(self, failure: Failure) -> bytes:
        """An in-stream error in this protocol, sent after commit when the winner broke off."""

    def answer(self, document: bytes) -> Answer:
        """What a gate sees of a whole answer that is no stream. Never raises: of strange bytes there is no text."""
        return text_of(document)

    def reading(self) -> Reading:
        """What a gate sees of a stream while it comes."""
        return BodyReading()

    def answer_so_far(self, stream: bytes) -> Answer:
        """What a gate sees of a stream, or of the start of one, which may end anywhere. Never raises.

        It is `complete` once the protocol's own end has come; then it equals `answer(as_document(stream))`.
        """
        reading = self.reading()
        reading.feed(stream)
        reading.end()
        return reading.answer()

    def continuation(self) -> Continuation | None:
        """What continues a stream that breaks off; None where that cannot be."""
        return None

    def as_document(self, stream: bytes) -> bytes:
        """The JSON document that a whole stream amounts to. Raises `ValueError` where it is not whole or not clear."""
        raise ValueError(f"{self.name} has no document for a stream")

    def as_stream(self, document: bytes) -> bytes:
        """The stream that a whole document amounts to. Raises `ValueError` where it is no answer of this protocol."""
        raise ValueError(f"{self.name} has no stream for a document")
