"""The requests of a probe, in the API of its target."""

from __future__ import annotations

import msgspec

from hedgerow.gateway.blueprint import TargetBlueprint
from hedgerow.gateway.build import Site
from hedgerow.gateway.headers import Incoming
from hedgerow.gateway.target import Target
from hedgerow.http.upstream import Call, Sink
from hedgerow.wire import lookup
from hedgerow.wire.base import Facts, Family, Protocol
from hedgerow.wire.override import Tree, tree_of

PROMPT = "Count from one to one thousand in English words, separated by commas. Begin at once; write nothing else. ({})"
PROMPT_TOKENS = 40
"""About what the prompt comes to."""
FAMILIES = (Family.OPENAI, Family.ANTHROPIC, Family.GEMINI)
_PATHS = {
    Family.OPENAI: b"/v1/chat/completions",
    Family.ANTHROPIC: b"/v1/messages",
    Family.GEMINI: b"/v1beta/models/%b:%b",
}
_LIMITS = {
    Family.OPENAI: "max_tokens",
    Family.ANTHROPIC: "max_tokens",
    Family.GEMINI: "generationConfig.maxOutputTokens",
}
NEWER_LIMIT = "max_completion_tokens"
"""What OpenAI's reasoning models take in place of `max_tokens`."""


class Asked(msgspec.Struct, frozen=True):
    """One request: what it asks for and how its answer is read."""

    protocol: Protocol
    facts: Facts
    path: bytes
    body: bytes


class Asking:
    """Makes requests to one target and sends them just as the gateway would."""

    def __init__(self, blueprint: TargetBlueprint, site: Site, family: Family, model: str) -> None:
        self._blueprint = blueprint
        self._target: Target = site.seen_by(family, 0)
        self.family = family
        self.model = model
        own = {name.partition(".")[0] for name, _ in blueprint.override}
        self.limit = NEWER_LIMIT if family is Family.OPENAI and NEWER_LIMIT in own else _LIMITS[family]

    def ask(self, *, stream: bool, tokens: int, nonce: str) -> Asked:
        """A request for an answer that is longer than `tokens`, its limit. `nonce` keeps caches of answers out."""
        path = _PATHS[self.family]
        prompt = PROMPT.format(nonce)
        body: dict[str, object]
        if self.family is Family.GEMINI:
            body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
            path %= (self.model.encode(), b"streamGenerateContent?alt=sse" if stream else b"generateContent")
        else:
            body = {"model": self.model, "stream": stream, "messages": [{"role": "user", "content": prompt}]}
        protocol, raw = lookup(b"POST", path), msgspec.json.encode(body)
        if self._target.override is not None:
            raw = protocol.override(raw, self._target.override)
        limit: Tree = tree_of(((self.limit, msgspec.json.encode(tokens)),))
        raw = protocol.override(raw, limit)
        facts = protocol.facts(path, raw)
        usage = protocol.asks_for_usage and stream and self._blueprint.stream_usage
        return Asked(protocol, facts, path, protocol.rewrite(raw, facts, None, usage=usage))

    def send(self, sink: Sink, asked: Asked, headers: bytes = b"") -> Call:
        """Send it, once: a probe that is sent twice would count twice. `headers` are further fields, CRLF-ended."""
        version = b"anthropic-version: 2023-06-01\r\n" if self.family is Family.ANTHROPIC else b""
        incoming = Incoming(b"content-type: application/json\r\n" + version + headers, None, opted_out=False)
        return self._target.send(
            sink, method=b"POST", target=asked.path, incoming=incoming, body=asked.body, resend=False
        )
