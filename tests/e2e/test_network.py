"""TLS on both sides, proxies named by the environment, IPv6."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import trustme

from tests.e2e.raw import Client, Reply, ask
from tests.e2e.support import MESSAGES, GatewayProcess, chat, config, until
from tests.e2e.upstream import SSE_HEAD, Received, Upstream, always, chunk, completion, event, stream, whole

pytestmark = pytest.mark.e2e

ANSWER = whole(completion("A hedge."))
STREAM = stream(event({"role": "assistant", "content": ""}), event({"content": "A hedge."}), event({}, "stop"))


class Authority:
    """A private CA, and files for whoever must trust it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def server(self, name: str) -> ssl.SSLContext:
        """For a server of this name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(name).configure_cert(context)
        return context

    def files(self, name: str) -> dict[str, str]:
        """`server.tls` for a gateway of this name."""
        certificate = self._ca.issue_cert(name)
        cert, key = self._folder / "cert.pem", self._folder / "key.pem"
        cert.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(str(key))
        return {"cert": str(cert), "key": str(key)}

    def client(self) -> ssl.SSLContext:
        """For a client that trusts it."""
        context = ssl.create_default_context()
        self._ca.configure_trust(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def role_only(received: Received) -> Iterator[bytes]:
    """Headers and the role at once, and then nothing until the client has gone."""
    yield SSE_HEAD + chunk(event({"role": "assistant", "content": ""}))
    while True:  # nobody reads: the first of these to meet a closed connection ends it
        received.over.wait(0.02)
        yield chunk(b": still there\n\n")


def test_hedging_works_with_tls_on_both_sides(authority: Authority) -> None:
    with (
        Upstream(role_only, tls=authority.server("127.0.0.1")) as primary,
        Upstream(always(STREAM), tls=authority.server("127.0.0.1")) as backup,
    ):
        settings = config(
            primary.base_url, backup.base_url, delay="100ms", server={"tls": authority.files("127.0.0.1")}
        )
        for target in settings["targets"].values():
            target["tls"] = {"ca_file": str(authority.file)}
        with GatewayProcess(settings) as gateway:
            assert gateway.url.startswith("https://127.0.0.1:")

            async def story() -> list[Reply]:
                client = await Client.connect(gateway.address, tls=authority.client())
                replies = [await client.chat(chat(stream=True)) for _ in range(3)]
                client.leave()
                return replies

            for reply in asyncio.run(story()):
                assert (reply.status, reply.whole, reply.target) == (200, True, "backup")
                assert reply.body.endswith(b"data: [DONE]\n\n")
            until(lambda: all(one.over.is_set() for one in primary.requests))


def test_the_sdk_trusts_a_gateway_whose_ca_it_is_told(authority: Authority) -> None:
    with Upstream(always(STREAM)) as upstream:
        settings = config(upstream.base_url, server={"tls": authority.files("127.0.0.1")})
        with (
            GatewayProcess(settings) as gateway,
            openai.OpenAI(
                base_url=gateway.base_url,
                api_key="sk-any",
                http_client=openai.DefaultHttpxClient(verify=authority.client()),
            ) as client,
        ):
            answer = client.chat.completions.create(model="fast", messages=MESSAGES, stream=True)
            assert "".join(one.choices[0].delta.content or "" for one in answer) == "A hedge."


def test_a_target_whose_ca_is_unknown_is_not_talked_to_and_said_why(authority: Authority) -> None:
    with (
        Upstream(always(ANSWER), tls=authority.server("127.0.0.1")) as secret,
        GatewayProcess(config(secret.base_url)) as gateway,
    ):
        reply = asyncio.run(ask(gateway.address, "POST", "/v1/chat/completions", chat()))
        assert reply.status == 502
        assert b"the certificate is not trusted" in reply.body
        assert b"tls.ca_file" in reply.body
        assert secret.requests == []


def test_plain_http_to_a_tls_port_ends_without_an_answer(authority: Authority) -> None:
    with GatewayProcess(config("http://127.0.0.1:9/v1", server={"tls": authority.files("127.0.0.1")})) as gateway:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            asyncio.run(ask(gateway.address, "GET", "/livez"))
        assert asyncio.run(ask(gateway.address, "GET", "/livez", tls=authority.client())).status == 200


def test_a_proxy_from_the_environment_carries_http() -> None:
    with Upstream(always(ANSWER)) as proxy:
        settings = config("http://models.example/v1", "http://direct.example/v1")
        environ = {"HTTP_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}", "NO_PROXY": "direct.example"}
        with GatewayProcess(settings, environ=environ) as gateway:
            reply = asyncio.run(ask(gateway.address, "POST", "/v1/chat/completions", chat()))
        assert (reply.status, reply.target) == (200, "primary")
        [seen] = proxy.requests
        assert seen.target == "http://models.example/v1/chat/completions"
        assert seen.headers["host"] == "models.example"
        assert seen.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


def test_a_proxy_from_the_environment_tunnels_https(authority: Authority) -> None:
    tunnels: list[bytes] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def story(upstream: Upstream) -> Reply:
        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tunnels.append(await reader.readuntil(b"\r\n\r\n"))
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", upstream.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

        async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy:
            port = proxy.sockets[0].getsockname()[1]
            settings = config("https://models.example/v1")
            settings["targets"]["primary"]["tls"] = {"ca_file": str(authority.file)}
            gateway = await asyncio.to_thread(
                GatewayProcess, settings, environ={"HTTPS_PROXY": f"http://127.0.0.1:{port}"}
            )
            with gateway:
                reply = await ask(gateway.address, "POST", "/v1/chat/completions", chat(stream=True))
                await asyncio.to_thread(gateway.stop)
            return reply

    with Upstream(always(STREAM), tls=authority.server("models.example")) as upstream:
        reply = asyncio.run(story(upstream))
        assert (reply.status, reply.whole) == (200, True)
        assert [one.headers["host"] for one in upstream.requests] == ["models.example"]
    assert [head.split(b"\r\n")[0] for head in tunnels] == [b"CONNECT models.example:443 HTTP/1.1"]


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 loopback")
def test_it_listens_and_connects_over_ipv6() -> None:
    server: dict[str, Any] = {"listen": "[::1]:0"}
    with (
        Upstream(always(ANSWER)) as upstream,
        GatewayProcess(config(upstream.base_url, server=server)) as far,
        GatewayProcess(config(far.base_url, server=server)) as near,
    ):
        assert near.url.startswith("http://[::1]:")
        reply = asyncio.run(ask(near.address, "POST", "/v1/chat/completions", chat()))
    assert (reply.status, reply.whole) == (200, True)
    assert b"A hedge." in reply.body
