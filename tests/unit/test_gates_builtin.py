"""What each built-in gate says, of answers made by hand and of those of every protocol."""

from __future__ import annotations

import json
from time import monotonic, thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.answer import Answer, Finish
from hedgerow.policy.gates import settings as spec
from hedgerow.policy.gates.build import BuiltinSpec, builtin
from hedgerow.policy.gates.documents import DEEPEST
from hedgerow.policy.gates.gate import judge
from hedgerow.policy.gates.requested import requested_schema
from hedgerow.policy.gates.unfolded import MOST, size_of
from hedgerow.wire import lookup
from hedgerow.wire.base import Protocol
from tests.unit import gemini_support as g
from tests.unit import responses_support as r

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def said(wanted: BuiltinSpec, answer: Answer | str, request: bytes = b"") -> str | None:
    """Why the gate rejects it; None where it does not. It must judge."""
    verdict = judge([builtin(wanted)], answer if isinstance(answer, Answer) else Answer(answer), request)
    assert verdict.errors == ()
    assert verdict.rejection is None or verdict.rejection.gate == wanted.__struct_config__.tag
    return None if verdict.rejection is None else verdict.rejection.detail


def start(text: str) -> Answer:
    return Answer(text, complete=False)


CALLS = Answer("", Finish.TOOL_CALLS, tool_calls=True)
PICTURE = Answer("", Finish.STOP, media=True)


# --- by hand -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "good"),
    [
        (Finish.STOP, True),
        (Finish.TOOL_CALLS, True),
        (Finish.LENGTH, False),
        (Finish.CONTENT_FILTER, False),
        (Finish.REFUSAL, False),
        (Finish.OTHER, False),
        (None, True),
    ],
)
def test_finished(finish: Finish | None, good: bool) -> None:
    assert said(spec.Finished(), Answer("x", finish)) == (None if good else f"it ended with {finish}")
    assert (said(spec.Finished(length=True), Answer("x", finish)) is None) == (good or finish is Finish.LENGTH)


def test_non_empty() -> None:
    assert said(spec.NonEmpty(), " \n\t") == "there is nothing in it"
    for good in (Answer("x"), CALLS, PICTURE, start("")):
        assert said(spec.NonEmpty(), good) is None


def test_min_chars() -> None:
    assert said(spec.MinChars(3), "  ab  ") == "2 characters"
    for good in (Answer("abc"), CALLS, PICTURE, start("a")):
        assert said(spec.MinChars(3), good) is None


def test_min_tokens_goes_by_what_is_reported() -> None:
    assert said(spec.MinTokens(3), Answer("a long text that counts", output_tokens=2)) == "2 tokens"
    assert said(spec.MinTokens(3), Answer("x", output_tokens=3)) is None
    assert said(spec.MinTokens(3), "elevenchars") == "2 tokens"
    assert said(spec.MinTokens(3), "twelve chars") is None
    assert said(spec.MinTokens(3), Answer("", output_tokens=2, tool_calls=True)) == "2 tokens"
    assert said(spec.MinTokens(3), CALLS) is None
    assert said(spec.MinTokens(3), start("a")) is None


@pytest.mark.parametrize(
    "text", ["{}", " [1, 2.5e3]\n", "null", '"a"', '{"a":1,"a":2}', "9" * 5000, "[" * 400 + "]" * 400]
)
def test_what_is_json(text: str) -> None:
    assert said(spec.Json(), text) is None


@pytest.mark.parametrize(
    "text", ["", "  ", "{", "Sure! {}", "{} done", "{'a': 1}", "[1,]", "NaN", '{"a": Infinity}', "```json\n{}\n```"]
)
def test_what_is_no_json(text: str) -> None:
    assert said(spec.Json(), text) is not None


@pytest.mark.parametrize(
    "deep", ["[" * 501 + "]" * 501, "[" * 100_000 + "]" * 100_000, '{"a":' * 501 + "1" + "}" * 501]
)
def test_what_is_nested_too_deeply_is_rejected_not_read(deep: str) -> None:
    assert DEEPEST == 500
    assert said(spec.Json(), deep) == "it is nested too deeply"
    assert said(spec.JsonSchema("true"), deep) == "it is nested too deeply"


