"""The gates of a route as they are written: what each form means, and what is said of every wrong one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hedgerow.config import Gates, Route, json_schema, loads
from hedgerow.errors import ConfigError
from hedgerow.extras import install
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.policy.gates import settings as spec
from hedgerow.policy.gates.settings import GateSettings, Prefix
from tests.unit.test_config_errors import PAIR

OWN = """
class Polite:
    def __call__(self, answer):
        return "please" in answer.text

polite = Polite()
async def later(answer, request): ...
def three(one, two, three): ...
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "own_gates.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("import own_gates_nowhere")
    (tmp_path / "own_exit.py").write_text("raise SystemExit(3)")
    (tmp_path / "own_faulty.py").write_text("1 / 0")
    (tmp_path / "good.json").write_text('{"type": "object"}')
    (tmp_path / "bad.json").write_text('{"type": "objet"}')
    (tmp_path / "cut.json").write_text('{\n"type": ')
    yield tmp_path
    if str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def text(gates: str) -> str:
    """A file whose seventh line begins the gates of route `r`."""
    return f"{PAIR}routes:\n  r:\n    targets: [a, b]\n    gates: {gates}\n"


def read(gates: str, folder: Path) -> Route:
    return loads(text(gates), {}, folder=folder).routes["r"]


MEANS: list[tuple[str, tuple[spec.Spec, ...]]] = [
    ("", ()),
    ("[]", ()),
    ("json", (spec.Json(),)),
    ("[finished, non_empty, no_refusal]", (spec.Finished(), spec.NonEmpty(), spec.NoRefusal())),
    ("[finished: {length: true}]", (spec.Finished(length=True),)),
    ("[finished: , json: ]", (spec.Finished(), spec.Json())),
    ("[min_chars: 20, min_tokens: 5]", (spec.MinChars(20), spec.MinTokens(5))),
    ("[json: {fenced: true}]", (spec.Json(fenced=True),)),
    ("[json_schema, json_schema: request]", (spec.JsonSchema(), spec.JsonSchema())),
    ("[json_schema: good.json]", (spec.JsonSchema('{"type": "object"}'),)),
    ("[json_schema: {schema: good.json, fenced: true}]", (spec.JsonSchema('{"type": "object"}', fenced=True),)),
    ("[json_schema: {fenced: true}]", (spec.JsonSchema(fenced=True),)),
    ("[required_fields: [a, b.c]]", (spec.RequiredFields(("a", "b.c")),)),
    ("[required_fields: {paths: [a], fenced: true}]", (spec.RequiredFields(("a",), fenced=True),)),
    ("[matches: '^a', not_matches: 'b$']", (spec.Matches("^a"), spec.NotMatches("b$"))),
    ("[no_refusal: [je ne peux pas]]", (spec.NoRefusal(("je ne peux pas",)),)),
    ("[no_refusal: []]", (spec.NoRefusal(()),)),
    ("\n      - non_empty\n      - min_chars: 3\n", (spec.NonEmpty(), spec.MinChars(3))),
    ("{require: [json]}", (spec.Json(),)),
    ("{require: json}", (spec.Json(),)),
]


@pytest.mark.parametrize(("written", "meant"), MEANS)
def test_what_is_written_is_what_is_meant(written: str, meant: tuple[spec.Spec, ...], folder: Path) -> None:
    assert read(written, folder).gates.require == meant


@pytest.mark.parametrize("written", [written for written, _ in MEANS])
def test_editors_accept_it(written: str) -> None:
    jsonschema.validate(yaml.safe_load(text(written)), json_schema())


@pytest.mark.parametrize("written", ["[jsn]", "[3]", "{min_chars: 3}", "[json: {fence: true}]", "[min_chars]", "3"])
def test_editors_refuse_what_is_wrong(written: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text(written)), json_schema())


def test_python_functions_are_found_beside_the_file(folder: Path) -> None:
    gates = read("[python: own_gates:polite, python: {call: 'own_gates:later', timeout: 200ms}]", folder).gates
    at = str(folder.resolve())
    assert gates.require == (
        spec.Python("own_gates:polite", at),
        spec.Python("own_gates:later", at, timeout=0.2),
    )


