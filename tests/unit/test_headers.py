"""What a client's header fields come to."""

from __future__ import annotations

import pytest

from hedgerow.gateway.access import Access
from hedgerow.gateway.headers import read, tenant_of


@pytest.mark.parametrize("written", [b"Bearer key-1", b"bearer key-1", b"BEARER  key-1 ", b"Bearer\x20\tkey-1"])
def test_a_key_is_one_tenant_however_it_is_written(written: bytes) -> None:
    Access(["key-1"]).check(written)
    assert tenant_of(written) == tenant_of(read([(b"x-api-key", b"key-1")]).authorization)
    assert tenant_of(written) != tenant_of(b"Bearer KEY-1")


def test_who_sends_no_key_is_a_tenant_too() -> None:
    assert tenant_of(None) == ""