@pytest.mark.parametrize("text", ["```json\n{}\n```", "```\n[1]```", " ```JSON\n1\n``` ", "{}"])
def test_a_fence_is_taken_off_where_that_is_allowed(text: str) -> None:
    assert said(spec.Json(fenced=True), text) is None


@pytest.mark.parametrize("text", ["Here:\n```json\n{}\n```", "```json\n{}", "```\nno\n```", "```", "``````"])
def test_only_one_fence_and_nothing_around_it(text: str) -> None:
    assert said(spec.Json(fenced=True), text) is not None


def test_a_detail_quotes_nothing_of_the_answer() -> None:
    secret = '{"name": 5, "password": "hunter2", x}'
    assert said(spec.Json(), secret) == "it is not JSON from character 35 on"
    whole = '{"name": 5, "password": "hunter2"}'
    assert said(spec.JsonSchema(json.dumps(SCHEMA)), whole) == "the schema does not allow it: properties/name/type"


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSONS, st.booleans(), st.sampled_from([None, 2]), st.data())
def test_the_start_of_json_is_never_rejected(
    value: Any, ascii_only: bool, indent: int | None, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert said(spec.Json(), text) is None
    cut = text[: data.draw(st.integers(0, len(text)))]
    fenced = f"```json\n{text}\n```"
    assert said(spec.Json(), start(cut)) is None
    assert said(spec.Json(fenced=True), start(cut)) is None
    assert said(spec.Json(fenced=True), start(fenced[: data.draw(st.integers(0, len(fenced)))])) is None


@given(st.text(), st.booleans(), st.booleans())
def test_texts_of_all_kinds_are_judged(text: str, complete: bool, fenced: bool) -> None:
    answer = Answer(text, complete=complete)
    for each in (spec.Json(fenced), spec.JsonSchema("true", fenced), spec.RequiredFields(("a",), fenced)):
        said(each, answer)
    for other in (spec.NoRefusal(), spec.MinChars(1), spec.Matches("a"), spec.NotMatches("a"), spec.NonEmpty()):
        said(other, answer)


@pytest.mark.parametrize(
    "text", ["I cannot do that", "Here is the JSON: {", "{'name': 1", "<html>......", "[1, 2] and so on"]
)
def test_a_start_that_cannot_become_json_is_rejected(text: str) -> None:
    for each in (spec.Json(), spec.Json(fenced=True), spec.JsonSchema("true"), spec.RequiredFields(("a",))):
        assert said(each, start(text)) is not None


def test_required_fields() -> None:
    text = json.dumps({"a": {"b": [{"c": 0}, {"c": None}]}, "d": "", "e": None})
    for good in ("a", "a.b", "a.b.0.c", "d", "a.b.1"):
        assert said(spec.RequiredFields((good,)), text) is None
    for bad in ("x", "e", "a.b.1.c", "a.b.2", "a.b.-1", "d.x", "a.c"):
        assert said(spec.RequiredFields(("a", bad)), text) == f"it has no {bad}"
    assert said(spec.RequiredFields(("a",)), "[]") == "it has no a"
    assert said(spec.RequiredFields(("a",)), "no") is not None
    assert said(spec.RequiredFields(("a",)), CALLS) is None


def test_matches_and_not_matches() -> None:
    assert said(spec.Matches("^yes"), "yes, sir") is None
    assert said(spec.Matches("^yes"), "no") == "the expression is not found in it"
    assert said(spec.Matches("^yes"), start("no")) is None
    assert said(spec.NotMatches("(?i)as an ai"), "As an AI, I") == "the expression is found in it"
    assert said(spec.NotMatches("(?i)as an ai"), start("As an AI, I")) is not None
    assert said(spec.NotMatches("x"), "no") is None
    assert said(spec.Matches("x"), CALLS) is None


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(.*a){30}b", r"(\w+\s?)*[^\w\s]$"])
def test_an_expression_that_takes_for_ever_has_not_judged(pattern: str) -> None:
    began = monotonic()
    text = "xa" * 3 + "x" * 20_000 + "a" * 20_000
    verdict = judge([builtin(spec.Matches(pattern))], Answer(text))
    assert monotonic() - began < 20  # re needs longer than anybody lives
    assert verdict.errors == ("gate matches did not judge: TimeoutError",) or verdict.rejection is not None


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that.",
        "I’m sorry, but I can’t assist with that request.",  # noqa: RUF001  # as models write
        "  I'M UNABLE TO HELP",
        "Sorry, but I cannot provide that.",
    ],
)
def test_a_refusal_in_words(text: str) -> None:
    assert said(spec.NoRefusal(), text) == "it begins like a refusal"
    assert said(spec.NoRefusal(), start(text)) == "it begins like a refusal"
    assert said(spec.NoRefusal(()), text) is None


