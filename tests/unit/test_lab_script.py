"""Scripts and fault mixes: what is understood, and what is said of the rest."""

from __future__ import annotations

import pytest

from hedgerow.errors import ConfigError, RequestError
from hedgerow.lab.script import Fault, FaultMix, Script, parse_script


def test_a_script_is_read_from_json() -> None:
    script = parse_script(b'{"ttft_ms": 5, "tokens": 3, "fault": "cut", "at": 2}', "x-lab-script")
    assert script == Script(ttft_ms=5, tokens=3, fault=Fault.CUT, at=2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"tfft_ms": 5}', "unknown field `tfft_ms`"),
        ('{"ttft_ms": "5"}', "Expected `float | null`, got `str` - at `$.ttft_ms`"),
        ('{"ttft_ms": -1}', "Expected `float` >= 0.0 - at `$.ttft_ms`"),
        ('{"tokens": 1.5}', "Expected `int | null`, got `float` - at `$.tokens`"),
        ('{"status": 200}', "Expected `int` >= 400 - at `$.status`"),
        ('{"status": 600}', "Expected `int` <= 599 - at `$.status`"),
        ('{"fault": "explode"}', "Invalid enum value 'explode' - at `$.fault`"),
        ('{"status": 500, "fault": "cut"}', "`status` and `fault` 'cut' exclude each other"),
        ('{"at": 3}', "`at` needs a `fault` other than 'hang'"),
        ('{"fault": "hang", "at": 3}', "`at` needs a `fault` other than 'hang'"),
        ('{"retry_after": 3}', "`retry_after` needs a `status` and no `fault`"),
        ('{"fault": "error", "status": 503, "delay_ms": 3}', "`delay_ms` needs a `status` and no `fault`"),
        ('{"headers": {"a": "b"}}', "`headers` needs a `status` and no `fault`"),
        ('{"code": "x"}', "`code` needs a `status`"),
        ('{"status": 429, "headers": {"A": "b"}}', "must be lower-case field names"),
        ('{"status": 429, "headers": {"a": "b\\r\\nc: d"}}', "with printable ASCII values: 'a'"),
        ('{"status": 429, "headers": {"content-length": "0"}}', "may not set 'content-length': the server does"),
    ],
)
def test_a_bad_script_is_answered_with_400_and_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_script(text, "x-lab-script")
    assert raised.value.status == 400
    assert raised.value.message.startswith("x-lab-script: ")
    assert complaint in raised.value.message


@pytest.mark.parametrize(
    ("script", "tokens", "stops_at"),
    [
        (Script(), 10, None),
        (Script(fault=Fault.HANG), 10, None),
        (Script(fault=Fault.STALL), 10, 0),
        (Script(fault=Fault.STALL, at=3), 10, 3),
        (Script(fault=Fault.CUT), 10, 5),
        (Script(fault=Fault.CUT, at=0), 10, 0),
        (Script(fault=Fault.CLOSE, at=99), 10, 10),
        (Script(fault=Fault.ERROR), 1, 0),
    ],
)
def test_where_a_fault_strikes(script: Script, tokens: int, stops_at: int | None) -> None:
    assert script.stops_at(tokens) == stops_at


def test_a_mix_picks_each_fault_on_its_stretch_of_chance() -> None:
    mix = FaultMix("429:0.1, cut:0.2, stall@3:0.1")
    assert mix.pick(0.05) == Script(status=429, retry_after=1.0)
    assert mix.pick(0.15) == Script(fault=Fault.CUT)
    assert mix.pick(0.35) == Script(fault=Fault.STALL, at=3)
    assert mix.pick(0.45) is None


def test_an_empty_mix_never_strikes() -> None:
    assert FaultMix("").pick(0.0) is None


def test_a_certain_fault_always_strikes() -> None:
    assert FaultMix("500:1").pick(1 - 2**-53) == Script(status=500)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("429", "'429' is not STATUS:PROBABILITY or FAULT[@TOKEN]:PROBABILITY"),
        ("429:x", "could not convert string to float: 'x'"),
        ("429:1.5", "1.5 is not a probability between 0 and 1"),
        ("429:nan", "nan is not a probability"),
        ("200:0.1", "200 is not an error status (400 to 599)"),
        ("boom:0.1", "with FAULT one of hang, stall, cut, close, error, slow: 'boom' is not a valid Fault"),
        ("cut@x:0.1", "invalid literal for int"),
        ("hang@2:0.1", "`at` needs a `fault` other than 'hang'"),
        ("429@2:0.1", "'429@2:0.1' is not STATUS:PROBABILITY"),
        ("429:0.6,500:0.6", "the probabilities add up to 1.2, more than 1"),
    ],
)
def test_a_bad_mix_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        FaultMix(text)
    assert str(raised.value).startswith("fault: ")
    assert complaint in str(raised.value)


def test_a_token_before_the_first_is_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        FaultMix("cut@-1:0.1")
