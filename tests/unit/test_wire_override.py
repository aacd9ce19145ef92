"""A target's own fields: set or removed in place, and not one other byte."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.wire import JSON_ENDPOINT, PROTOCOLS, lookup
from hedgerow.wire.override import fixed, override, tree_of, twin_of

TREE = tree_of([("a", b"1"), ("b", None), ("g.x", b"2"), ("g.y", None), ("h.z", None)])


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (b"{}", b'{"a":1,"g":{"x":2}}'),
        (b"{ }", b'{"a":1,"g":{"x":2} }'),
        (b'{"b":1}', b'{"a":1,"g":{"x":2}}'),
        (b'{"b":1,"c":2}', b'{"a":1,"g":{"x":2},"c":2}'),
        (b'{"c":2 , "b":[1] }', b'{"a":1,"g":{"x":2},"c":2 }'),
        (b'{ "b":1, "b":{},"c":{"a":0,"b":[{"b":1}]} }', b'{"a":1,"g":{"x":2}, "c":{"a":0,"b":[{"b":1}]} }'),
        (b'{"c" : 2.50 ,"b":1, "d":"b", "a" : "old" }', b'{"g":{"x":2},"c" : 2.50, "d":"b", "a" : 1 }'),
        (b'{"a":0,"g":{"w": 1,"y":2},"a":[]}', b'{"a":1,"g":{"x":2,"w": 1},"a":1}'),
        (b'{"\\u0061":0,"\\u0062":1,"g":{"x":9}}', b'{"\\u0061":1,"g":{"x":2}}'),
        (b'{"a":0,"g":null,"h":{"z":1}}', b'{"a":1,"g":{"x":2},"h":{}}'),
        (b'{"a":0,"g":"text","h":7}', b'{"a":1,"g":{"x":2},"h":7}'),
    ],
)
def test_what_is_named_changes_and_nothing_else(body: bytes, changed: bytes) -> None:
    assert override(body, TREE) == changed
    assert override(changed, TREE) == changed


NAMES = st.sampled_from(["a", "b", "c", "d", "é", "a\\"])
OBJECTS = st.dictionaries(NAMES, st.none() | st.text(max_size=3) | st.dictionaries(NAMES, st.integers(), max_size=3))


@given(OBJECTS, st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers()), st.booleans())
def test_any_object_comes_out_as_if_it_had_been_decoded(
    body: dict[str, object], fields: dict[str, int | None], spaced: bool
) -> None:
    separators = (" ,\n", " : ") if spaced else (",", ":")
    given_ = json.dumps(body, separators=separators, ensure_ascii=spaced).encode()
    tree = tree_of((name, None if value is None else b"%d" % value) for name, value in fields.items())
    wanted = {**body, **fields}
    for name in [name for name, value in fields.items() if value is None]:
        del wanted[name]
    assert json.loads(override(given_, tree)) == wanted


GEMINI = lookup(b"POST", b"/v1beta/models/m:generateContent")
LIMIT = tree_of([("generationConfig.maxOutputTokens", b"9"), ("safetySettings", None)])


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (b'{"contents":[]}', b'{"generationConfig":{"maxOutputTokens":9},"contents":[]}'),
        (b'{"generationConfig":{"topK":1}}', b'{"generationConfig":{"maxOutputTokens":9,"topK":1}}'),
        (b'{"generation_config":{"max_output_tokens":1}}', b'{"generation_config":{"max_output_tokens":9}}'),
        (
            b'{"safety_settings":[],"generationConfig":{"maxOutputTokens":1}}',
            b'{"generationConfig":{"maxOutputTokens":9}}',
        ),
    ],
)
def test_geminis_fields_are_spelled_as_the_client_spells_them(body: bytes, changed: bytes) -> None:
    assert GEMINI.override(body, LIMIT) == changed


@pytest.mark.parametrize(
    ("one", "other"), [("maxOutputTokens", "max_output_tokens"), ("topK", "top_k"), ("seed", "seed")]
)
def test_a_name_has_at_most_two_spellings(one: str, other: str) -> None:
    assert (twin_of(one), twin_of(other)) == (other, one)


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("stream", False, "stream"),
        ("stream_options.include_usage", True, "stream_options"),
        ("system_instruction", None, "system_instruction"),
        ("generationConfig.candidate_count", 2, "candidate_count"),
        ("generation_config", {"topK": 1, "responseModalities": ["AUDIO"]}, "responseModalities"),
        ("max_tokens", 5, None),
        ("reasoning.n", 5, None),
        ("generationConfig", {"topK": 1}, None),
        ("generationConfig", None, None),
    ],
)
def test_what_decisions_are_made_by_is_fixed(path: str, value: object, name: str | None) -> None:
    assert fixed(path, value) == name


def test_whatever_is_no_text_to_be_made_is_left_alone() -> None:
    tree = tree_of([("dimensions", b"9")])
    embeddings = lookup(b"POST", b"/v1/embeddings")
    passed_on = lookup(b"POST", b"/v1/images/generations")
    assert embeddings.override(b'{"input":"x"}', tree) == b'{"input":"x"}'
    assert passed_on.override(b'{"prompt":"x"}', tree) == b'{"prompt":"x"}'
    for body in (b"--form\r\n", b"", b"{not JSON", b"[]"):
        assert JSON_ENDPOINT.override(body, tree) == body
    assert JSON_ENDPOINT.override(b'{"q":NaN}', tree) == b'{"dimensions":9,"q":NaN}'


def test_every_field_that_facts_are_read_from_is_fixed() -> None:
    """Else an attempt could be asked for what nobody has judged: a second answer, a stream, a tool that acts."""
    free = {"model", "max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "service_tier"}
    free |= {"generationConfig", "generation_config"}  # see `test_what_decisions_are_made_by_is_fixed`
    modules = {type(protocol).__module__ for protocol in PROTOCOLS if protocol.hedgeable}
    shapes = [
        shape for name in modules for each in ("_Request", "_Config") if (shape := vars(sys.modules[name]).get(each))
    ]
    assert len(shapes) == len(modules) + 1
    for shape in shapes:
        fields = {name for name in shape.__struct_encode_fields__ if fixed(name, None) is None}
        assert fields <= free