def test_the_same_words_further_on_are_no_refusal() -> None:
    assert said(spec.NoRefusal(), "The guard said: " + "la " * 80 + "I can't help with that.") is None
    assert said(spec.NoRefusal(("je ne peux pas",)), "Je ne peux pas répondre") is not None
    assert said(spec.NoRefusal(("je ne peux pas",)), "I can't help with that.") is None


def test_a_refusal_by_its_sign() -> None:
    assert said(spec.NoRefusal(()), Answer("", Finish.REFUSAL, "no")) == "the model refused"
    assert said(spec.NoRefusal(()), Answer("Well", Finish.STOP, "no")) == "the model refused"
    assert said(spec.NoRefusal(()), Answer("Wel", Finish.CONTENT_FILTER)) == "a content filter cut in"


def test_a_schema_of_the_configuration() -> None:
    own = spec.JsonSchema(json.dumps(SCHEMA))
    assert said(own, '{"name": "x"}') is None
    assert said(own, "{}") == "the schema does not allow it: required"
    assert said(own, "x") == "it is not JSON from character 0 on"
    assert said(own, CALLS) is None
    assert said(spec.JsonSchema("false"), "{}") is not None
    assert said(spec.JsonSchema(json.dumps(SCHEMA), fenced=True), '```json\n{"name": "x"}\n```') is None


@pytest.mark.parametrize(
    "schema",
    ['{"type": "strng"}', '{"$ref": "#/nowhere"}', '{"pattern": "("}', '{"$ref": "http://127.0.0.1:1/s.json"}'],
)
def test_what_is_no_schema_is_said_when_the_gate_is_made(schema: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        builtin(spec.JsonSchema(schema))


def asking(**body: Any) -> bytes:
    return json.dumps({"model": "fast", "messages": [], **body}).encode()


OPENAPI = {
    "type": "OBJECT",
    "properties": {
        "name": {"type": "STRING", "nullable": True, "minLength": "2"},
        "tags": {"type": "ARRAY", "items": {"type": "STRING", "enum": ["a", "b"], "format": "enum"}, "maxItems": "2"},
        "kind": {"anyOf": [{"type": "INTEGER"}, {"type": "BOOLEAN"}], "nullable": True},
    },
    "required": ["name"],
    "propertyOrdering": ["name", "tags"],
}


@pytest.mark.parametrize(
    ("request_body", "good", "bad"),
    [
        (asking(response_format={"type": "json_schema", "json_schema": {"schema": SCHEMA}}), '{"name":"x"}', "{}"),
        (asking(response_format={"type": "json_object", "schema": SCHEMA}), '{"name":"x"}', "{}"),
        (asking(text={"format": {"type": "json_schema", "schema": SCHEMA}}), '{"name":"x"}', "{}"),
        (asking(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}), '{"name":"x"}', "{}"),
        (asking(output_format={"type": "json_schema", "schema": SCHEMA}), '{"name":"x"}', "{}"),
        (asking(generationConfig={"responseJsonSchema": SCHEMA}), '{"name":"x"}', "{}"),
        (asking(generation_config={"response_schema": OPENAPI}), '{"name":null,"tags":["a"],"kind":null}', "{}"),
        (asking(generationConfig={"responseSchema": OPENAPI}), '{"name":"xy","kind":1}', '{"name":"x"}'),
        (asking(generationConfig={"responseSchema": OPENAPI}), '{"name":"xy"}', '{"name":"xy","tags":["c"]}'),
        (asking(generationConfig={"responseSchema": OPENAPI}), '{"name":"xy"}', '{"name":"xy","kind":"no"}'),
    ],
)
def test_a_schema_of_the_request(request_body: bytes, good: str, bad: str) -> None:
    assert said(spec.JsonSchema(), good, request_body) is None
    assert said(spec.JsonSchema(), bad, request_body) is not None
    assert said(spec.JsonSchema(), "no JSON", request_body) is not None
    assert said(spec.JsonSchema(), start("no JSON"), request_body) is not None