A_LIST = "a list of gates such as [non_empty, json]"
PATHS = "a list of paths such as [name, address.city]"
ALL = (
    "finished, non_empty, min_chars, min_tokens, json, json_schema, required_fields, matches, not_matches, "
    "no_refusal, python"
)
WRONG = [
    ("3", f": got 3; expected {A_LIST}"),
    ("jsn", ": there is no gate 'jsn'; did you mean 'json'?"),
    ("[json, xyz]", f"[1]: there is no gate 'xyz'; the gates are: {ALL}"),
    ("[{jsn: 3}]", "[0].jsn: there is no gate 'jsn'; did you mean 'json'?"),
    ("[3]", "[0]: expected one gate, such as json or min_chars: 20"),
    ("[{json: , finished: }]", "[0]: expected one gate, such as json or min_chars: 20"),
    ("{min_chars: 3}", ".min_chars: unknown key; the keys here are: require, prefix, wait, strict, unhealthy"),
    ("[min_chars]", "[0]: min_chars: expected a whole number from 1 to 10000000"),
    ("[min_chars: 0]", "[0].min_chars: expected a whole number from 1 to 10000000"),
    ("[min_tokens: many]", "[0].min_tokens: expected a whole number from 1 to 10000000"),
    ("[finished: 3]", "[0].finished: expected a mapping of length"),
    ("[finished: {length: 3}]", "[0].finished: length: expected true or false, on or off"),
    ("[finished: {long: true}]", "[0].finished: there is no option 'long'; did you mean 'length'?"),
    ("[non_empty: true]", "[0].non_empty: non_empty takes no options"),
    ("[json: {fence: true}]", "[0].json: there is no option 'fence'; did you mean 'fenced'?"),
    ("[json_schema: none.json]", "[0].json_schema: cannot read {folder}/none.json: No such file or directory"),
    (
        "[json_schema: {schema: none.json}]",
        "[0].json_schema: cannot read {folder}/none.json: No such file or directory",
    ),
    ("[json_schema: cut.json]", "[0].json_schema: {folder}/cut.json is not JSON, line 2"),
    (
        "[json_schema: bad.json]",
        "[0].json_schema: \"objet\" is not valid under any of the schemas listed in the 'anyOf' keyword (at type)",
    ),
    ("[required_fields: name]", f"[0].required_fields: expected {PATHS}"),
    ("[required_fields: []]", f"[0].required_fields: expected {PATHS}"),
    ("[required_fields: [a..b]]", f"[0].required_fields: expected {PATHS}"),
    ("[required_fields: {fenced: true}]", "[0].required_fields: paths is required"),
    ("[required_fields: {paths: 3}]", f"[0].required_fields: paths: expected {PATHS}"),
    ("[matches: '(']", "[0].matches: is no regular expression: missing ) at position 1"),
    ("[matches: 3]", "[0].matches: expected text: put the value in quotes"),
    ("[not_matches: '*']", "[0].not_matches: is no regular expression: nothing to repeat at position 0"),
    ("[no_refusal: sorry]", '[0].no_refusal: expected a list of phrases such as ["I can\'t help"]'),
    ("[python]", "[0]: python: expected module:function"),
    ("[python: own_gates]", "[0].python: expected module:function"),
    ("[python: {timeout: 1s}]", "[0].python: expected module:function"),
    (
        "[python: {call: 'own_gates:later', timeout: 2h}]",
        "[0].python: timeout: expected a duration between 1ms and 60s",
    ),
    ("[python: own_nowhere:x]", "[0].python: there is no module own_nowhere, neither installed nor in {folder}"),
    (
        "[python: own_broken:x]",
        "[0].python: the module own_broken cannot be imported: No module named 'own_gates_nowhere'",
    ),
    ("[python: own_exit:x]", "[0].python: the module own_exit cannot be imported: SystemExit: 3"),
    (
        "[python: own_faulty:x]",
        "[0].python: the module own_faulty cannot be imported: ZeroDivisionError: division by zero",
    ),
    ("[python: own_gates:rude]", "[0].python: the module own_gates has no rude"),
    ("[python: own_gates:number]", "[0].python: own_gates:number cannot be called: it is no function"),
    ("[python: own_gates:three]", "[0].python: own_gates:three must take an answer, or an answer and a request"),
    ("{require: [jsn]}", ".require[0]: there is no gate 'jsn'; did you mean 'json'?"),
    ("{require: 3}", f".require: got 3; expected {A_LIST}"),
    ("{require: json, prefix: 3}", ".prefix: got a number; expected a mapping such as {tokens: 40}"),
    ("{require: json, prefix: {tokens: 0}}", ".prefix.tokens: got 0; expected a whole number from 1 to 1000000"),
    ("{require: json, wait: -1}", ".wait: got -1; expected a duration such as 2s or 300ms"),
    ("{require: json, strict: 3}", ".strict: got 3; expected true or false, on or off"),
    (
        "{require: json, prefix: {tokens: 9, time: 10m}}",
        ".prefix.time: 10m is too long for routes.r.timeouts.total (10m): it could never run out",
    ),
]


