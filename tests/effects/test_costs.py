"""What targets charge, and for what: keys of prices and of cancels, by what requests come to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from hedgerow.cli import reread
from hedgerow.config import price_book
from hedgerow.errors import ConfigError
from hedgerow.events import Bill, Certainty, RequestBilled
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.reload_prices import repriced
from hedgerow.policy.price import Price
from hedgerow.policy.terms import Listed
from tests.effects.support import STREAM, Sent, effect_of, effects_of, settings, tell
from tests.engine.scripted import Answer, Script
from tests.unit.admin_support import Running, blueprint, play
from tests.unit.test_price_book import DATA, serving

ONE = {"routes.<name>.targets": ["a"]}
TWO = {"routes.<name>.targets": ["a", "b"], "routes.<name>.hedge.delay": "1s", "targets.<name>.price.output": 1}


LIMITED = Sent(body=STREAM.replace(b'"stream"', b'"max_tokens":9,"stream"'))


def answer(usage: str, tier: str = "") -> Answer:
    """A stream of one word that reports these tokens."""
    word = b'data: {"choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}\n\n'
    last = b'data: {"choices":[],%b"usage":{%b}}\n\ndata: [DONE]\n\n' % (tier.encode(), usage.encode())
    return Answer([(0.1, word), (0.1, last)])


def bills(changes: Mapping[str, object], scripts: Mapping[str, Script], sent: Sent | None = None) -> list[Bill]:
    """What the attempts of one request come to."""
    (billed,) = tell(settings(changes), scripts, [sent or Sent()]).of(RequestBilled)
    return list(billed.bills)


CACHED = answer('"prompt_tokens":1000,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":400}')
LONG = answer('"prompt_tokens":201000,"completion_tokens":1000')


@effects_of(
    {
        "targets.<name>.price.cached_input": (CACHED, {}, "0.5", 800_000 + 100_000 + 5_000_000),
        "targets.<name>.price.above": (LONG, {}, {"200000": {"input": 2}}, 402_000_000 + 10_000_000 + 5_000_000),
        "targets.<name>.price.tiers": (CACHED, {}, {"default": "10%"}, 1_000_000 + 100_000 + 5_000_000),
    },
    "case",
)
def test_a_whole_answer_costs_what_is_said(key: str, case: tuple[Answer, dict[str, object], object, int]) -> None:
    script, more, value, expected = case
    price = {"input": 1, "output": 10, "request": "0.005"}
    base = {**ONE, **{f"targets.<name>.price.{name}": dollars for name, dollars in price.items()}, **more}
    (before,) = bills(base, {"a": script})
    (one,) = bills({**base, key: value}, {"a": script})
    assert before.nanousd != expected or key.endswith("tiers")
    assert (one.nanousd, one.certainty) == (expected, Certainty.EXACT)


@pytest.mark.parametrize(
    ("price", "usage", "tier", "expected"),
    [
        ({"above": {"200000": {"output": 15}}}, (201_000, 5_000), "", 201_000_000 + 75_000_000 + 10_000_000),
        ({"above": {"1000": {"input": 2}, "200000": {"output": 15}}}, (201_000, 5_000), "", 402_000_000 + 85_000_000),
        ({"tiers": {"flex": {"input": "0.5"}}}, (1_000, 1_000), "flex", 500_000 + 10_000_000 + 10_000_000),
        ({"tiers": {"flex": {"output": 5}}}, (1_000, 1_000), "flex", 1_000_000 + 5_000_000 + 10_000_000),
        (
            {"above": {"200000": {"input": 2, "output": 15}}, "tiers": {"priority": {"output": 20}}},
            (201_000, 5_000),
            "priority",
            402_000_000 + 150_000_000 + 10_000_000,
        ),
    ],
)
def test_nothing_that_prices_leave_out_is_free(
    price: dict[str, object], usage: tuple[int, int], tier: str, expected: int
) -> None:
    read, made = usage
    word = f'"service_tier":"{tier}",' if tier else ""
    told = answer(f'"prompt_tokens":{read},"completion_tokens":{made}', word)
    changes = {**ONE, "targets.<name>.price": {"input": 1, "output": 10, "request": "0.01", **price}}
    (one,) = bills(changes, {"a": told})
    assert (one.nanousd, one.certainty) == (expected, Certainty.EXACT)


@pytest.mark.parametrize(
    ("price", "tier", "expected"),
    [
        ({"tiers": {"flex": {"input": "0.5"}}}, "flex", 300_000 + 100_000),
        ({"tiers": {"flex": {"input": "0.5", "cached_input": "0.1"}}}, "flex", 300_000 + 40_000),
        ({"above": {"1000": {"input": 2}}}, "default", 600_000 + 200_000),
        ({"above": {"900": {"input": 2}}}, "default", 1_200_000 + 400_000),
    ],
)
def test_a_cached_prompt_keeps_its_share_of_the_price(price: dict[str, object], tier: str, expected: int) -> None:
    usage = '"prompt_tokens":1000,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":400}'
    changes = {**ONE, "targets.<name>.price": {"input": 1, "cached_input": "0.5", **price}}
    (one,) = bills(changes, {"a": answer(usage, f'"service_tier":"{tier}",')})
    assert one.nanousd == expected


@effects_of({"targets.<name>.price.cache_write": "1.25", "targets.<name>.price.cache_write_1h": "2"}, "dollars")
def test_a_loser_may_have_written_its_prompt_to_a_cache(key: str, dollars: str) -> None:
    silent, told = Answer(end="hang"), answer('"prompt_tokens":1000,"completion_tokens":10')
    loser, _ = bills({**TWO, "targets.<name>.price.input": 1, key: dollars}, {"a": silent, "b": told}, LIMITED)
    assert (loser.nanousd, loser.most) == (1_000_000, int(float(dollars) * 1_000_000) + 9_000)


@pytest.mark.parametrize(
    ("fields", "most"), [({}, 9_000), ({"max_tokens": 20}, 20_000), ({"max_completion_tokens": 5}, 9_000)]
)
def test_a_target_may_have_a_limit_of_its_own(fields: dict[str, object], most: int) -> None:
    silent, told = Answer(end="hang"), answer('"prompt_tokens":1000,"completion_tokens":10')
    loser, _ = bills({**TWO, "targets.<name>.override": fields}, {"a": silent, "b": told}, LIMITED)
    assert loser.most == most


def test_without_a_limit_a_loser_has_no_bound() -> None:
    silent, told = Answer(end="hang"), answer('"prompt_tokens":1000,"completion_tokens":10')
    lifted = {"targets.<name>.override": {"max_tokens": None}}
    loser, _ = bills({**TWO, **lifted}, {"a": silent, "b": told}, LIMITED)
    assert loser.most is None


@pytest.mark.parametrize(("override", "most"), [({}, 36), ({"max_tokens": 20}, 80), ({"temperature": 0}, 36)])
def test_a_limit_is_for_each_of_several_prompts(override: dict[str, object], most: int) -> None:
    body = b'{"model":"fast","stream":true,"prompt":["a","b","c","d"],"max_tokens":9}'
    words = Answer([(0.1, b'data: {"choices":[{"index":0,"text":"word"}]}\n\n')] * 30, end="reset")
    changes = {**ONE, "targets.<name>.price.output": 1, "targets.<name>.override": override}
    (one,) = bills(changes, {"a": words}, Sent(path=b"/v1/completions", body=body))
    assert (one.nanousd, one.most) == (30_000, most * 1_000)


@effect_of("targets.<name>.price.source")
@pytest.mark.parametrize(("source", "known"), [("own", True), ("off", False)])
def test_a_price_is_known_unless_it_is_off(key: str, source: str, known: bool) -> None:
    (one,) = bills({**ONE, key: source}, {"a": CACHED})
    assert (one.nanousd is not None) == known


@effect_of("targets.<name>.billed_on_cancel")
@pytest.mark.parametrize(
    ("mode", "dollars"),
    [("full", 3), ("generated", 0), ("input", 0), ("none", 0), ({"stream": "full", "whole": "none"}, 3)],
)
def test_what_a_cancel_costs_is_as_is_said(key: str, mode: object, dollars: int) -> None:
    told = answer('"prompt_tokens":9,"completion_tokens":3000000')
    loser, winner = bills({**TWO, key: mode}, {"a": Answer(end="hang"), "b": told})
    assert (loser.target, winner.usage.output_tokens) == ("a", 3_000_000)
    assert loser.nanousd == dollars * 1_000_000_000
    assert (loser.least, loser.most, loser.certainty) == (0, None, Certainty.ESTIMATED)


# --- the price book --------------------------------------------------------------------------------------------------


@effect_of("server.prices.file")
def test_the_price_book_in_the_file_is_gone_by(key: str, tmp_path: Path) -> None:
    listed = (Listed(Price(7), ("m",)),)
    price_book.keep(price_book.Book(1.0, (price_book.Shop(r"http://a\.example", listed),)), tmp_path / "book")
    changes = {"targets.<name>.model": "m", "targets.<name>.price": "auto"}
    made = blueprint_of(settings({**changes, key: "book"}, folder=tmp_path), environ={})
    assert made.targets["a"].price == Price(7)


@effect_of("server.prices.update")
@pytest.mark.parametrize(("every", "times"), [("off", 0), ("1h", 3), ("30m", 5)])
def test_prices_are_looked_at_again_so_often(key: str, every: str, times: int, tmp_path: Path) -> None:
    """From five seconds after the start on, for two hours and a bit."""

    async def story(running: Running) -> None:
        await asyncio.sleep(7_300.0)
        assert len(running.readings) == times

    play(story, {key: every, "server.prices.file": str(tmp_path / "book")})


@effect_of("server.prices.url")
def test_prices_are_fetched_from_there(key: str, tmp_path: Path) -> None:
    async def story(url: str) -> None:
        file = tmp_path / "book"
        made = settings({key: url, "server.prices.update": "1h", "server.prices.file": "book"}, folder=tmp_path)
        await asyncio.to_thread(reread.fetch_prices, made.server.prices, 1.0)
        assert price_book.read(file).shops[0].listed == (Listed(Price(1_250_000_000, 10_000_000_000), ("m",)),)

    assert serving(json.dumps(DATA).encode(), story) == 1


def fetched(file: Path, *, dollars: int) -> None:
    """The price book has a model `m` at this price."""
    book = price_book.Book(
        1.0, (price_book.Shop(r"http://a\.example", (Listed(Price(dollars * 10**9, 7), ("m", "m2")),)),)
    )
    price_book.keep(book, file)


def test_new_prices_hold_from_the_next_request_on_and_nothing_else_of_the_file_does(tmp_path: Path) -> None:
    reported = answer('"prompt_tokens":1000,"completion_tokens":10')
    book = tmp_path / "book"
    start = {
        "server.prices.update": "1h",
        "server.prices.file": str(book),
        "targets.<name>.model": "m",
        "targets.<name>.price": {"source": "auto", "output": 0},
        "targets.b.price.input": 1,
    }
    fetched(book, dollars=1)

    async def story(running: Running) -> None:
        fetched(book, dollars=2)
        running.file = blueprint(
            {
                **start,
                "targets.b.base_url": "http://z.example/v1",
                "routes.new": {"targets": ["b"]},
            }
        )
        for dollars in (1, 2):
            running.chat()
            await asyncio.sleep(4.0 if dollars == 1 else 1.0)
            assert [one.nanousd for one in running.of(RequestBilled)[-1].bills] == [dollars * 1_000_000]
            await asyncio.sleep(2.0)
        assert list(running.reloader.parts.hedgers) == ["fast"]
        assert running.reloader.parts.blueprint.targets["b"].base_url == "http://b.example/v1"

    play(story, start, scripts={"a": reported})


def test_a_file_that_cannot_be_read_leaves_prices_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    start = {
        "server.prices.update": "1h",
        "server.prices.file": str(tmp_path / "book"),
        "targets.<name>.price.input": 1,
    }

    async def story(running: Running) -> None:
        running.file = ConfigError(["server.prices: nobody answers"])
        await asyncio.sleep(10.0)
        assert running.reloader.parts.blueprint.targets["a"].price == Price(1_000_000_000)

    play(story, start)
    assert [record.getMessage() for record in caplog.records] == [
        "prices: server.prices: nobody answers",
        "prices: they stay as they are",
    ]


@pytest.mark.parametrize(
    ("changes", "dollars"),
    [
        ({}, 2),
        ({"price": "auto", "model": "m2"}, 1),
        ({"price": {"source": "auto", "output": 5}}, 1),
        ({"price": {"input": 99}}, 1),
        ({"price": "off"}, 1),
        ({"base_url": "http://a.example/v2"}, 1),
    ],
)
def test_a_price_that_was_edited_waits_for_a_reload(changes: dict[str, object], dollars: int, tmp_path: Path) -> None:
    book = tmp_path / "book"
    start: dict[str, object] = {"server.prices.file": str(book), "targets.a.model": "m", "targets.a.price": "auto"}
    fetched(book, dollars=1)
    before = blueprint({**start, "targets.b.price.input": 1}).targets
    fetched(book, dollars=2)
    after = {f"targets.a.{key}": value for key, value in changes.items()}
    found = repriced(before, blueprint({**start, **after, "targets.b.price.input": 99}).targets)
    assert found["a"].price == Price(dollars * 1_000_000_000, 7)
    assert found["b"] == before["b"]
