"""Reload: when the file is read, what is kept, what is closed and when, what is said of a faulty one."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from msgspec import structs

from hedgerow.cli import reread
from hedgerow.config import load
from hedgerow.errors import ConfigError
from hedgerow.events import AttemptLaunched, CancelFailed
from hedgerow.gateway import reload_read
from hedgerow.gateway.blueprint import Blueprint, Certificate, Source, TracesBlueprint
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.reload import needs_restart
from hedgerow.gateway.reload_pools import INTERVAL as LOOKS
from hedgerow.gateway.reload_read import read_again
from hedgerow.gateway.reload_watch import INTERVAL, FileWatch, stamp_of
from hedgerow.http.client_tls import tls_context
from hedgerow.http.limits import Limits
from hedgerow.ledger.settings import LedgerSettings
from hedgerow.policy.cancelling import Probed
from hedgerow.testing import VirtualLoop, run_virtual
from tests.e2e.support import until
from tests.effects.support import SILENT
from tests.engine.scripted import JSON, Answer
from tests.unit.admin_support import ADMIN, Running, blueprint, play

WITH_C = {**ADMIN, "targets": {**ADMIN["targets"], "c": {"base_url": "http://c.example/v1"}}}
LEDGER = LedgerSettings(url="sqlite:///l.db", flush=0.5, keep=None, keep_hourly=None, queue=1 << 20)
LIMITED = Answer([(0.0, b"{}")], status=429, headers=[*JSON, (b"retry-after", b"30")])


def changed(**fields: Any) -> Blueprint:
    """The blueprint with other fields of its server."""
    start = blueprint()
    return msgspec.structs.replace(start, server=msgspec.structs.replace(start.server, **fields))


# --- when it is read -------------------------------------------------------------------------------------------------


def test_one_reading_at_a_time_and_who_asks_meanwhile_shares_the_next() -> None:
    async def story(running: Running) -> None:
        first = [running.reloader.ask("a") for _ in range(2)]
        assert first[0] is first[1]
        await asyncio.sleep(0.1)
        second = [running.reloader.ask("b") for _ in range(5)]
        assert second[0] is not first[0]
        assert len(set(second)) == 1
        await asyncio.gather(*first, *second)
        assert running.readings == [0.0, 0.5]
        await running.reloader.ask("c")
        assert running.readings == [0.0, 0.5, 1.0]

    play(story)


def test_what_was_read_before_a_change_is_read_again_for_whoever_asks_after_it() -> None:
    async def story(running: Running) -> None:
        running.reloader.ask("a")
        await asyncio.sleep(0.1)
        running.file = blueprint({"routes.slow": {"targets": ["b"]}})
        await running.reloader.ask("b")
        assert list(running.reloader.parts.hedgers) == ["fast", "slow"]

    play(story)


def test_a_fault_of_our_own_changes_nothing_and_does_not_end_reloading(caplog: pytest.LogCaptureFixture) -> None:
    async def story(running: Running) -> None:
        assert await running.reload(ZeroDivisionError("oops")) == ("hedgerow failed at it; its log says where",)
        assert await running.reload(blueprint({"routes.slow": {"targets": ["b"]}})) == ()
        assert "slow" in running.reloader.parts.hedgers

    play(story)
    assert "ZeroDivisionError" in caplog.text


def test_every_problem_and_what_waits_for_a_restart_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(running: Running) -> None:
        await running.reload(ConfigError(["x:1: this", "x:2: that"]))
        await running.reload(changed(port=9999))

    with caplog.at_level(logging.INFO, "hedgerow.gateway"):
        play(story)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [
        ("INFO", "reload: a test; reading hedgerow.yaml"),
        ("ERROR", "reload: x:1: this"),
        ("ERROR", "reload: x:2: that"),
        ("ERROR", "reload: nothing was changed; what was in force stays in force (a test)"),
        ("INFO", "reload: a test; reading hedgerow.yaml"),
        ("WARNING", "reload: a warning"),
        ("WARNING", "reload: server.listen is not applied: its change takes effect at a restart"),
        ("INFO", "reload: done, routes: 1, targets: 2 (a test)"),
    ]


def test_a_signal_is_answered_in_the_log_where_nothing_can_be_reloaded(caplog: pytest.LogCaptureFixture) -> None:
    async def story(running: Running) -> None:
        running.reloader.signalled()
        assert running.readings == []

    play(story, {"server.reload": "off"})
    play(story, source=False)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        "SIGHUP: server.reload is off: changes take effect at a restart",
        "SIGHUP: there is no file to reload: this gateway was started from the API keys in its environment",
    ]


def test_a_signal_reloads() -> None:
    async def story(running: Running) -> None:
        running.reloader.signalled()
        await asyncio.sleep(1)
        assert running.readings == [0.0]

    play(story, {"server.reload": "signal"})


# --- when it is looked at --------------------------------------------------------------------------------------------


def written(path: Path, text: str, at: int) -> None:
    """The file with this text, written at this second."""
    path.write_text(text)
    os.utime(path, (at, at))


def test_a_change_is_noticed_once_it_was_the_same_at_two_looks(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    written(path, "one", 1)

    async def main(loop: VirtualLoop) -> None:
        noticed: list[float] = []
        watch = FileWatch(str(path), stamp_of(str(path)), lambda: noticed.append(loop.time()), loop)
        watch.start()
        watch.start()
        await asyncio.sleep(10 * INTERVAL + 0.1)
        assert noticed == []
        for second in range(2, 6):  # written piece by piece
            written(path, "two" * second, second)
            await asyncio.sleep(INTERVAL)
        assert noticed == []
        await asyncio.sleep(10 * INTERVAL)
        assert noticed == [15 * INTERVAL]
        path.unlink()
        await asyncio.sleep(3 * INTERVAL)
        assert noticed == [15 * INTERVAL]
        written(path, "three", 7)
        await asyncio.sleep(3 * INTERVAL)
        assert len(noticed) == 2
        watch.stop()
        written(path, "four", 8)
        await asyncio.sleep(3 * INTERVAL)
        assert len(noticed) == 2

    run_virtual(main)


def test_a_file_of_the_same_size_and_time_that_was_put_in_its_place_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "x.yaml", tmp_path / "y.yaml"
    written(path, "one", 1)
    before = stamp_of(str(path))
    written(other, "two", 1)
    other.replace(path)
    assert stamp_of(str(path)) != before
    assert stamp_of(str(tmp_path / "nothing")) is None


def test_a_change_before_the_first_look_is_noticed_and_one_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "hedgerow.yaml"
    written(path, "one", 1)
    stamp = stamp_of(str(path))
    written(path, "two", 2)

    async def story(running: Running) -> None:
        await asyncio.sleep(3 * INTERVAL)
        assert running.readings == [2 * INTERVAL]
        written(path, "three", 3)
        await running.reload(blueprint())
        await asyncio.sleep(10 * INTERVAL)
        assert len(running.readings) == 2

    play(story, file=path, stamp=stamp)


def test_a_file_beside_it_is_watched_as_well_though_it_is_not_there_yet(tmp_path: Path) -> None:
    path, beside = tmp_path / "hedgerow.yaml", tmp_path / "hedgerow.probes.json"
    written(path, "one", 1)

    async def story(running: Running) -> None:
        await asyncio.sleep(3 * INTERVAL)
        assert running.readings == []
        written(beside, "found", 2)
        await asyncio.sleep(3 * INTERVAL)
        assert len(running.readings) == 1
        await asyncio.sleep(3 * INTERVAL)
        assert len(running.readings) == 1

    play(story, file=path, stamp=stamp_of(str(path)), beside=(str(beside), None))


FAILS, WORKS = Probed(False, True, "400 tokens more", "2026-12-01"), Probed(True, True, "it says so", "2026-12-02")


def test_news_of_how_a_target_cancels_is_told_once() -> None:
    def knowing(probed: Probed | None) -> Blueprint:
        told = blueprint()
        targets = {**told.targets, "a": structs.replace(told.targets["a"], probed=probed)}
        return structs.replace(told, targets=targets)

    async def story(running: Running) -> None:
        for probed in (None, WORKS, FAILS, FAILS, WORKS, FAILS, None):
            assert await running.reload(knowing(probed)) == ()
        told = [(each.target, each.fails, each.detail) for each in running.of(CancelFailed)]
        assert told == [
            ("a", True, FAILS.detail),
            ("a", False, WORKS.detail),
            ("a", True, FAILS.detail),
            ("a", False, "the probe that said otherwise is no longer valid"),
        ]
        _, view = running.ask("GET", "/admin/api/targets")
        nothing = {"streams_stop": None, "whole_answers_stop": None, "detail": None, "probed_at": None}
        billed = {"stream": "generated", "whole": "generated", "from": "default"}
        assert view["targets"][0]["cancel"] == {**nothing, "on_failure": "warn", "billed": billed}
        assert view["targets"][0]["price"] == {"from": "none", "input": None, "output": None, "by_model": False}

    play(story)


@pytest.mark.parametrize("reload", ["signal", "off"])
def test_nobody_looks_where_that_is_not_asked_for(reload: str, tmp_path: Path) -> None:
    path = tmp_path / "hedgerow.yaml"
    written(path, "one", 1)

    async def story(running: Running) -> None:
        await asyncio.sleep(10 * INTERVAL)
        assert running.readings == []

    play(story, {"server.reload": reload}, file=path)


def test_a_reload_may_end_the_looking_and_begin_it(tmp_path: Path) -> None:
    path = tmp_path / "hedgerow.yaml"
    written(path, "one", 1)

    async def story(running: Running) -> None:
        await running.reload(blueprint({"server.reload": "signal"}))
        written(path, "two", 2)
        await asyncio.sleep(10 * INTERVAL)
        assert len(running.readings) == 1
        await running.reload(blueprint({"server.reload": "watch"}))
        written(path, "three", 3)
        await asyncio.sleep(10 * INTERVAL)
        assert len(running.readings) == 3

    play(story, file=path, stamp=stamp_of(str(path)))


# --- what is in force ------------------------------------------------------------------------------------------------


def test_requests_under_way_keep_their_route_and_new_ones_take_the_new() -> None:
    async def story(running: Running) -> None:
        old = running.chat()
        await running.reload(blueprint({"routes.<name>.targets": ["c", "a"]}, WITH_C))
        new = running.chat()
        await asyncio.sleep(10)
        assert [exchange.answer_headers[b"x-hedgerow-target"] for exchange in (old, new)] == [b"b", b"c"]

    play(story, scripts={"a": SILENT})


def test_keys_limits_and_routes_are_the_new_ones_at_once() -> None:
    async def story(running: Running) -> None:
        assert running.ask("GET", "/v1/models", token=None)[0] == 200
        token = {"admin": {"token": "another-admin-token"}, "api_keys": ["ck-1"]}
        await running.reload(
            blueprint({"server": {**token, "limits": {"held_bytes": "2KiB"}}, "routes.x.targets": ["a"]})
        )
        assert running.ask("GET", "/v1/models", token=None)[0] == 401
        models = running.ask("GET", "/v1/models", token="ck-1")[1]["data"]
        assert [model["id"] for model in models] == ["fast", "x"]
        assert running.gateway.limits.held_bytes == 2048
        assert running.ask("GET", "/admin/api")[0] == 401
        assert running.ask("GET", "/admin/api", token="another-admin-token")[0] == 200
        await running.reload(blueprint({"server": {"api_keys": ["ck-2"]}}))
        assert running.ask("GET", "/admin/api", token="another-admin-token")[0] == 404
        assert [running.ask("GET", "/v1/models", token=key)[0] for key in ("ck-1", "ck-2")] == [401, 200]
        await running.reload(blueprint({"server": {}}))
        assert running.ask("GET", "/v1/models", token=None)[0] == 200

    play(story)


def test_balances_and_statistics_of_a_route_that_stays_are_kept() -> None:
    poor = {"delay": "1s", "budget": "0.1%", "burst": 2, "per_minute": 0}

    async def story(running: Running) -> list[int]:
        hedges = []
        for delay in ("1s", "2s", "3s", "4s"):
            await running.reload(blueprint({"routes.<name>.hedge": {**poor, "delay": delay}}))
            before = len(running.events)
            running.chat()
            await asyncio.sleep(10)
            roles = [each.role for each in running.events[before:] if isinstance(each, AttemptLaunched)]
            hedges.append(len(roles) - 1)
        return hedges

    assert play(story, {"routes.<name>.hedge": poor}, scripts={"a": SILENT}) == [1, 1, 0, 0]


def test_who_is_out_stays_out() -> None:
    async def story(running: Running) -> None:
        running.chat()
        await asyncio.sleep(1)
        before = running.ask("GET", "/admin/api/targets")[1]["targets"][0]["out_for"]
        assert before == 29.0
        await running.reload(blueprint({"routes.<name>.hedge.delay": "3s"}))
        assert running.ask("GET", "/admin/api/targets")[1]["targets"][0]["out_for"] == 28.5
        running.chat()
        await asyncio.sleep(1)
        assert running.asked() == {"a": 1, "b": 2}

    play(story, scripts={"a": LIMITED})


@pytest.mark.parametrize(
    ("server", "keys"),
    [
        ({}, []),
        ({"host": None}, ["server.listen"]),
        ({"port": 1}, ["server.listen"]),
        ({"reuse_port": True}, ["server.reuse_port"]),
        ({"certificate": Certificate(cert="c", key="k")}, ["server.tls"]),
        ({"event_log": "x"}, ["server.event_log"]),
        ({"redis": "redis://x"}, ["server.redis"]),
        ({"ledger": LEDGER}, ["server.ledger"]),
        ({"traces": TracesBlueprint()}, ["server.traces"]),
        ({"log_format": "json", "access_log": True}, ["server.log_format", "server.access_log"]),
        ({"http": Limits(header_bytes=1)}, ["server.limits.header_bytes"]),
        ({"http": Limits(body_bytes=1)}, ["server.limits.body_bytes"]),
        ({"http": Limits(header_timeout=1)}, ["server.timeouts.header"]),
        ({"http": Limits(body_timeout=1)}, ["server.timeouts.body"]),
        ({"http": Limits(idle_timeout=1)}, ["server.timeouts.idle"]),
        (
            {
                "drain": 1.0,
                "held_bytes": 1,
                "answer_bytes": 1,
                "replay_bytes": 1,
                "log_level": "error",
                "reload": "off",
            },
            [],
        ),
        ({"api_keys": ("k",), "admin_token": "t"}, []),
        ({"port": 1, "reuse_port": True}, ["server.listen", "server.reuse_port"]),
    ],
)
def test_what_cannot_change_in_a_running_process_is_named(server: Mapping[str, Any], keys: list[str]) -> None:
    start = blueprint().server
    assert list(needs_restart(start, msgspec.structs.replace(start, **server))) == keys


def test_every_setting_of_the_server_is_either_applied_or_named() -> None:
    applied = {"api_keys", "held_bytes", "answer_bytes", "replay_bytes", "drain", "log_level", "admin_token", "reload"}
    applied |= {"metrics_tokens"}
    named = {"host", "port", "reuse_port", "certificate", "http", "event_log", "redis", "ledger"}
    named |= {"metrics", "metrics_shared"}
    applied.add("prices_every")
    named |= {"traces", "log_format", "access_log"}
    assert applied | named == set(blueprint().server.__struct_fields__)


def test_what_waits_for_a_restart_is_named_until_it_is_as_it_was_at_the_start() -> None:
    async def story(running: Running) -> None:
        for port, keys in ((9999, ("server.listen",)), (9999, ("server.listen",)), (8080, ())):
            running.file = changed(port=port)
            assert (await running.reloader.ask("a test")).needs_restart == keys

    play(story)


def test_the_log_level_is_the_new_one() -> None:
    async def story(running: Running) -> None:
        for level, number in (("debug", logging.DEBUG), ("error", logging.ERROR)):
            await running.reload(blueprint({"server.log_level": level}))
            assert logging.getLogger().level == number
            assert running.gateway.debug is (level == "debug")

    before = logging.getLogger().level
    try:
        play(story)
    finally:
        logging.getLogger().setLevel(before)


# --- connections -----------------------------------------------------------------------------------------------------


def test_connections_to_a_target_whose_settings_for_them_stay_are_kept() -> None:
    async def story(running: Running) -> None:
        others = {"targets.a.model": "m-2", "targets.a.api_key": "sk-2", "routes.x.targets": ["b", "a"]}
        await running.reload(blueprint(others))
        assert [pool.name for pool in running.pools] == ["a", "b"]
        running.chat()
        await asyncio.sleep(1)
        (head,) = (head for _, head, _ in running.pools[0].requests)
        assert b"sk-2" in head
        assert all(pool.closed_at is None for pool in running.pools)

    play(story)


@pytest.mark.parametrize(
    "change",
    [
        {"targets.a.base_url": "http://elsewhere.example/v1"},
        {"targets.a.base_url": "http://a.example:81/v1"},
        {"targets.a.connections": {"max": 7}},
        {"targets.a.tls": {"verify": False}},
    ],
)
def test_connections_that_nobody_needs_any_more_are_closed(change: Mapping[str, object]) -> None:
    async def story(running: Running) -> None:
        await running.reload(blueprint(change))
        assert [pool.name for pool in running.pools] == ["a", "b", "a"]
        await asyncio.sleep(LOOKS + 0.1)
        assert [pool.closed_at for pool in running.pools] == [0.5 + LOOKS, None, None]

    play(story)


def test_a_ca_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    written(ca, "one", 1)

    async def story(running: Running) -> None:
        trusting = blueprint({"targets.a.tls": {"ca_file": str(ca)}})
        await running.reload(trusting)
        await running.reload(trusting)
        assert len(running.pools) == 3
        written(ca, "two", 2)
        await running.reload(trusting)
        assert len(running.pools) == 4

    play(story)


def test_what_is_trusted_follows_the_file(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"

    def subjects() -> set[str]:
        return {str(each["subject"]) for each in tls_context(str(ca), True).get_ca_certs()}

    trustme.CA(organization_name="one").cert_pem.write_to_path(ca)
    one = tls_context(str(ca), True)
    assert tls_context(str(ca), True) is one
    assert "one" in str(subjects())
    ca.unlink()
    trustme.CA(organization_name="two").cert_pem.write_to_path(ca)
    assert "two" in str(subjects())
    ca.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        tls_context(str(ca), True)


def test_connections_live_as_long_as_a_request_that_may_still_hedge_or_fail_over_to_them() -> None:
    async def story(running: Running) -> None:
        slow = running.chat()
        await running.reload(blueprint({"targets.b.base_url": "http://elsewhere.example/v1"}))
        await asyncio.sleep(1.2)
        old, new = (pool for pool in running.pools if pool.name == "b")
        assert (slow.outcome, old.closed_at) == (None, None)
        await asyncio.sleep(2)  # hedged, to where it was when the request came
        assert (slow.outcome, len(old.requests), len(new.requests)) == ("whole", 1, 0)
        await asyncio.sleep(2 * LOOKS)
        assert old.closed_at is not None
        assert new.closed_at is None
        running.chat()
        await asyncio.sleep(5)
        assert (len(old.requests), len(new.requests)) == (1, 1)

    play(story, scripts={"a": SILENT})


def test_a_request_that_began_after_the_reload_keeps_no_old_connections() -> None:
    async def story(running: Running) -> None:
        await running.reload(blueprint({"targets.b.base_url": "http://elsewhere.example/v1"}))
        running.chat()
        await asyncio.sleep(LOOKS + 0.1)
        assert running.pools[1].closed_at == 0.5 + LOOKS

    play(story, {"routes.<name>.hedge.delay": "off"}, scripts={"a": SILENT})


def test_a_target_that_cannot_be_made_changes_nothing() -> None:
    async def story(running: Running) -> None:
        before = running.gateway.parts
        faulty = blueprint({"targets.b.base_url": "http://x.example/v1", "targets.a.proxy": "http://p.example:1"})
        assert await running.reload(faulty) == ("targets.a.proxy: not here",)
        assert running.gateway.parts is before
        assert running.chat().status is None
        await asyncio.sleep(LOOKS * 3)
        assert all(pool.closed_at is None for pool in running.pools)
        assert len(running.pools[0].requests) == 1

    play(story)


def test_nothing_is_left_after_many_reloads() -> None:
    async def story(running: Running) -> None:
        running.takes = 0.01
        for number in range(100):
            running.chat()
            host = f"http://b{number}.example/v1"
            assert await running.reload(blueprint({"targets.b.base_url": host})) == ()
        await asyncio.sleep(400)
        assert [pool.name for pool in running.pools if pool.closed_at is None] == ["a", "b"]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert running.gateway.flights == set()

    play(story, {"server.reload": "signal"})


# --- the reader ------------------------------------------------------------------------------------------------------


def source(code: str) -> Source:
    """A source whose reader runs this."""
    return Source(file="x.yaml", stamp=None, reader=(sys.executable, "-c", code))


def problems(source: Source) -> list[str]:
    """What is wrong."""
    with pytest.raises(ConfigError) as caught:
        asyncio.run(read_again(source))
    return caught.value.problems


def test_a_reader_that_succeeds_gives_a_blueprint_and_warnings(tmp_path: Path) -> None:
    file = tmp_path / "blueprint"
    file.write_bytes(msgspec.msgpack.encode(blueprint()))
    code = f"import sys; sys.stdout.buffer.write(open({str(file)!r}, 'rb').read()); print('one\\ntwo', file=sys.stderr)"
    found, warnings = asyncio.run(read_again(source(code)))
    assert found == blueprint()
    assert warnings == ("one", "two")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; print('x:1: a\\nx:2: b', file=sys.stderr); sys.exit(2)", ["x:1: a", "x:2: b"]),
        ("1 / 0", ["x.yaml: the reader failed with code 1: ZeroDivisionError: division by zero"]),
        ("import os; os.kill(os.getpid(), 9)", ["x.yaml: the reader failed with code -9"]),
        ("import sys; sys.exit(3)", ["x.yaml: the reader failed with code 3"]),
        ("print('no blueprint')", [f"x.yaml: {reload_read._UPDATED}"]),
        ("pass", [f"x.yaml: {reload_read._UPDATED}"]),
    ],
)
def test_a_reader_that_fails_says_why(code: str, told: list[str]) -> None:
    assert problems(source(code)) == told


def test_a_reader_that_is_not_there_is_a_problem_too() -> None:
    nowhere = Source(file="x.yaml", stamp=None, reader=("/nowhere/python",))
    assert problems(nowhere) == ["the reader cannot be started: No such file or directory"]


SLOW = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


def test_a_reader_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload_read, "PATIENCE", 1.0)
    file = tmp_path / "pid"
    slow = Source(file="x.yaml", stamp=None, reader=(sys.executable, "-c", SLOW, str(file)))
    assert problems(slow) == ["the reader took more than 1 s"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_a_reader_whose_reload_is_given_up_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    slow = Source(file="x.yaml", stamp=None, reader=(sys.executable, "-c", SLOW, str(file)))

    async def story() -> None:
        reading = asyncio.ensure_future(read_again(slow))
        await asyncio.to_thread(until, lambda: file.exists() and bool(file.read_text()))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(story())
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


YAML = """\
targets: {a: {base_url: "http://a.example/v1", api_key: sk-a}}
routes: {fast: {targets: [a], hedge: {delay: 2}}}
server: {listen: "0.0.0.0:8080"}
"""


def test_the_reader_reads_what_serve_reads(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(YAML)
    assert reread.main([str(file)]) == 0
    out, err = capfdbinary.readouterr()
    settings = load(file)
    assert msgspec.msgpack.decode(out, type=Blueprint) == blueprint_of(settings)
    assert err.decode().splitlines() == settings.warnings
    assert settings.warnings

    assert reread.main([str(file), "127.0.0.1:9"]) == 0
    out, err = capfdbinary.readouterr()
    server = msgspec.msgpack.decode(out, type=Blueprint).server
    assert (server.host, server.port) == ("127.0.0.1", 9)
    assert len(err.splitlines()) < len(settings.warnings)  # an address of this machine only needs no keys


def test_the_reader_says_all_that_is_wrong(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(YAML.replace("[a]", "[x]").replace("delay: 2", "delay: soon"))
    assert reread.main([str(file)]) == 2
    out, err = capfdbinary.readouterr()
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert (out, err.decode().splitlines()) == (b"", caught.value.problems)
    assert len(caught.value.problems) == 2
