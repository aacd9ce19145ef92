"""The admin API: who may use it, what it shows, what it says to what it does not understand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hedgerow.errors import ConfigError
from hedgerow.events import Failure, FailureClass
from hedgerow.gateway.access import Token
from hedgerow.policy.ask import Ask
from tests.effects.support import SILENT, Document
from tests.unit.admin_support import ADMIN, TOKEN, Running, answer, blueprint, play

THERE = [
    "GET /admin/api",
    "PATCH /admin/api",
    "GET /admin/api/routes",
    "GET /admin/api/routes/{name}",
    "PATCH /admin/api/routes/{name}",
    "GET /admin/api/targets",
    "POST /admin/api/reload",
]
UNTOUCHED = {"kill_switch": False, "rollout": None, "delay": None, "budget": None}


def error(method: str, path: str, body: object = None, **more: Any) -> tuple[int, dict[str, Any]]:
    """Status and error of a request."""

    async def story(running: Running) -> tuple[int, dict[str, Any]]:
        status, told = running.ask(method, path, body, **more)
        return status, told["error"]

    return play(story)


# --- who -------------------------------------------------------------------------------------------------------------


def test_without_a_token_in_the_configuration_there_is_no_admin_api() -> None:
    async def story(running: Running) -> None:
        for path in ("/admin/api", "/admin/api/routes", "/admin/api/nothing"):
            status, told = running.ask("GET", path)
            assert (status, told["error"]["code"]) == (404, "no_admin")
            assert told["error"]["message"] == "There is no admin API here: set server.admin.token to have one."

    play(story, {"server": {}})


@pytest.mark.parametrize("token", [None, "", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "client-key"])
def test_only_the_token_opens_it(token: str | None) -> None:
    async def story(running: Running) -> None:
        for method, path in (("GET", "/admin/api"), ("PATCH", "/admin/api"), ("POST", "/admin/api/reload")):
            exchange = running.send(method, path, {"kill_switch": True}, token=token)
            status, told = answer(exchange)
            assert (status, told["error"]["code"]) == (401, "invalid_admin_token")
            assert exchange.answer_headers[b"www-authenticate"] == b'Bearer realm="hedgerow admin"'
        assert not running.gateway.controls.kill_switch
        assert running.readings == []

    play(story, {"server.api_keys": ["client-key"]})


def test_the_admin_token_is_no_clients_key_and_an_api_key_header_no_admins() -> None:
    async def story(running: Running) -> None:
        assert running.ask("GET", "/v1/models")[0] == 401
        exchange = running.send("GET", "/admin/api", token=None)
        exchange.headers.append((b"x-api-key", TOKEN.encode()))
        assert answer(exchange)[0] == 401

    play(story, {"server.api_keys": ["client-key"]})


def test_of_the_token_only_a_fingerprint_is_kept() -> None:
    token = Token(TOKEN)
    assert token.fingerprint == Token(TOKEN).fingerprint != Token(TOKEN + "x").fingerprint
    kept = [getattr(token, name) for name in token.__slots__]
    assert not any(TOKEN in str(each) or (isinstance(each, bytes) and TOKEN.encode() in each) for each in kept)


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_it_says_what_there_is() -> None:
    async def story(running: Running) -> None:
        status, told = running.ask("GET", "/admin/api")
        assert status == 200
        assert told.pop("version")
        assert told == {
            "draining": False,
            "in_flight": 0,
            "controls": UNTOUCHED,
            "config": {"file": "hedgerow.yaml", "reload": "watch"},
            "routes": ["fast"],
            "targets": ["a", "b"],
            "endpoints": THERE,
        }
        assert running.ask("GET", "/admin/api/?x=1")[1]["endpoints"] == THERE
        head = running.send("HEAD", "/admin/api")
        assert (head.status, head.answer_headers[b"cache-control"]) == (200, b"no-store")

    play(story)


def test_a_route_shows_its_targets_its_controls_and_what_is_under_way() -> None:
    async def story(running: Running) -> None:
        for _ in range(3):
            running.chat()
        status, told = running.ask("GET", "/admin/api/routes/fast")
        assert status == 200
        assert (told["name"], told["targets"], told["in_flight"]) == ("fast", ["a", "b"], 3)
        assert told["controls"] == UNTOUCHED
        assert told["delay"] == "2s"
        assert told["spend"]["route"]["hedges"]["balance"] == 50.0
        assert running.ask("GET", "/admin/api/routes") == (200, {"routes": [told]})
        assert running.ask("GET", "/admin/api")[1]["in_flight"] == 3
        await asyncio.sleep(600)
        assert running.ask("GET", "/admin/api/routes/fast")[1]["in_flight"] == 0

    play(story, scripts={"a": SILENT, "b": SILENT})


def test_hedges_under_way_are_seen_in_the_balance() -> None:
    async def story(running: Running) -> None:
        running.chat()
        await asyncio.sleep(2.5)
        told = running.ask("GET", "/admin/api/routes/fast")[1]
        assert told["spend"]["open"] == 0  # it won, and is paid
        assert (
            told["spend"]["route"]["hedges"]["balance"] == 49.008333
        )  # one of fifty, and half a second at one a minute

    play(story, scripts={"a": SILENT})


def test_names_of_routes_may_hold_anything() -> None:
    base: Document = {**ADMIN, "routes": {"openai/gpt-5*": {"targets": ["a"]}, "größe?": {"targets": ["b"]}}}

    async def story(running: Running) -> None:
        for path, name in (("openai/gpt-5*", "openai/gpt-5*"), ("openai%2Fgpt-5%2A", "openai/gpt-5*")):
            assert running.ask("GET", f"/admin/api/routes/{path}")[1]["name"] == name
        assert running.ask("GET", "/admin/api/routes/gr%C3%B6%C3%9Fe%3F")[1]["name"] == "größe?"

    play(story, base=base)


def test_a_target_that_is_out_says_for_how_long_and_a_broken_one_why() -> None:
    async def story(running: Running) -> None:
        parts = running.reloader.parts
        a, b = parts.hedgers["fast"].places
        hedger, ask = parts.hedgers["fast"], Ask("r", stream=True)
        hedger.failed(a, ask, Failure(FailureClass.RATE_LIMITED, "slow down", 429, retry_after=30.0), 0.0, 0.0)
        for at in range(20):
            hedger.failed(b, ask, Failure(FailureClass.SERVER_ERROR, "HTTP 500", 500), at / 10, at / 10)
        await asyncio.sleep(10)
        status, told = running.ask("GET", "/admin/api/targets")
        assert status == 200
        first, second = told["targets"]
        assert (first["name"], first["base_url"], first["out_for"]) == ("a", "http://a.example/v1", 20.0)
        assert first["quota"]["limited_for"] == 20.0
        assert second["out_for"] is None
        (breaker,) = second["breakers"]
        assert (breaker["state"], breaker["why"]) == ("open", "20 of the last 20 attempts failed")
        assert breaker["open_for"] == 1.9 + 30.0 - 10.0
        assert second["connections"] == {"open": 0, "idle": 0, "connecting": 0, "waiting": 0}

    play(story, {"targets.a.account": "one", "targets.b.account": "two"})


def test_nothing_that_is_shown_is_secret() -> None:
    secrets = {"targets.a.api_key": "sk-secret", "targets.a.headers": {"x-team": "hush"}, "server.api_keys": ["ck-1"]}

    async def story(running: Running) -> str:
        return "".join(running.send("GET", f"/admin/api{path}").text.decode() for path in ("", "/routes", "/targets"))

    shown = play(story, secrets)
    assert not [secret for secret in ("sk-secret", "hush", "ck-1", TOKEN) if secret in shown]


# --- what is not understood ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nothing", "/routes/fast%2Fx/..", "/targets/a", "/reload/now", "/%72outes"])
def test_elsewhere_is_nothing_and_the_answer_says_what_there_is(path: str) -> None:
    status, told = error("GET", f"/admin/api{path}")
    assert status == 404
    assert told["type"] == "not_found_error"
    assert "the routes are 'fast'" in told["message"] or told["message"].endswith(", ".join(THERE) + ".")


def test_an_unknown_route_is_answered_with_those_there_are() -> None:
    status, told = error("PATCH", "/admin/api/routes/fats", {"kill_switch": True})
    assert (status, told["code"]) == (404, "no_such_route")
    assert told["message"] == "There is no route 'fats'; the routes are 'fast'."


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "", "GET, PATCH"),
        ("DELETE", "/routes/fast", "GET, PATCH"),
        ("PATCH", "/routes", "GET"),
        ("PUT", "/targets", "GET"),
        ("GET", "/reload", "POST"),
        ("OPTIONS", "/reload", "POST"),
    ],
)
def test_another_method_is_answered_with_those_there_are(method: str, path: str, allowed: str) -> None:
    async def story(running: Running) -> None:
        exchange = running.send(method, f"/admin/api{path}")
        status, told = answer(exchange)
        assert (status, told["error"]["message"]) == (405, f"Allowed here: {allowed}.")
        assert exchange.answer_headers[b"allow"] == allowed.encode()

    play(story)


# --- reload ----------------------------------------------------------------------------------------------------------


def test_a_reload_is_answered_when_it_is_done() -> None:
    async def story(running: Running) -> None:
        running.file = blueprint({"routes.slow": {"targets": ["b"]}, "server.listen": ":9999"})
        exchange = running.send("POST", "/admin/api/reload")
        await asyncio.sleep(0.4)
        assert exchange.outcome is None
        await asyncio.sleep(0.2)
        told = {"reloaded": True, "needs_restart": ["server.listen"], "warnings": ["a warning"]}
        assert answer(exchange) == (200, told)
        assert running.ask("GET", "/admin/api")[1]["routes"] == ["fast", "slow"]

    play(story)


def test_a_faulty_file_is_answered_with_every_problem_and_changes_nothing() -> None:
    async def story(running: Running) -> None:
        before = running.gateway.parts
        running.file = ConfigError(["x.yaml:1: this", "x.yaml:7: that"])
        exchange = running.send("POST", "/admin/api/reload")
        await asyncio.sleep(1)
        status, told = answer(exchange)
        assert (status, told["error"]["code"]) == (422, "invalid_config")
        assert told["error"]["problems"] == ["x.yaml:1: this", "x.yaml:7: that"]
        assert told["error"]["message"].startswith("Nothing was changed: ")
        assert running.gateway.parts is before

    play(story)


@pytest.mark.parametrize(
    ("changes", "source", "why"),
    [
        ({}, False, "there is no file to reload: this gateway was started from the API keys in its environment"),
        ({"server.reload": "off"}, True, "server.reload is off: changes take effect at a restart"),
    ],
)
def test_where_nothing_can_be_reloaded_the_answer_says_why(changes: Document, source: bool, why: str) -> None:
    async def story(running: Running) -> None:
        status, told = running.ask("POST", "/admin/api/reload")
        assert (status, told["error"]["message"]) == (409, f"Nothing can be reloaded: {why}.")
        running.gateway.reloader = None
        assert running.ask("GET", "/admin/api")[1]["config"] == {"file": None, "reload": None}
        assert "another server's process" in running.ask("POST", "/admin/api/reload")[1]["error"]["message"]

    play(story, changes, source=source)


def test_who_waits_for_a_reload_is_told_when_the_gateway_stops() -> None:
    async def story(running: Running) -> None:
        exchange = running.send("POST", "/admin/api/reload")
        await asyncio.sleep(0.1)
        await running.reloader.stop()
        assert answer(exchange)[0] == 503

    play(story)
