"""New connections: DNS, happy eyeballs, TLS, proxies, and errors that name the phase and never a password."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from hedgerow.errors import ConfigError, ConnectFailed
from hedgerow.http import client_tls
from hedgerow.http.client import Origin, Pool, PoolSettings
from hedgerow.http.resolve import Address, Resolver, connect_first, interleave
from tests.unit.client_support import LOOPS, OK, Peer, Server, answer_ok, ask, on_both_loops, until


def fake_dns(answers: list[tuple[int, str]], port: int) -> list[Any]:
    return [(family, socket.SOCK_STREAM, 6, "", (address, port)) for family, address in answers]


class Names:
    """Stands in for a loop's getaddrinfo."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def getaddrinfo(self, host: str, port: int, **_: object) -> list[Any]:
        self.asked.append((host, port))
        await self.gate.wait()
        if not self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return fake_dns(self.answers, port)


# --- DNS -------------------------------------------------------------------------------------------------------------


class FakeLoop:
    """A running loop with another clock and another DNS."""

    def __init__(self, names: Names) -> None:
        self.now = 100.0
        self.getaddrinfo = names.getaddrinfo
        self.create_task = asyncio.get_running_loop().create_task

    def time(self) -> float:
        return self.now


def resolver_for(names: Names, host: str = "h", port: int = 80) -> tuple[Resolver, FakeLoop]:
    loop = FakeLoop(names)
    return Resolver(host, port, ttl=30.0, loop=loop), loop  # type: ignore[arg-type]  # only what a resolver uses


@on_both_loops
async def test_a_name_is_looked_up_again_after_its_ttl_and_after_forget() -> None:
    names = Names((socket.AF_INET, "10.0.0.1"))
    resolver, loop = resolver_for(names)
    assert await resolver.addresses() == [Address(socket.AF_INET, ("10.0.0.1", 80))]
    loop.now += 29.9
    await resolver.addresses()
    assert len(names.asked) == 1
    loop.now += 0.1
    names.answers = [(socket.AF_INET, "10.0.0.2")]
    assert await resolver.addresses() == [Address(socket.AF_INET, ("10.0.0.2", 80))]
    resolver.forget()
    await resolver.addresses()
    assert len(names.asked) == 3


@on_both_loops
async def test_concurrent_dials_share_a_lookup_and_a_cancel_takes_it_from_nobody() -> None:
    names = Names((socket.AF_INET, "10.0.0.1"))
    names.gate.clear()
    resolver, _ = resolver_for(names)
    first, second = asyncio.ensure_future(resolver.addresses()), asyncio.ensure_future(resolver.addresses())
    await asyncio.sleep(0)
    first.cancel()
    names.gate.set()
    assert len(await second) == 1
    assert len(names.asked) == 1
    assert first.cancelled()


@on_both_loops
async def test_a_failed_lookup_is_an_error_and_not_remembered() -> None:
    names = Names()
    resolver, _ = resolver_for(names)
    with pytest.raises(OSError, match="Name or service not known"):
        await resolver.addresses()
    names.answers = [(socket.AF_INET, "10.0.0.1")]
    assert len(await resolver.addresses()) == 1