@pytest.mark.parametrize(
    "request_body",
    [
        b"",
        b"[]",
        b"{",
        asking(),
        asking(response_format="json"),
        asking(text={"format": {"type": "text"}}),
        b"[" * 100_000,
    ],
)
def test_a_request_that_asks_for_no_schema_leaves_nothing_to_judge(request_body: bytes) -> None:
    assert said(spec.JsonSchema(), "not JSON at all", request_body) is None
    assert said(spec.JsonSchema(), start("not JSON at all"), request_body) is None


@given(JSONS)
def test_requests_of_any_shape_are_read(value: Any) -> None:
    names = ("response_format", "text", "output_config", "output_format", "generationConfig")
    for name in names:
        requested_schema(asking(**{name: value}))
        for inner in ("schema", "json_schema", "format", "responseSchema", "responseJsonSchema"):
            requested_schema(asking(**{name: {inner: value}}))


def doubling(times: int) -> dict[str, Any]:
    """A schema of which each part is used twice by the next."""
    parts: dict[str, Any] = {"d0": {"type": "integer"}}
    for step in range(times):
        part = {"$ref": f"#/$defs/d{step}"}
        parts[f"d{step + 1}"] = {"anyOf": [part, part]}
    return {"$defs": parts, "$ref": f"#/$defs/d{times}"}


TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#/properties/left"}}}


@pytest.mark.parametrize(
    "schema",
    [True, SCHEMA, TREE, doubling(10), {"properties": {"$ref": {"type": "string"}}}, {"$ref": "#/a~1b/0", "a/b": [{}]}],
)
def test_schemas_of_a_size_that_can_be_checked(schema: Any) -> None:
    size_of(schema)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (doubling(40), "unfolds to more"),
        ({"$defs": doubling(30)["$defs"], "anyOf": [{"$ref": "#/$defs/d30"}]}, "unfolds to more"),
        ({"enum": list(range(MOST))}, "unfolds to more"),
        ({"$ref": "#anchor"}, "something else"),
        ({"$ref": "http://127.0.0.1/x"}, "something else"),
        ({"$ref": "#/$defs/none"}, "not in it"),
        ({"$ref": "#/anyOf/1", "anyOf": [{}]}, "not in it"),
    ],
)
def test_schemas_that_are_not_tried(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        size_of(schema)


HUNDRED = [{"pattern": rf"^\\d{{3}}{number}$"} for number in range(100)]
NESTED = {
    "unevaluatedProperties": False,
    "allOf": [{"unevaluatedProperties": False, "allOf": [{"$ref": "#/allOf/0"}] * 20} for _ in range(60)],
}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": HUNDRED},
        {"patternProperties": {each["pattern"]: {} for each in HUNDRED}},
        {"pattern": "|".join(["word"] * 500)},
        {"pattern": r"^((\w{99}){9}){9}$"},
        {"pattern": r"\p{L}" * 300},
        {"pattern": "(?i)a"},
        {"pattern": "^(?=a)b"},
        {"properties": {f"p{number}": {"type": "string"} for number in range(2_000)}},
        {"const": "x" * 200_001},
        {"x" * 200_001: 1},
        NESTED,
        {"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}},
        {"$defs": {"a": {"$id": "http://a.example/"}}},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
    ],
)
def test_a_schema_of_a_request_that_could_hold_the_process_is_not_tried(schema: Any) -> None:
    request = asking(text={"format": {"schema": schema}})
    before = thread_time()
    verdict = judge([builtin(spec.JsonSchema())], Answer("1"), request)
    assert thread_time() - before < 0.2  # some milliseconds; without the bounds seconds
    assert verdict.rejection is None
    assert verdict.errors[0].startswith("gate json_schema did not judge: ")