@pytest.mark.parametrize(("written", "said"), WRONG)
def test_what_is_wrong_is_said_where_it_stands(written: str, said: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read(written, folder)
    expected = said.replace("{folder}", str(folder.resolve()))
    assert raised.value.problems == [f"hedgerow.yaml:7: routes.r.gates{expected}"]


def test_the_line_is_that_of_the_gate(folder: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read("\n      - json\n      - matches: '('\n", folder)
    assert raised.value.problems[0].startswith("hedgerow.yaml:9: routes.r.gates[1].matches: ")


@pytest.mark.parametrize(("gate", "package"), [("matches: a", "regex"), ("json_schema: good.json", "jsonschema_rs")])
def test_an_extra_that_is_not_installed_is_named(
    gate: str, package: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as raised:
        read(f"[{gate}]", folder)
    assert raised.value.problems[0].endswith(f": needs the package {package}: {install('gates')}")


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        ("{wait: 3s}", "gates: has no effect: it requires nothing; name gates in require"),
        (
            "{require: json, strict: true, wait: 3s}",
            "gates.wait: has no effect with strict: true: a rejected answer is dropped at once",
        ),
        ("{require: json, prefix: {time: 3s}}", "gates.prefix: has no effect without tokens"),
        (
            "json\n    nonstream_as_stream: true",
            "gates: keeps no answer back: with nonstream_as_stream all are streams; set gates.prefix.tokens",
        ),
    ],
)
def test_what_has_no_effect_is_warned_of(written: str, warning: str) -> None:
    (found,) = loads(text(written), {}).warnings
    assert found.partition("routes.r.")[2] == warning


@pytest.mark.parametrize("written", ["", "json", "{require: json, prefix: {tokens: 9}}", "{require: [], wait: 3s}"])
def test_what_is_meant_is_not_warned_of(written: str) -> None:
    assert loads(text(written), {}).warnings == []


def drafted(gates: str, folder: Path = Path()) -> GateSettings | None:
    return blueprint_of(loads(text(gates), {}, folder=folder)).routes["r"].policy.gates


def test_what_a_gateway_is_told() -> None:
    assert drafted("") is None
    assert drafted("{wait: 3s}") is None
    assert drafted("json") == GateSettings((spec.Json(),))
    assert drafted("{require: json, prefix: {tokens: 9}, wait: 1s, strict: true, unhealthy: true}") == GateSettings(
        (spec.Json(),), Prefix(9, 2.0), 1.0, strict=True, unhealthy=True
    )


def test_settings_may_be_made_in_code() -> None:
    made = Gates.model_validate({"require": [spec.MinChars(3), "json"]})
    assert made.require == (spec.MinChars(3), spec.Json())
    assert Route.model_validate({"targets": ["a"], "gates": made}).gates is made
    assert Route.model_validate({"targets": ["a"], "gates": ("json",)}).gates == Gates(require=(spec.Json(),))


def test_the_schema_names_every_gate_once() -> None:
    schema: Any = json_schema()
    assert json.dumps(schema).count('"required_fields"') == 1
    assert schema["$defs"]["Route"]["properties"]["gates"]["anyOf"][0] == {"$ref": "#/$defs/Gates/properties/require"}
