"""The in-place model edit: the top-level model changes and not one other byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.wire.body import replace_model

MODEL_KEYS = [b'"model"', b'"mod\\u0065l"', b'"\\u006D\\u006fdel"']
OTHER_KEYS = st.sampled_from(
    [b'"stream"', b'"a\\"model\\""', b'"\\\\"', b'"mode"', b'"{"', b'"mod\\u0065"', b'"models"']
)
SCALARS = st.sampled_from(
    [
        b"null",
        b"true",
        b"-1.5e+9",
        b'""',
        b'"model"',
        b'"\\"model\\":\\"x\\""',
        b'"]}"',
        b'"\\\\"',
        b'"\\ud83d"',
        b'"\\\\\\""',
        "\u2028é".encode().join([b'"', b'"']),
    ]
)
BLANKS = st.sampled_from([b"", b"", b" ", b"\n\t", b"\r\n"])


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    keys = st.sampled_from(MODEL_KEYS) | OTHER_KEYS
    members = draw(st.lists(st.tuples(keys, BLANKS, BLANKS, values), max_size=3))
    return b"{" + b",".join(key + a + b":" + b + value for key, a, b, value in members) + b"}"


def arrays(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(values, max_size=3).map(lambda items: b"[" + b" , ".join(items) + b"]")


VALUES = st.recursive(SCALARS, lambda inner: objects(inner) | arrays(inner), max_leaves=6)


@st.composite
def bodies(draw: st.DrawFn, most: int) -> tuple[bytes, bytes]:
    """A body, and the same body with its models replaced by "new"."""
    others = draw(st.lists(st.tuples(OTHER_KEYS, VALUES, st.none()), max_size=4))
    models = draw(
        st.lists(
            st.tuples(st.sampled_from(MODEL_KEYS), st.sampled_from([b'"old"', b'"\\"}"', b'""']), st.just(b'"new"')),
            min_size=1,
            max_size=most,
        )
    )
    before, after = [], []
    for key, value, new in draw(st.permutations([*others, *models])):
        a, b, c, d = (draw(BLANKS) for _ in range(4))
        before.append(a + key + b + b":" + c + value + d)
        after.append(a + key + b + b":" + c + (new or value) + d)
    return b"{" + b",".join(before) + b"}", b"{" + b",".join(after) + b"}"


@given(bodies(most=1), st.booleans())
@example((b'{"model":"old"}', b'{"model":"new"}'), True)
def test_only_the_model_value_changes(body: tuple[bytes, bytes], unique: bool) -> None:
    before, after = body
    assert json.loads(before)  # the generator makes JSON
    assert replace_model(before, "new", unique=unique) == after


@given(bodies(most=3))
def test_every_top_level_model_is_replaced_when_keys_repeat(body: tuple[bytes, bytes]) -> None:
    before, after = body
    assert replace_model(before, "new") == after


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_model_name_reads_back_as_itself(model: str) -> None:
    assert json.loads(replace_model(b'{"model":"x"}', model, unique=True))["model"] == model


@pytest.mark.parametrize("model_first", [True, False])
def test_a_twelve_megabyte_body_keeps_its_bytes(model_first: bool) -> None:
    image = b'"messages":[{"model":"x","content":"' + b"QUJD" * 3_145_728 + b'"}]'
    members = [b'"model":"fast"', image] if model_first else [image, b'"model":"fast"']
    body = b"{" + b",".join(members) + b"}"
    assert replace_model(body, "gpt", unique=True) == body.replace(b'"fast"', b'"gpt"')