@pytest.mark.parametrize(
    ("item", "bad", "times"),
    [
        ({"anyOf": [{"required": [f"x{number}"]} for number in range(500)]}, {}, 5_000),
        ({"allOf": [{"multipleOf": 0.01}] * 20}, 0.005, 200),
        ({"pattern": "(a|b)*a(a|b){12}c"}, "ab" * 500, 100),
        ({"allOf": [{"$ref": "#/$defs/p"}] * 100}, "x" * 500, 30),
    ],
)
def test_nor_one_that_has_too_much_to_say_of_a_long_answer(item: Any, bad: Any, times: int) -> None:
    request = asking(text={"format": {"schema": {"items": item, "$defs": {"p": {"pattern": "[a-z]y{2}z"}}}}})
    assert judge([builtin(spec.JsonSchema())], Answer(json.dumps([bad])), request).rejection is not None
    before = thread_time()
    verdict = judge([builtin(spec.JsonSchema())], Answer(json.dumps([bad] * times)), request)
    assert thread_time() - before < 0.2
    assert verdict.errors[0].startswith("gate json_schema did not judge: ")


def test_formats_are_not_looked_at() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "format": "uri-template"}
    assert said(spec.JsonSchema(), '"{"', asking(text={"format": {"schema": schema}})) is None


def test_dates_in_a_long_answer_are_tried() -> None:
    row = {"type": "object", "properties": {name: {"pattern": r"^\d{4}-\d{2}-\d{2}$"} for name in ("from", "to")}}
    request = asking(text={"format": {"schema": {"type": "array", "items": row}}})
    good = {"from": "2026-11-30", "to": "2026-12-01", "note": "x" * 200}
    assert said(spec.JsonSchema(), json.dumps([good] * 80), request) is None
    assert said(spec.JsonSchema(), json.dumps([good] * 80 + [{**good, "to": "soon"}]), request) is not None


def test_the_patterns_that_people_ask_for_are_tried() -> None:
    patterns = {
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$": "2026-11-30T22:30:00Z",
        r"^[\w.+-]{1,64}@[\w-]+(\.[a-z]{2,})+$": "a.b@example.org",
        r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$": "01234567-89ab-cdef-0123-456789abcdef",
        r"^\p{Lu}\p{Ll}+$": "Ärger",
        r"^.{1,500}$": "x",
        r"^(red|green|blue)$": "blue",
    }
    properties = {f"p{at}": {"pattern": each} for at, each in enumerate(patterns)}
    document = {f"p{at}": each for at, each in enumerate(patterns.values())}
    request = asking(text={"format": {"schema": {"properties": properties, "required": list(properties)}}})
    assert said(spec.JsonSchema(), json.dumps(document), request) is None
    for name in document:
        assert said(spec.JsonSchema(), json.dumps({**document, name: "NO NO\n"}), request) is not None
    own = json.dumps({"pattern": "^(?=a)"})  # the route's own may do as it likes
    assert said(spec.JsonSchema(own), '"abc"') is None


# --- by protocol -------------------------------------------------------------------------------------------------


def chat(content: str | None, finish: str = "stop", **more: Any) -> Any:
    return {"choices": [{"index": 0, "message": {"content": content, **more}, "finish_reason": finish}]}


def message(content: list[Any], reason: str = "end_turn") -> Any:
    return {"type": "message", "content": content, "stop_reason": reason}


CHAT, TEXT = lookup(b"POST", b"/v1/chat/completions"), lookup(b"POST", b"/v1/completions")
RESPONSES, MESSAGES = lookup(b"POST", b"/v1/responses"), lookup(b"POST", b"/v1/messages")
GEMINI = lookup(b"POST", b"/v1beta/models/g:generateContent")
CUT = {"incomplete_details": {"reason": "max_output_tokens"}}


