"""Prices that no target says: those of genai-prices, looked for as it looks for them."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot

from hedgerow.cli import reread
from hedgerow.config import load, loads, price_book
from hedgerow.config.price import Prices
from hedgerow.errors import ConfigError
from hedgerow.extras import install
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.reload_prices import FETCH
from hedgerow.policy.price import Price
from hedgerow.policy.terms import PriceList
from tests.unit.client_support import Peer, Server

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
AZURE = "https://example.openai.azure.com/openai/v1"


def names(model: object) -> set[str]:
    """Names that one of genai-prices' rules is for, and some that are near."""
    found = {match for match in re.findall(r"'([^']+)'", str(model)) if len(match) < 100}
    return found | {f"{name}-2025-08-07" for name in found} | {f"x{name}" for name in found}


def test_every_name_is_found_as_genai_prices_finds_it() -> None:
    providers = get_snapshot().providers
    looked = 0
    for shop in providers:
        listed = PriceList(list(price_book._listed(shop, providers, NOW)))
        for name in {each for model in shop.models for each in {model.id, *names(model.match)}}:
            theirs = shop.find_model(name, all_providers=providers)
            expected = None if theirs is None else price_book._price(theirs, NOW, tiers=theirs in shop.models)
            assert listed.find(name) == expected, (shop.id, name)
            looked += 1
    assert looked > 5_000


@pytest.mark.parametrize("read", [1_000, 150_000, 250_000, 1_000_000])
@pytest.mark.parametrize("tier", [None, "flex", "priority"])
def test_costs_are_those_of_genai_prices(read: int, tier: str | None) -> None:
    """To the nano-dollar, for every model that it has by the token."""
    providers = get_snapshot().providers
    compared = 0
    for shop in providers:
        for model in shop.models:
            price = price_book._price(model, NOW, tiers=True)
            rates = model.get_prices(NOW)
            if price is None or rates.input_mtok is None or (tier is not None and tier not in price.tiers):
                continue
            usage = genai_prices.Usage(
                input_tokens=read, output_tokens=700, cache_read_tokens=200, cache_write_tokens=30
            )
            context = None if tier is None else {"service_tier": tier}
            theirs = model.calc_price(usage, shop, genai_request_timestamp=NOW, price_context=context)
            ours = price.in_tier(tier)
            assert ours is not None
            difference = Decimal(ours.cost(read, 700, 200, 30)) - theirs.total_price * 10**9
            assert abs(difference) <= Decimal("0.5"), (shop.id, model.id)
            compared += 1
    assert compared > (20 if tier else 1_000)


# --- from the configuration ------------------------------------------------------------------------------------------


def target(line: str, url: str = OPENAI) -> str:
    return f"targets:\n  a: {{base_url: '{url}', {line}}}\nroutes:\n  r: {{targets: [a]}}\n"


def drafted(line: str, url: str = OPENAI) -> tuple[Price | None, int]:
    made = blueprint_of(loads(target(line, url), {}), environ={}).targets["a"]
    return made.price, len(made.listed)


def test_a_known_model_of_a_known_provider_has_its_price_unless_one_is_said() -> None:
    known, _ = drafted("model: gpt-5-mini")
    assert known is not None
    assert (known.input, known.cached_input, known.output) == (250_000_000, 25_000_000, 2_000_000_000)
    assert known.tiers["flex"].input == 125_000_000
    assert drafted("model: gpt-5-mini, price: {input: 7}") == (Price(7_000_000_000), 0)
    assert drafted("model: gpt-5-mini, price: off") == (None, 0)
    over, _ = drafted("model: gpt-5-mini, price: {source: auto, output: 3}")
    assert over is not None
    assert (over.input, over.output) == (250_000_000, 3_000_000_000)
    assert drafted("override: {model: gpt-5-mini}")[0] == known


def test_a_target_that_passes_the_model_on_gets_the_prices_of_all() -> None:
    price, listed = drafted("api_key: passthrough")
    assert price is None
    assert listed > 100
    assert drafted("price: auto", AZURE)[1] > listed  # it sells others' models, too


@pytest.mark.parametrize(
    ("line", "url"),
    [("model: m", "http://127.0.0.1:8000/v1"), ("model: m", "https://llm.example/v1"), ("model: nobody-knows", OPENAI)],
)
def test_what_nobody_knows_has_no_price(line: str, url: str) -> None:
    assert drafted(line, url) == (None, 0)


