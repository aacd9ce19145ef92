"""server.*: what clients of the serving process notice. What is held per attempt is seen in virtual time."""

from __future__ import annotations

import http.client
import json
import select
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from hedgerow.lab.process import LabProcess
from tests.e2e.support import GatewayProcess, script, until
from tests.effects.support import BASE, HELLO, QUICK, WHOLE, Document, asked, document, effect_of, play, settings, token
from tests.engine.scripted import JSON, Answer

e2e = pytest.mark.e2e

SERVED: Document = {**BASE, "server": {"listen": "127.0.0.1:0"}}
WHILE = 0.5
"""Seconds in which something that is not to happen does not happen."""


def serve(key: str, value: object, *, base: Document = SERVED) -> GatewayProcess:
    return GatewayProcess(document({key: value}, base))


def get(gateway: GatewayProcess, path: str = "/livez", **headers: str) -> int:
    """The status of a GET."""
    connection = http.client.HTTPConnection(*gateway.address, timeout=10)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


def post(gateway: GatewayProcess, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Status and body of a chat completion."""
    connection = http.client.HTTPConnection(*gateway.address, timeout=30)
    try:
        connection.request("POST", "/v1/chat/completions", body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# --- where, and as whom ----------------------------------------------------------------------------------------------


@e2e
@effect_of("server.listen")
def test_it_listens_where_it_is_told(key: str) -> None:
    with serve(key, "127.0.0.2:0") as gateway:
        host, port = gateway.address
        assert host == "127.0.0.2"
        assert get(gateway) == 200
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


class Certified:
    """Two certificates of one authority, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.folder = folder
        self.certificates = {}
        for name in ("one", "two"):
            certificate = self.authority.issue_cert("127.0.0.1")
            certificate.private_key_pem.write_to_path(folder / f"{name}.key")
            certificate.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
            self.certificates[name] = certificate.cert_chain_pems[0].bytes().decode()

    def tls(self, cert: str, key: str) -> dict[str, str]:
        return {"cert": str(self.folder / f"{cert}.pem"), "key": str(self.folder / f"{key}.key")}


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


@e2e
@effect_of("server.tls.cert")
@pytest.mark.parametrize("name", ["one", "two"])
def test_clients_are_shown_the_certificate(key: str, name: str, certified: Certified) -> None:
    base = document({"server.tls": certified.tls("one", name)}, SERVED)
    with serve(key, certified.tls(name, name)["cert"], base=base) as gateway:
        assert gateway.url.startswith("https://")
        context = ssl.create_default_context()
        certified.authority.configure_trust(context)
        with (
            socket.create_connection(gateway.address) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
        ):
            shown = client.getpeercert(binary_form=True)
        assert shown is not None
        assert ssl.DER_cert_to_PEM_cert(shown).strip() == certified.certificates[name].strip()


@e2e
@effect_of("server.tls.key")
def test_a_key_of_another_certificate_is_refused(key: str, certified: Certified) -> None:
    base = document({"server.tls": certified.tls("one", "one")}, SERVED)
    with pytest.raises(AssertionError, match="cannot be used"):
        serve(key, certified.tls("one", "two")["key"], base=base)


@e2e
@effect_of("server.api_keys")
def test_only_clients_with_a_key_are_served(key: str) -> None:
    with serve(key, ["sesame"]) as gateway:
        assert get(gateway, "/v1/models") == 401
        assert get(gateway, "/v1/models", authorization="Bearer sesam") == 401
        assert get(gateway, "/v1/models", authorization="Bearer sesame") == 200
        assert get(gateway, "/v1/models", x_api_key="sesame") == 200
    with serve(key, []) as gateway:
        assert get(gateway, "/v1/models") == 200


TOKEN = "an-admins-own-token"


@e2e
@effect_of("server.admin.token")
def test_the_admin_api_opens_to_its_token_only(key: str) -> None:
    with serve(key, TOKEN) as gateway:
        assert get(gateway, "/admin/api", authorization=f"Bearer {TOKEN}") == 200
        assert get(gateway, "/admin/api", authorization=f"Bearer {TOKEN}x") == 401
        assert get(gateway, "/admin/api") == 401
    with serve(key, None) as gateway:
        assert get(gateway, "/admin/api", authorization=f"Bearer {TOKEN}") == 404


@e2e
@effect_of("server.admin.token_file")
def test_the_admin_token_may_lie_in_a_file(key: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    with serve(key, str(file)) as gateway:
        assert get(gateway, "/admin/api", authorization=f"Bearer {TOKEN}") == 200
        assert get(gateway, "/admin/api", authorization="Bearer other") == 401


@e2e
@effect_of("server.reload")
@pytest.mark.parametrize(
    ("when", "by_signal"), [("watch", False), ("signal", True), ("off", None)], ids=["watch", "signal", "off"]
)
def test_a_changed_file_is_read_again(key: str, when: str, by_signal: bool | None) -> None:
    with serve(key, when) as gateway:
        gateway.rewrite(document({key: when, "server.api_keys": ["sesame"]}, SERVED))
        if by_signal is not False:
            gateway.process.send_signal(signal.SIGHUP)
        if by_signal is None:
            until(lambda: "SIGHUP: server.reload is off" in gateway.log)
            assert get(gateway, "/v1/models") == 200
        else:
            until(lambda: get(gateway, "/v1/models") == 401)


@e2e
@effect_of("server.reuse_port")
def test_several_can_share_a_port(key: str) -> None:
    with serve(key, True) as first:
        port = first.address[1]
        with serve(key, True, base=document({"server.listen": f"127.0.0.1:{port}"}, SERVED)) as second:
            assert second.address == first.address
        with pytest.raises(AssertionError, match="address already in use"):
            serve(key, False, base=document({"server.listen": f"127.0.0.1:{port}"}, SERVED))


@effect_of("server.default_route")
@pytest.mark.parametrize(("route", "target"), [(None, "a"), ("slow", "b")])
def test_requests_without_a_model_take_the_default_route(key: str, route: str | None, target: str) -> None:
    base = document({"routes.slow": {"targets": ["b"]}})
    changes = {} if route is None else {key: route}
    pools, _ = play(settings(changes, base=base), {}, b'{"purpose":"x"}', path=b"/v1/files")
    assert asked(pools) == [(target, 0.0)]


@e2e
@effect_of("server.log_level")
@pytest.mark.parametrize(("level", "told"), [("info", True), ("warning", False)])
def test_less_is_logged_at_a_higher_level(key: str, level: str, told: bool) -> None:
    with serve(key, level) as gateway:
        gateway.terminate()
        assert gateway.wait() == 0
        assert ("draining: 0 requests" in gateway.log) == told


# --- limits ----------------------------------------------------------------------------------------------------------


@e2e
@effect_of("server.limits.header_bytes")
@pytest.mark.parametrize(("limit", "status"), [("1KiB", 431), ("64KiB", 200)])
def test_a_head_beyond_header_bytes_is_refused(key: str, limit: str, status: int) -> None:
    with serve(key, limit) as gateway:
        assert get(gateway, x_long="x" * 2000) == status


@e2e
@effect_of("server.limits.body_bytes")
@pytest.mark.parametrize(("limit", "status"), [("1KiB", 413), ("64MiB", 404)])
def test_a_body_beyond_body_bytes_is_refused(key: str, limit: str, status: int) -> None:
    with serve(key, limit) as gateway:
        assert post(gateway, b'{"model":"nobody","x":"%b"}' % (b"x" * 2000))[0] == status


@effect_of("server.limits.held_bytes")
@pytest.mark.parametrize(("limit", "target"), [("1KiB", b"b"), ("4MiB", b"a")])
def test_an_attempt_that_holds_more_than_held_bytes_fails(key: str, limit: str, target: bytes) -> None:
    """gRPC commits to the attempt whose buffer is full; that much came is no sign of an answer."""
    babbling = Answer([(0.0, b": %b\n\n" % (b"x" * 2000)), (0.1, token("hello"))])
    _, client = play(settings({key: limit}), {"a": babbling, "b": QUICK})
    assert client.answer_headers[b"x-hedgerow-target"] == target


@effect_of("server.limits.answer_bytes")
@pytest.mark.parametrize(("limit", "target"), [("1KiB", b"b"), ("64MiB", b"a")])
def test_a_whole_answer_beyond_answer_bytes_fails(key: str, limit: str, target: bytes) -> None:
    long, short = (Answer([(0.0, HELLO.replace(b"hello", b"x" * size))], headers=JSON) for size in (2000, 5))
    _, client = play(settings({key: limit}), {"a": long, "b": short}, WHOLE)
    assert client.answer_headers[b"x-hedgerow-target"] == target


# --- patience --------------------------------------------------------------------------------------------------------


def said(client: socket.socket, *, expected: bool) -> bytes | None:
    """What the server says next, b"" when it closes; None when it does neither for as long as one can wait."""
    readable, _, _ = select.select([client], [], [], 10 if expected else WHILE)
    return client.recv(65536) if readable else None


def refused(gateway: GatewayProcess, unfinished: bytes, *, expected: bool) -> bool:
    """Whether the server loses patience with the rest of a request."""
    with socket.create_connection(gateway.address) as client:
        client.sendall(unfinished)
        answer = said(client, expected=expected)
    assert answer is None or answer.startswith(b"HTTP/1.1 408 ")
    return answer is not None


@e2e
@effect_of("server.timeouts.header")
@pytest.mark.parametrize(("limit", "late"), [("100ms", True), ("10s", False)])
def test_a_head_must_come_within_the_header_timeout(key: str, limit: str, late: bool) -> None:
    with serve(key, limit) as gateway:
        assert refused(gateway, b"GET /livez HTTP/1.1\r\nhost:", expected=late) == late


@e2e
@effect_of("server.timeouts.body")
@pytest.mark.parametrize(("limit", "late"), [("100ms", True), ("60s", False)])
def test_a_body_must_come_within_the_body_timeout(key: str, limit: str, late: bool) -> None:
    with serve(key, limit) as gateway:
        half = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf"
        assert refused(gateway, half, expected=late) == late


@e2e
@effect_of("server.timeouts.idle")
@pytest.mark.parametrize(("limit", "closed"), [("100ms", True), ("75s", False)])
def test_an_unused_connection_is_closed_after_the_idle_timeout(key: str, limit: str, closed: bool) -> None:
    with serve(key, limit) as gateway, socket.create_connection(gateway.address) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert said(client, expected=closed) == (b"" if closed else None)


@pytest.fixture(scope="module")
def lab() -> Iterator[LabProcess]:
    with LabProcess([]) as process:
        yield process


@e2e
@effect_of("server.timeouts.drain")
@pytest.mark.parametrize(("limit", "code"), [("100ms", 1), ("30s", 0)])
def test_requests_under_way_get_the_drain_timeout(key: str, limit: str, code: int, lab: LabProcess) -> None:
    base: Document = {
        "targets": {"a": {"base_url": lab.base_url}},
        "routes": {"fast": {"targets": ["a"]}},
        "server": {"listen": "127.0.0.1:0"},
    }
    answers: list[int] = []

    def ask() -> None:
        try:
            answers.append(post(gateway, WHOLE, {"x-lab-script": script(ttft_ms=800, gap_ms=0, tokens=1)})[0])
        except (ConnectionError, http.client.HTTPException):
            answers.append(0)

    with serve(key, limit, base=base) as gateway:
        client = threading.Thread(target=ask)
        client.start()
        until(lambda: lab.stats()["open"] == 1)
        gateway.terminate()
        assert gateway.wait() == code
        client.join()
        assert answers == [0 if code else 200]


@e2e
@effect_of("server.event_log")
def test_what_happens_is_written_to_the_event_log(key: str, lab: LabProcess, tmp_path: Path) -> None:
    base: Document = {
        "targets": {"a": {"base_url": lab.base_url}},
        "routes": {"fast": {"targets": ["a"]}},
        "server": {"listen": "127.0.0.1:0"},
    }
    log = tmp_path / "events.jsonl"
    with serve(key, str(log), base=base) as gateway:
        assert post(gateway, WHOLE, {"x-lab-script": script(ttft_ms=0, gap_ms=0, tokens=1)})[0] == 200
    events = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [each["event"] for each in events] == [
        "request_started",
        "attempt_launched",
        "first_token",
        "attempt_ended",
        "request_finished",
        "request_billed",
    ]
    assert events[3]["usage"]["source"] == "reported"


@e2e
@effect_of("server.redis")
def test_what_is_kept_is_told_to_redis(key: str, lab: LabProcess) -> None:
    base: Document = {
        "targets": {name: {"base_url": lab.base_url} for name in "ab"},
        "routes": {"fast": {"targets": ["a", "b"], "hedge": {"mode": "race"}, "losers": "keep"}},
        "server": {"listen": "127.0.0.1:0"},
    }
    with socket.create_server(("127.0.0.1", 0)) as redis:
        redis.settimeout(20)
        with serve(key, f"redis://127.0.0.1:{redis.getsockname()[1]}/0", base=base) as gateway:
            assert post(gateway, WHOLE, {"x-lab-script": script(ttft_ms=0, gap_ms=0, tokens=1)})[0] == 200
            with redis.accept()[0] as connection:
                assert connection.recv(1) == b"*"  # a command of Redis's protocol begins