def saying(protocol: Protocol, text: str, *, cut: bool = False) -> Answer:
    """A whole answer of this text; `cut`: it ran into its limit."""
    documents: dict[Protocol, Any] = {
        CHAT: chat(text, "length" if cut else "stop"),
        TEXT: {"choices": [{"index": 0, "text": text, "finish_reason": "length" if cut else "stop"}]},
        RESPONSES: r.response("incomplete", [r.message(text)], **CUT)
        if cut
        else r.response("completed", [r.message(text)]),
        MESSAGES: message([{"type": "text", "text": text}], "max_tokens" if cut else "end_turn"),
        GEMINI: g.answer([{"text": text}], "MAX_TOKENS" if cut else "STOP"),
    }
    return protocol.answer(json.dumps(documents[protocol]).encode())


CALLED: dict[Protocol, Any] = {
    CHAT: chat(None, "tool_calls", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}]),
    RESPONSES: r.response("completed", [r.call()]),
    MESSAGES: message([{"type": "tool_use", "id": "t", "name": "f", "input": {}}], "tool_use"),
    GEMINI: g.answer([{"functionCall": {"name": "f"}}], "STOP"),
}
REFUSED: dict[Protocol, Any] = {
    CHAT: chat(None, "stop", refusal="No."),
    RESPONSES: r.response("completed", [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]),
    MESSAGES: message([], "refusal"),
    GEMINI: {"promptFeedback": {"blockReason": "SAFETY"}},
}
ALL = [
    spec.Finished(),
    spec.NonEmpty(),
    spec.MinChars(5),
    spec.MinTokens(2),
    spec.Json(),
    spec.JsonSchema(json.dumps(SCHEMA)),
    spec.RequiredFields(("name",)),
    spec.Matches("name"),
    spec.NotMatches("error"),
    spec.NoRefusal(),
]
PROTOCOLS = pytest.mark.parametrize("protocol", [CHAT, TEXT, RESPONSES, MESSAGES, GEMINI], ids=lambda p: p.name)


@PROTOCOLS
@pytest.mark.parametrize("wanted", ALL, ids=lambda each: each.__struct_config__.tag)
def test_a_good_answer_of_every_protocol_passes_every_gate(protocol: Protocol, wanted: BuiltinSpec) -> None:
    assert said(wanted, saying(protocol, '{"name": "hedgerow"}')) is None


BAD: list[tuple[BuiltinSpec, str]] = [
    (spec.NonEmpty(), " "),
    (spec.MinChars(5), "no"),
    (spec.MinTokens(2), "no"),
    (spec.Json(), "{"),
    (spec.JsonSchema(json.dumps(SCHEMA)), '{"name": 1}'),
    (spec.RequiredFields(("name",)), '{"name": null}'),
    (spec.Matches("name"), "nothing"),
    (spec.NotMatches("error"), "an error"),
    (spec.NoRefusal(), "I'm sorry, I can't help with that."),
]


@PROTOCOLS
@pytest.mark.parametrize(("wanted", "text"), BAD, ids=lambda each: getattr(each, "gate", ""))
def test_a_bad_answer_of_every_protocol_is_rejected(protocol: Protocol, wanted: BuiltinSpec, text: str) -> None:
    assert said(wanted, saying(protocol, text)) is not None


@PROTOCOLS
def test_an_answer_that_was_cut_is_not_finished(protocol: Protocol) -> None:
    assert said(spec.Finished(), saying(protocol, "half", cut=True)) == "it ended with length"
    assert said(spec.Finished(length=True), saying(protocol, "half", cut=True)) is None


@pytest.mark.parametrize("protocol", CALLED, ids=lambda p: p.name)
@pytest.mark.parametrize("wanted", ALL, ids=lambda each: each.__struct_config__.tag)
def test_a_call_of_a_tool_passes_every_gate(protocol: Protocol, wanted: BuiltinSpec) -> None:
    assert said(wanted, protocol.answer(json.dumps(CALLED[protocol]).encode())) is None


@pytest.mark.parametrize("protocol", REFUSED, ids=lambda p: p.name)
def test_a_refusal_of_every_protocol_is_one(protocol: Protocol) -> None:
    answer = protocol.answer(json.dumps(REFUSED[protocol]).encode())
    assert said(spec.NoRefusal(()), answer) is not None
    assert said(spec.Finished(), answer) is not None
    assert said(spec.Json(), answer) is not None
