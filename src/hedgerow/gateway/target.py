"""A target at run time: where it is, how to talk to it, and the pool of connections to it."""

from __future__ import annotations

from hedgerow.gateway.headers import without
from hedgerow.hedger import Place
from hedgerow.http.client import Pool
from hedgerow.http.head import field_lines, fields_in
from hedgerow.http.upstream import Call, Sink

_SAFE = (b"GET", b"HEAD", b"OPTIONS")


class Target:
    """One configured target.

    `base_path` is the path of its base URL (what stands for the client's `/v1`), `authorization` its key as a header
    value; None together with `passthrough` sends the client's own. `headers` are extra fields, CRLF-ended; the client's
    of the same names are not sent on.
    """

    __slots__ = (
        "_authorization",
        "_base_path",
        "_common",
        "_extra",
        "_heads",
        "_passthrough",
        "_pool",
        "mark",
        "model",
        "name",
        "place",
    )

    def __init__(
        self,
        place: Place,
        pool: Pool,
        *,
        host: bytes,
        base_path: bytes,
        model: str | None,
        authorization: bytes | None,
        passthrough: bool,
        headers: bytes,
    ) -> None:
        self.place = place
        self.name = place.candidate.target
        self.mark = field_lines([(b"x-hedgerow-target", self.name.encode())])
        self.model = model
        self._pool = pool
        self._base_path = base_path
        self._authorization = authorization
        self._passthrough = passthrough
        # We ask for identity: the first token is looked for in plain bytes, and chunks are forwarded as they come.
        self._common = b" HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\n%b" % (host, headers)
        self._extra = frozenset(name for name, _ in fields_in(headers))
        self._heads: dict[bytes, bytes] = {}

    def send(
        self,
        sink: Sink,
        *,
        method: bytes,
        target: bytes,
        forward: bytes,
        authorization: bytes | None,
        body: bytes,
        resend: bool,
    ) -> Call:
        """Start a request. `target` is the client's, `/v1/...` with its query; `forward` its fields, CRLF-ended.

        `resend` allows a second try on a fresh connection when a kept-alive one turns out to be closed; methods that
        change nothing may always have one.
        """
        start = self._heads.get(target) or self._start_line(target)
        if self._passthrough:
            start = start + b"authorization: %b\r\n" % authorization if authorization else start
        if self._extra:
            forward = without(forward, self._extra)
        if body or method in (b"POST", b"PUT", b"PATCH"):
            head = b"%b %b%bcontent-length: %d\r\n\r\n" % (method, start, forward, len(body))
        else:
            head = b"%b %b%b\r\n" % (method, start, forward)
        return self._pool.send(sink, head, body, method=method, resend=resend or method in _SAFE)

    def _start_line(self, target: bytes) -> bytes:
        """Everything of the head that depends on the request's target alone; kept for those without a query."""
        start = self._base_path + target[3:] + self._common
        if self._authorization is not None:
            start += b"authorization: %b\r\n" % self._authorization
        if b"?" not in target and len(self._heads) < 64:
            self._heads[target] = start
        return start

    async def close(self) -> None:
        """Close the pool."""
        await self._pool.close()