@pytest.mark.parametrize(
    ("line", "url", "why"),
    [
        ("price: auto", "https://llm.example/v1", "finds nobody at https://llm.example/v1 in genai-prices"),
        ("model: nobody-knows, price: auto", OPENAI, f"finds no price of nobody-knows at {OPENAI} in genai-prices"),
    ],
)
def test_a_price_that_is_to_be_known_and_is_not_is_a_fault(line: str, url: str, why: str) -> None:
    say = "; say what this target charges: {input: 0.25, output: 2}"
    with pytest.raises(ConfigError) as caught:
        loads(target(line, url), {})
    assert caught.value.problems == [f"hedgerow.yaml:2: targets.a.price: auto {why}{say}"]


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_book, "_installed_at", lambda _url: ())
    monkeypatch.setattr(price_book, "is_installed", lambda: False)
    with pytest.raises(ConfigError) as caught:
        loads(target("model: gpt-5-mini, price: auto"), {})
    needs = f"needs genai-prices: {install('prices')}"
    assert caught.value.problems == [f"hedgerow.yaml:2: targets.a.price: auto {needs}"]
    assert drafted("model: gpt-5-mini") == (None, 0)


# --- fetched ---------------------------------------------------------------------------------------------------------

DATA = [
    {
        "id": "ours",
        "name": "Ours",
        "api_pattern": "https://llm\\.example",
        "models": [{"id": "m", "match": {"equals": "m"}, "prices": {"input_mtok": 1.25, "output_mtok": 10}}],
    }
]


def serving(body: bytes, story: Callable[[str], Awaitable[None]], status: int = 200) -> int:
    """Runs `story` with the URL of a server that answers with this; how often it was asked."""
    asked = 0

    async def answer(peer: Peer) -> None:
        nonlocal asked
        await peer.request()
        asked += 1
        peer.write(b"HTTP/1.1 %d OK\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

    async def main() -> None:
        async with Server(answer) as server:
            await story(f"http://127.0.0.1:{server.port}/data.json")

    asyncio.run(main())
    return asked


def test_what_is_fetched_is_kept_and_takes_the_place_of_what_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"

    async def story(url: str) -> None:
        prices = Prices.model_validate({"file": str(file), "update": 100.0, "url": url})
        for now in (1_000.0, 1_049.0, 1_050.0):
            await asyncio.to_thread(reread.fetch_prices, prices, now)

    assert serving(json.dumps(DATA).encode(), story) == 2  # not again while it is fresh
    assert price_book.read(file).fetched_at == 1_050.0
    config = tmp_path / "hedgerow.yaml"
    text = target("model: m, price: auto", "https://llm.example/v1")
    config.write_text(f"{text}server: {{prices: {{file: prices.json}}}}\n")
    made = blueprint_of(load(config), environ={}).targets["a"]
    assert made.price == Price(1_250_000_000, 10_000_000_000)
    config.write_text(target("model: gpt-5-mini", OPENAI) + "server: {prices: {file: prices.json}}\n")
    assert blueprint_of(load(config), environ={}).targets["a"].price is None
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


@pytest.mark.parametrize(("body", "status"), [(b"{}", 200), (b"[]", 200), (b"no", 404), (b'[{"id": 7}]', 200)])
def test_what_is_no_list_of_prices_leaves_what_was_fetched_last(tmp_path: Path, body: bytes, status: int) -> None:
    file = tmp_path / "prices.json"
    kept = price_book.Book(1.0, ())
    price_book.keep(kept, file)

    async def story(url: str) -> None:
        prices = Prices.model_validate({"file": str(file), "update": 100.0, "url": url})
        with pytest.raises(ConfigError) as caught:
            await asyncio.to_thread(reread.fetch_prices, prices, 1_000.0)
        assert url in caught.value.problems[0]

    assert serving(body, story, status) == 1
    assert price_book.read(file) == kept


def test_a_file_that_is_no_price_book_is_a_fault_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("[1]")
    config = tmp_path / "hedgerow.yaml"
    config.write_text(target("model: m") + "server:\n  prices: {file: prices.json}\n")
    with pytest.raises(ConfigError) as caught:
        load(config)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{config}:6: server.prices.file: {tmp_path / 'prices.json'}: is no price book")


def test_updates_need_a_file() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(target("model: m") + "server:\n  prices: {update: 1d}\n", {})
    assert caught.value.problems == [
        "hedgerow.yaml:6: server.prices.update: needs server.prices.file: where fetched prices are kept"
    ]


def test_the_reader_fetches_only_when_it_is_told_to(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    config = tmp_path / "hedgerow.yaml"
    codes: list[int] = []

    async def story(url: str) -> None:
        config.write_text(
            target("model: m", "https://llm.example/v1")
            + f"server: {{prices: {{file: prices.json, update: 1h, url: '{url}'}}}}\n"
        )
        codes.extend([await asyncio.to_thread(reread.main, [str(config), *more]) for more in ([], [FETCH], [])])

    assert serving(json.dumps(DATA).encode(), story) == 1
    assert codes == [0, 0, 0]
    assert (tmp_path / "prices.json").exists()
