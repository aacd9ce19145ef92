"""Edits in place: the top-level members that are meant change, and not one other byte."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.wire.body import asking_for_usage, edit, replace_model

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


def spellings(name: str) -> list[bytes]:
    first, last = name[0], name[-1]
    return [
        f'"{name}"'.encode(),
        f'"\\u{ord(first):04x}{name[1:]}"'.encode(),
        f'"{name[:-1]}\\u{ord(last):04X}"'.encode(),
        '"{}"'.format("".join(f"\\u{ord(letter):04x}" for letter in name)).encode(),
    ]


NAMES = ["model", "stream", "stream_options"]
NEARLY = st.sampled_from(
    [b'"Stream"', b'"x\\"stream"', b'"stream\\u005Foption"', b'"mode"', b'"\\\\stream"', b'"\\ud83d"']
)


@st.composite
def edits(draw: st.DrawFn, most: int) -> tuple[bytes, dict[str, bytes], bytes]:
    """A body, what to set in it, and the body with that set."""
    wanted = {name: draw(VALUES) for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))}
    members = [(key, old, old) for key, old in draw(st.lists(st.tuples(NEARLY, VALUES), max_size=3))]
    front = []
    for name in NAMES:
        times = draw(st.integers(0, most))
        for _ in range(times):
            old = draw(VALUES)
            members.append((draw(st.sampled_from(spellings(name))), old, wanted.get(name, old)))
        if not times and name in wanted:
            front.append(name)
    front.sort(key=list(wanted).index)
    inserted = b",".join(b'"%b":%b' % (name.encode(), wanted[name]) for name in front)
    before, after = [], []
    for key, old, new in draw(st.permutations(members)):
        a, b, c, d = (draw(BLANKS) for _ in range(4))
        before.append(a + key + b + b":" + c + old + d)
        after.append(a + key + b + b":" + c + new + d)
    lead, tail = draw(BLANKS), draw(BLANKS)
    comma = b"," if inserted and members else b""
    inner = draw(BLANKS) if not members else b""
    return (
        lead + b"{" + inner + b",".join(before) + b"}" + tail,
        wanted,
        lead + b"{" + inserted + comma + inner + b",".join(after) + b"}" + tail,
    )


@given(edits(most=1), st.booleans())
def test_members_are_set_in_place_or_put_in_front(case: tuple[bytes, dict[str, bytes], bytes], unique: bool) -> None:
    before, wanted, after = case
    assert edit(before, wanted, unique=unique) == after
    expected = json.loads(before) | {name: json.loads(value) for name, value in wanted.items()}
    assert json.loads(after) == expected


@given(edits(most=3))
def test_each_of_several_members_of_one_name_is_set(case: tuple[bytes, dict[str, bytes], bytes]) -> None:
    before, wanted, after = case
    assert edit(before, wanted) == after


@pytest.mark.parametrize(
    "tail", [b"}", b',"user":"bob"}', b', "seed" : -1 ,\n"user":""\n} \n', b',"a":[]}', b',"a":"\\""}']
)
@pytest.mark.parametrize("nested", [b"[]", b'[{"stream":1}]', b'"\\"stream\\":0}"'])
def test_a_member_near_the_end_is_found(tail: bytes, nested: bytes) -> None:
    body = b'{"messages":' + nested + b',"stream":%b' + tail
    assert edit(body % b"false", {"stream": b"true"}, unique=True) == body % b"true"


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":{"stream":false}}',
        b'{"messages":[{"stream":false}]}',
        b'{"m":"\\"stream\\":false}"}',
        b'{"m\\"stream":false}',
        b'{"a":"stream"}',
        b'{"b":"x,\\"stream\\":1","a":2}',
    ],
)
def test_what_looks_like_the_member_stays(body: bytes) -> None:
    assert edit(body, {"stream": b"true"}, unique=True) == b'{"stream":true,' + body[1:]


def test_umlauts_that_are_escaped_do_not_make_a_long_body_be_walked_through() -> None:
    message = b'{"role":"user","content":"Gr\\u00fc\\u00dfe"}'
    body = b'{"model":"m","messages":[' + b",".join([message] * 200_000) + b"]}"
    started = time.process_time()
    assert edit(body, {"stream": b"true", "stream_options": b"{}"}, unique=True) == (
        b'{"stream":true,"stream_options":{},' + body[1:]
    )
    assert time.process_time() - started < 0.5, "a tenth of that; several times as much if each string is looked at"


@pytest.mark.parametrize(
    ("options", "asking"),
    [
        (None, b'{"include_usage":true}'),
        (b"null", b'{"include_usage":true}'),
        (b"{}", b'{"include_usage":true}'),
        (b'{ "include_usage" : null }', b'{ "include_usage" : true }'),
        (b'{"include_obfuscation":false}', b'{"include_usage":true,"include_obfuscation":false}'),
        (b'{"a":{"include_usage":false}}', b'{"include_usage":true,"a":{"include_usage":false}}'),
        (b'"odd"', b'"odd"'),
    ],
)
def test_stream_options_ask_for_usage_and_keep_the_rest(options: bytes | None, asking: bytes) -> None:
    assert asking_for_usage(options) == asking
    body = b"{}" if options is None else b'{"m":"x","stream_options":' + options + b"}"
    told: dict[str, Any] = json.loads(edit(body, {"stream_options": asking_for_usage}))
    assert told["stream_options"] == json.loads(asking)
