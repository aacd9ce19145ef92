"""One request as the policy sees it: what delays and guards may depend on."""

from __future__ import annotations

from math import inf

import msgspec

EXPECTED_OUTPUT = 500
"""Tokens that an answer is expected to have where the client set no limit."""


class Ask(msgspec.Struct, frozen=True, gc=False):
    """Times are seconds on the caller's clock.

    `input_tokens` is an estimate from the size of the body. `max_output_tokens` is the client's own limit, None where
    it set none. `deadline_at` is when the answer must be whole. `replayable` is False for a request that must not take
    effect twice. `tenant` names whose budget it is: a fingerprint of the client's key, "" without one. `traits` are the
    conditions of the route (`only_if`) that the request meets, by name. `model` is the one that the client named.
    `session` is what the request belongs to, "" where it is not known or does not matter. `needs`: what not every
    target can do, and `context`: about the tokens of prompt and longest answer, where they matter; else nothing and 0.
    """

    request_id: str
    stream: bool
    input_tokens: int = 0
    max_output_tokens: int | None = None
    started_at: float = 0.0
    deadline_at: float = inf
    replayable: bool = True
    tenant: str = ""
    traits: frozenset[str] = frozenset()
    model: str = ""
    session: str = ""
    needs: frozenset[str] = frozenset()
    context: int = 0

    @property
    def expected_output(self) -> int:
        """Tokens that its answer may have, or is expected to."""
        return EXPECTED_OUTPUT if self.max_output_tokens is None else self.max_output_tokens