@on_both_loops
async def test_an_address_needs_no_lookup() -> None:
    names = Names()
    for host, family in (("10.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        resolver, _ = resolver_for(names, host)
        (address,) = await resolver.addresses()
        assert (address.family, address.sockaddr[:2]) == (family, (host, 80))
    assert names.asked == []


def test_families_alternate_and_duplicates_go() -> None:
    a, b, c = (Address(socket.AF_INET6, (f"::{n}", 1)) for n in (1, 2, 3))
    x, y = (Address(socket.AF_INET, (f"10.0.0.{n}", 1)) for n in (1, 2))
    assert interleave([a, b, c, a, x, y]) == [a, x, b, y, c]
    assert interleave([x, y, a]) == [x, a, y]
    assert interleave([]) == []


@on_both_loops
async def test_addresses_that_refused_are_looked_up_again_by_the_next_request() -> None:
    async with Server() as server:
        names = Names((socket.AF_INET, "127.0.0.2"))  # nobody listens there
        pool = Pool(Origin("http", "moved.example", server.port))
        pool._connector._resolver, _ = resolver_for(names, "moved.example", server.port)
        assert isinstance(await ask(pool).failure(), ConnectFailed)
        names.answers = [(socket.AF_INET, "127.0.0.1")]
        assert await ask(pool).whole() == b"ok"
        assert names.asked == 2 * [("moved.example", server.port)]
        await pool.close()


# --- happy eyeballs --------------------------------------------------------------------------------------------------

NEVER = Address(socket.AF_INET, ("10.255.255.1", 1))
"""Stands for an address that answers nothing; the tests' loop never lets a connect to it end."""


class Eyes:
    """A loop whose sock_connect hangs for `NEVER` and counts the attempts."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.create_task = self._loop.create_task
        self.tried: list[Any] = []
        self.hung: list[socket.socket] = []

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self.tried.append(address)
        if address == NEVER.sockaddr:
            self.hung.append(sock)
            await asyncio.Event().wait()
        await self._loop.sock_connect(sock, address)


def refusing() -> tuple[socket.socket, Address]:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock, Address(socket.AF_INET, sock.getsockname())


@on_both_loops
async def test_the_next_address_is_tried_when_one_is_silent_and_the_silent_socket_is_closed() -> None:
    async with Server() as server:
        good = Address(socket.AF_INET, ("127.0.0.1", server.port))
        eyes = Eyes()
        sock = await connect_first([NEVER, good], loop=eyes, delay=0.01)  # type: ignore[arg-type]  # what it uses
        assert sock.getpeername() == good.sockaddr
        await until(lambda: eyes.hung[0].fileno() == -1)
        sock.close()


@on_both_loops
async def test_the_next_address_is_tried_at_once_when_one_refuses() -> None:
    closed, bad = refusing()
    async with Server() as server:
        with closed:
            good = Address(socket.AF_INET, ("127.0.0.1", server.port))
            sock = await connect_first([bad, good], loop=asyncio.get_running_loop(), delay=1e6)
            assert sock.getpeername() == good.sockaddr
            sock.close()


@on_both_loops
async def test_the_first_address_has_its_time_alone() -> None:
    async with Server() as server:
        good = Address(socket.AF_INET, ("127.0.0.1", server.port))
        eyes = Eyes()
        sock = await connect_first([good, NEVER], loop=eyes, delay=1e6)  # type: ignore[arg-type]  # what it uses
        assert eyes.tried == [good.sockaddr]
        sock.close()


@on_both_loops
async def test_when_all_refuse_every_address_is_named() -> None:
    closed, bad = refusing()
    with closed:
        with pytest.raises(OSError, match=r"^Connection refused \(127\.0\.0\.1\)$"):
            await connect_first([bad], loop=asyncio.get_running_loop())
        other = Address(socket.AF_INET, ("127.0.0.2", bad.sockaddr[1]))
        with pytest.raises(
            OSError, match=r"^Connection refused \(127\.0\.0\.1\); Connection refused \(127\.0\.0\.2\)$"
        ):
            await connect_first([bad, other], loop=asyncio.get_running_loop())


@on_both_loops
async def test_a_cancelled_race_closes_every_socket() -> None:
    eyes = Eyes()
    race = asyncio.ensure_future(connect_first([NEVER, NEVER], loop=eyes, delay=0))  # type: ignore[arg-type]
    await until(lambda: len(eyes.hung) == 2)
    race.cancel()
    await until(lambda: [sock.fileno() for sock in eyes.hung] == [-1, -1])


@on_both_loops
async def test_localhost_is_reached_whatever_it_resolves_to_first() -> None:
    async with Server() as server:
        pool = Pool(Origin("http", "localhost", server.port))
        assert await ask(pool).whole() == b"ok"
        await pool.close()


# --- errors and the timeout ------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_connect_error_names_host_port_phase_and_reason() -> None:
    closed, bad = refusing()
    with closed:
        pool = Pool(Origin("http", "127.0.0.1", bad.sockaddr[1]))
        error = await ask(pool).failure()
        assert isinstance(error, ConnectFailed)
        assert str(error) == (f"cannot connect to 127.0.0.1:{bad.sockaddr[1]}: TCP: Connection refused (127.0.0.1)")
        await pool.close()
    pool = Pool(Origin("http", "nowhere.invalid", 80))
    pool._connector._resolver, _ = resolver_for(Names())
    message = str(await ask(pool).failure())
    assert message == "cannot connect to nowhere.invalid:80: DNS: Name or service not known"
    await pool.close()


@on_both_loops
async def test_the_connect_timeout_names_the_phase_it_ended_in() -> None:
    async def silent(peer: Peer) -> None:
        await peer.closed()

    async with Server(silent) as server:
        settings = PoolSettings(connect_timeout=0.05)
        pool = Pool(Origin("https", "127.0.0.1", server.port), settings)
        error = await ask(pool).failure()
        assert str(error) == f"cannot connect to 127.0.0.1:{server.port}: TLS: no answer within 0.05 s"
        await until(lambda: server.open == 0)
        await pool.close()

        settings = PoolSettings(connect_timeout=0.05, proxy=f"http://127.0.0.1:{server.port}")
        pool = Pool(Origin("https", "api.example", 443), settings)
        assert str(await ask(pool).failure()) == (
            f"cannot connect to api.example:443 through proxy 127.0.0.1:{server.port}: proxy: no answer within 0.05 s"
        )
        await until(lambda: server.open == 0)
        await pool.close()


def test_an_unforeseen_fault_in_connecting_is_logged_and_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("hedgerow.http.connect.connect_first", broken)

    async def check() -> None:
        pool = Pool(Origin("http", "127.0.0.1", 1))
        assert str(await ask(pool).failure()) == "cannot connect to 127.0.0.1:1: RuntimeError"
        await pool.close()

    asyncio.run(check())
    assert "boom" in caplog.text


# --- TLS -------------------------------------------------------------------------------------------------------------


class Authority:
    """A private CA with certificates for the tests' servers."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.file = str(folder / "ca.pem")
        self.ca.cert_pem.write_to_path(self.file)

    def server(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.ca.issue_cert(*names).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(params=["asyncio", "uvloop", "asyncio own tls", "uvloop own tls"])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    """Both loops, each with aiofastnet and with the loop's own TLS."""
    name, _, own = request.param.partition(" ")
    monkeypatch.setattr(client_tls, "HAVE_AIOFASTNET", not own)
    with asyncio.Runner(loop_factory=LOOPS[name]) as runner:
        yield runner


def secure(port: int, settings: PoolSettings, host: str = "localhost") -> Pool:
    return Pool(Origin("https", host, port), settings)


def test_a_trusted_server_is_spoken_to_with_sni_and_alpn(runner: asyncio.Runner, authority: Authority) -> None:
    seen: list[tuple[str | None, str | None]] = []

    async def script(peer: Peer) -> None:
        seen.append((names[-1], peer.writer.get_extra_info("ssl_object").selected_alpn_protocol()))
        while True:
            _, body = await peer.request()
            peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    names: list[str | None] = []

    async def check() -> None:
        context = authority.server("localhost")
        context.sni_callback = lambda _, name, __: names.append(name)
        async with Server(script, tls=context) as server:
            pool = secure(server.port, PoolSettings(ca_file=authority.file))
            big = bytes(range(256)) * 8_000
            for body in (b"{}", big, b"{}"):
                assert await ask(pool, body=body).whole() == body
            assert seen == [("localhost", "http/1.1")]
            assert pool.idle == 1
            await pool.close()
            await until(lambda: server.open == 0)

    runner.run(check())


def test_untrusted_certificates_are_refused_with_the_reason(runner: asyncio.Runner, authority: Authority) -> None:
    async def check() -> None:
        async with Server(tls=authority.server("other.example")) as server:
            at = f"cannot connect to localhost:{server.port}: TLS: "
            cases = [
                (PoolSettings(ca_file=authority.file), at + "the certificate is not trusted: hostname mismatch"),
                (PoolSettings(), at + "the certificate is not trusted: unable to get local issuer certificate"),
            ]
            for settings, message in cases:
                pool = secure(server.port, settings)
                error = await ask(pool).failure()
                assert isinstance(error, ConnectFailed)
                assert str(error).lower().startswith(message.lower())
                assert ("tls.ca_file" in str(error)) == (settings.ca_file is None)
                await pool.close()
            pool = secure(server.port, PoolSettings(verify=False))
            assert await ask(pool).whole() == b"ok"
            await pool.close()
            await until(lambda: server.open == 0)

    runner.run(check())


def test_an_unusable_ca_file_is_a_config_error_when_the_pool_is_made(tmp_path: Path) -> None:
    async def check() -> None:
        (tmp_path / "ca.pem").write_text("not a certificate")
        with pytest.raises(ConfigError, match=r"tls\.ca_file: .*ca\.pem holds no certificate in PEM format"):
            secure(443, PoolSettings(ca_file=str(tmp_path / "ca.pem")))
        with pytest.raises(ConfigError, match=r"tls\.ca_file: .*none\.pem cannot be read: No such file or directory"):
            secure(443, PoolSettings(ca_file=str(tmp_path / "none.pem")))

    asyncio.run(check())


def test_a_server_that_speaks_no_tls_is_an_error(runner: asyncio.Runner) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(100)
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.closed()

    async def check() -> None:
        async with Server(script) as server:
            pool = secure(server.port, PoolSettings())
            assert "TLS: the handshake failed: " in str(await ask(pool).failure())
            await pool.close()
            await until(lambda: server.open == 0)

    runner.run(check())


def test_over_tls_cancel_closes_at_once_and_stale_connections_are_replaced(
    runner: asyncio.Runner, authority: Authority
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(OK if peer.number == 0 else b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart")
        await peer.request()

    async def check() -> None:
        async with Server(script, tls=authority.server("localhost")) as server:
            pool = secure(server.port, PoolSettings(ca_file=authority.file, redial=False))
            await ask(pool).whole()
            sink = ask(pool)
            await sink.moved.wait()
            assert sink.call is not None
            sink.call.cancel()
            await until(lambda: server.open == 0)
            assert ([peer.requests for peer in server.peers], sink.ends) == ([2, 1], 0)
            await pool.close()

    runner.run(check())


def test_idle_tls_connections_are_closed_in_good_order(runner: asyncio.Runner, authority: Authority) -> None:
    async def check() -> None:
        async with Server(tls=authority.server("localhost")) as server:
            pool = secure(server.port, PoolSettings(ca_file=authority.file, idle_timeout=0.02))
            await ask(pool).whole()
            await until(lambda: server.open == 0 and pool.open == 0)
            assert not server.faults
            await pool.close()

    runner.run(check())


def test_a_tls_body_without_length_ends_with_the_connection(runner: asyncio.Runner, authority: Authority) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil close")

    async def check() -> None:
        async with Server(script, tls=authority.server("localhost")) as server:
            pool = secure(server.port, PoolSettings(ca_file=authority.file))
            assert await ask(pool).whole() == b"until close"
            await pool.close()

    runner.run(check())


# --- proxies ---------------------------------------------------------------------------------------------------------


class ConnectProxy:
    """A CONNECT proxy: sends every tunnel to one port and keeps the heads it was asked with."""

    def __init__(self, target: int, reply: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.target = target
        self.reply = reply
        self.heads: list[bytes] = []

    async def __call__(self, peer: Peer) -> None:
        self.heads.append(await peer.reader.readuntil(b"\r\n\r\n"))
        peer.write(self.reply)
        if b" 200 " not in self.reply:
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            await asyncio.gather(self._pump(peer.reader, writer), self._pump(reader, peer.writer))
        finally:
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


def test_https_goes_through_a_connect_tunnel_with_the_password(runner: asyncio.Runner, authority: Authority) -> None:
    async def check() -> None:
        async with Server(tls=authority.server("api.example")) as server:
            proxy = ConnectProxy(server.port)
            async with Server(proxy) as front:
                settings = PoolSettings(ca_file=authority.file, proxy=f"http://me:s%20ecret@127.0.0.1:{front.port}")
                pool = secure(443, settings, "api.example")
                for _ in range(2):
                    assert await ask(pool).whole() == b"ok"
                secret = base64.b64encode(b"me:s ecret")
                assert proxy.heads == [
                    b"CONNECT api.example:443 HTTP/1.1\r\nhost: api.example:443\r\n"
                    b"proxy-authorization: Basic " + secret + b"\r\n\r\n"
                ]
                await pool.close()
                await until(lambda: front.open == 0 and server.open == 0)

    runner.run(check())


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", "it answered CONNECT with 407; check user and password in the proxy URL"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "it answered CONNECT with 502"),
        (b"SSH-2.0\r\n\r\n", "its answer to CONNECT is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nsurplus", "it sent data before the tunnel was used"),
        (b"HTTP/1.1 404", "it closed the connection before answering CONNECT"),
        (b"HTTP/1.1 404" + b" " * 20_000, "its answer to CONNECT is too long"),
    ],
)
def test_a_proxy_that_refuses_is_named_and_its_password_is_not(reply: bytes, reason: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.write(reply)

    async def check() -> None:
        async with Server(script) as front:
            pool = secure(443, PoolSettings(proxy=f"http://me:secret@127.0.0.1:{front.port}"), "api.example")
            error = await ask(pool).failure()
            assert isinstance(error, ConnectFailed)
            assert str(error) == (
                f"cannot connect to api.example:443 through proxy 127.0.0.1:{front.port}: proxy: {reason}"
            )
            await pool.close()

    asyncio.run(check())


@on_both_loops
async def test_plain_http_goes_through_a_proxy_in_absolute_form() -> None:
    heads: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            heads.append((await peer.request())[0])
            peer.write(OK)

    async with Server(script) as front:
        pool = Pool(Origin.of("http://model.example:8000"), PoolSettings(proxy=f"http://a:b@127.0.0.1:{front.port}"))
        for _ in range(2):
            assert await ask(pool).whole() == b"ok"
        absolute = (
            b"POST http://model.example:8000/v1/chat HTTP/1.1\r\nproxy-authorization: Basic YTpi\r\n"
            b"host: x\r\ncontent-length: 2\r\n\r\n"
        )
        assert heads == [absolute, absolute]
        await pool.close()


@on_both_loops
async def test_an_unusable_proxy_is_a_config_error_when_the_pool_is_made() -> None:
    with pytest.raises(ConfigError, match="socks5:// proxies are not supported"):
        Pool(Origin.of("https://api.example"), PoolSettings(proxy="socks5://p:1"))
    async with Server(answer_ok) as server:
        pool = server.pool()
        assert await ask(pool).whole() == b"ok"
        await pool.close()
