"""What holds a key, a prompt or an answer shows none of it: not in a traceback, nor in what asyncio logs of a call."""

from __future__ import annotations

import pytest
from rich.pretty import pretty_repr

from hedgerow.answer import Answer
from hedgerow.config import loads
from hedgerow.events import AttemptEnded, Failure, FailureClass, Outcome, Role
from hedgerow.gateway import answers, headers
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.party import Told
from hedgerow.http.proxy import Proxy
from hedgerow.ledger.record import Content, Part
from hedgerow.ledger.rows import ContentRow
from hedgerow.policy.alternatives import Saying
from hedgerow.transports.targets import HttpTarget
from hedgerow.wire.base import Accepted

MARK = "SECRET"
FIELDS = [(b"authorization", b"Bearer SECRET"), (b"x-api-key", b"SECRET"), (b"x-any", b"SECRET")]
FAILURE = Failure(FailureClass.UPSTREAM_AUTH, "error 401", 401, [(b"x", b"SECRET")], b"SECRET")
SETTINGS = loads(
    """
    targets:
      a: {base_url: "https://a.example/v1", api_keys: [SECRET-1, SECRET-2], headers: {x-team: SECRET},
          proxy: "http://me:SECRET@proxy:3128"}
      b: {base_url: "https://b.example/v1", api_key: SECRET}
    routes: {fast: {targets: [a, b], losers: keep, hedge: {mode: race}}}
    server:
      api_keys: [SECRET]
      admin: {token: SECRET-of-16-letters}
      metrics: {token: SECRET-of-16-letters-too}
      redis: redis://:SECRET@host/0
      ledger: {url: "postgresql://me:SECRET@host/x"}
      traces: {headers: {authorization: SECRET}}
    """,
    {},
)
BLUEPRINT = blueprint_of(SETTINGS)


@pytest.mark.parametrize(
    "holder",
    [
        SETTINGS,
        BLUEPRINT,
        BLUEPRINT.server,
        BLUEPRINT.server.traces,
        BLUEPRINT.server.ledger,
        BLUEPRINT.targets["a"],
        BLUEPRINT.targets["a"].pool,
        BLUEPRINT.targets["a"].more_keys[0],
        Proxy.of("http://me:SECRET@proxy:3128"),
        headers.read(FIELDS),
        FAILURE,
        AttemptEnded("r", 0, "a", Role.PRIMARY, Outcome.FAILED, 0.0, None, None, 1.0, 401, 0, FAILURE),
        Answer("SECRET", refusal="SECRET"),
        answers.Answer(200, b"x: SECRET", b"SECRET"),
        Accepted(b"SECRET"),
        Content(1, 0, Part.ANSWER, b"SECRET", 6),
        ContentRow(1, 1, 0, "answer", "SECRET", 6, False),
        Told(200, FIELDS, b"SECRET", True, [b"SECRET"]),
        Saying("r", 0, "a", Role.PRIMARY, True, None, 1.0, 1.0, Answer("SECRET")),
        HttpTarget(base_url="https://a.example/v1", api_key="SECRET", headers={"x": "SECRET"}),
    ],
    ids=lambda holder: type(holder).__module__ + "." + type(holder).__name__,
)
def test_it_is_not_shown(holder: object) -> None:
    assert MARK not in f"{holder!r} {holder} {[holder]} {pretty_repr(holder)}"
