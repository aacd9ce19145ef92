"""Idempotency keys: whose one is, and which one each attempt is sent with.

The key of a client is never sent twice: a provider that takes it would answer a hedge with the attempt it was to beat.
"""

from __future__ import annotations

from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING

import msgspec

from hedgerow.gateway.headers import Incoming

if TYPE_CHECKING:
    from hedgerow.gateway.target import Target


def scoped(incoming: Incoming, tenant: str) -> Incoming:
    """With the `scope` of this tenant's key: two clients that happen to choose the same one do not share answers."""
    scope = blake2b(tenant.encode() + b"\0" + incoming.key, digest_size=16)
    return msgspec.structs.replace(incoming, scope=scope.digest())


def for_attempt(
    incoming: Incoming, target: Target, request_id: str, attempt: int, rest: bytes | None = None
) -> Incoming:
    """With the idempotency key that this attempt is sent with, if any.

    A target that takes keys gets one for each attempt: `<request_id>-<attempt>`, or one that a client which asks again
    with its own key comes to again, whatever process it reaches. To others the client's own goes with the first.
    What goes on with an answer that broke off is another question each time: its body, `rest`, is part of the key.
    """
    if target.key_field:
        stem = request_id
        if incoming.request_id:
            stem = token_hex(12)  # another client may have chosen that name, and the provider knows us all as one
        if incoming.scope:
            asked = b"" if rest is None else b"\0" + rest
            stem = blake2b(incoming.scope + target.name.encode() + asked, digest_size=16).hexdigest()
        line = b"%b: %b-%d\r\n" % (target.key_field, stem.encode(), attempt)
    elif incoming.key and attempt == 0:
        line = b"idempotency-key: %b\r\n" % incoming.key
    else:
        return incoming
    return msgspec.structs.replace(incoming, forward=incoming.forward + line)
