"""What a client's header fields come to."""

from __future__ import annotations

import pytest

from hedgerow.gateway.access import Access
from hedgerow.gateway.headers import read, tenant_of


def tenant(*fields: tuple[bytes, bytes], checked: bool = False) -> str:
    return tenant_of(read(list(fields)), checked=checked)


DUMMY = (b"authorization", b"Bearer dummy")


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("written", [b"Bearer key-1", b"bearer key-1", b"BEARER  key-1 ", b"Bearer\x20\tkey-1"])
def test_a_key_is_one_tenant_however_it_is_written(written: bytes, checked: bool) -> None:
    Access(["key-1"]).check(written)
    one, field = tenant((b"authorization", written), checked=checked), (b"x-api-key", b"key-1")
    assert one == tenant(field, checked=checked) == tenant((b"authorization", written), field, checked=checked)
    assert one == tenant((b"api-key", b"key-1 "), checked=checked)
    assert one != tenant((b"authorization", b"Bearer KEY-1"), checked=checked)


def test_clients_with_the_same_dummy_in_one_field_are_told_apart_by_the_other() -> None:
    one, two = (b"x-api-key", b"one"), (b"x-api-key", b"two")
    assert len({tenant(DUMMY), tenant(DUMMY, one), tenant(DUMMY, two), tenant(one), tenant(two)}) == 5
    assert tenant(DUMMY, one) == tenant(one, DUMMY)


def test_nobody_has_a_second_budget_by_adding_fields_to_a_key_that_was_checked() -> None:
    assert tenant(DUMMY, checked=True) == tenant(DUMMY, (b"x-api-key", b"made-up"), checked=True)


def test_who_sends_no_key_is_a_tenant_too() -> None:
    assert tenant() == tenant(checked=True) == ""
