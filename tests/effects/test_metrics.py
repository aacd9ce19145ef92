"""server.metrics.*: who may scrape, and what of."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.e2e.support import GatewayProcess
from tests.effects.support import document, effect_of
from tests.effects.test_server import SERVED, get, serve

pytestmark = pytest.mark.e2e

TOKEN, ADMIN = "a-scrapers-own-token", "an-admins-own-token"


def scrape(gateway: GatewayProcess, key: str | None = None) -> int:
    return get(gateway, "/metrics", **({} if key is None else {"authorization": f"Bearer {key}"}))


@effect_of("server.metrics.enabled")
def test_there_are_metrics_unless_they_are_switched_off(key: str) -> None:
    with serve(key, True) as gateway:
        assert scrape(gateway) == 200
    with serve(key, False) as gateway:
        assert scrape(gateway) == 404


@effect_of("server.metrics.token")
def test_with_a_token_it_alone_and_the_admins_open_the_metrics(key: str) -> None:
    base = document({"server.api_keys": ["sesame"], "server.admin.token": ADMIN}, SERVED)
    with serve(key, TOKEN, base=base) as gateway:
        assert [scrape(gateway, each) for each in (None, "sesame", TOKEN + "x", TOKEN, ADMIN)] == [
            401,
            401,
            401,
            200,
            200,
        ]
        assert get(gateway, "/v1/models", authorization=f"Bearer {TOKEN}") == 401
        assert get(gateway, "/admin/api", authorization=f"Bearer {TOKEN}") == 401
    with serve(key, None, base=base) as gateway:
        assert [scrape(gateway, each) for each in (None, "sesame", ADMIN)] == [401, 200, 200]


@effect_of("server.metrics.token_file")
def test_the_token_may_lie_in_a_file(key: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    with serve(key, str(tmp_path / "token")) as gateway:
        assert scrape(gateway) == 401
        assert scrape(gateway, TOKEN) == 200


@effect_of("server.metrics.public")
def test_public_metrics_ask_for_nothing(key: str) -> None:
    base = document({"server.api_keys": ["sesame"]}, SERVED)
    for public, status in ((True, 200), (False, 401)):
        with serve(key, public, base=base) as gateway:
            assert scrape(gateway) == status


@effect_of("server.metrics.shared")
def test_numbers_are_shared_in_the_folder(key: str, tmp_path: Path) -> None:
    with serve(key, str(tmp_path / "shared")) as gateway:
        assert b"hedgerow_processes 1.0" in page(gateway)
        with serve(key, str(tmp_path / "shared")) as other:
            page(other)
            assert b"hedgerow_processes 2.0" in page(gateway)
    assert list((tmp_path / "shared").glob("*.metrics"))


def page(gateway: GatewayProcess) -> bytes:
    connection = http.client.HTTPConnection(*gateway.address, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read()
    finally:
        connection.close()
