"""Heads, origins and the environment's proxies: the parts of the client that touch no socket."""

from __future__ import annotations

import pytest

from hedgerow.errors import ConfigError
from hedgerow.http.client_settings import Origin
from hedgerow.http.head import absolute_form, field_lines, fields_in, request_head
from hedgerow.http.proxy import Proxy, proxy_for


def test_header_fields_become_lines_and_lines_fields_again() -> None:
    fields = [(b"content-type", b"text/plain; a=b: c"), (b"x-empty", b""), (b"x-twice", b"1"), (b"x-twice", b"2")]
    assert field_lines(fields) == b"content-type: text/plain; a=b: c\r\nx-empty: \r\nx-twice: 1\r\nx-twice: 2\r\n"
    assert fields_in(field_lines(fields)) == fields
    assert (field_lines([]), fields_in(b"")) == (b"", [])


@pytest.mark.parametrize("field", [(b"x-a", b"1\r\nx-b: 2"), (b"x-a", b"1\n"), (b"x-a\r", b"1")])
def test_a_line_break_in_a_field_makes_no_second_line(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="line break"):
        field_lines([field])


def test_a_head_is_written_as_http_1_1() -> None:
    head = request_head(b"POST", b"/v1/chat?x=1", b"api.example", [(b"accept", b"*/*"), (b"x-empty", b"")], 5)
    assert head == (
        b"POST /v1/chat?x=1 HTTP/1.1\r\nhost: api.example\r\naccept: */*\r\nx-empty: \r\ncontent-length: 5\r\n\r\n"
    )
    assert request_head(b"GET", b"/", b"h", [], None) == b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "target", "host", "header"),
    [
        (b"", b"/", b"h", (b"a", b"b")),
        (b"GET /x", b"/", b"h", (b"a", b"b")),
        (b"GET\n", b"/", b"h", (b"a", b"b")),
        (b"GET", b"", b"h", (b"a", b"b")),
        (b"GET", b"/ HTTP/1.1\r\nx: y", b"h", (b"a", b"b")),
        (b"GET", b"/\x7f", b"h", (b"a", b"b")),
        (b"GET", b"/", b"h\r\nx: y", (b"a", b"b")),
        (b"GET", b"/", b"h", (b"", b"b")),
        (b"GET", b"/", b"h", (b"a:", b"b")),
        (b"GET", b"/", b"h", (b"a\r\nb", b"c")),
        (b"GET", b"/", b"h", (b"a\n", b"c")),
        (b"GET", b"/", b"h", (b"a", b"secret\r\nx: y")),
        (b"GET", b"/", b"h", (b"a", b"secret\n")),
        (b"GET", b"/", b"h", (b"a", b"secret\x00")),
    ],
)
def test_a_head_cannot_be_made_to_smuggle(
    method: bytes, target: bytes, host: bytes, header: tuple[bytes, bytes]
) -> None:
    with pytest.raises(ValueError) as refusal:
        request_head(method, target, host, [header], None)
    assert "secret" not in str(refusal.value)


def test_absolute_form_changes_the_target_and_adds_the_password_only() -> None:
    head = b"POST /a?b HTTP/1.1\r\nhost: h\r\n\r\n"
    assert absolute_form(head, b"http://h:1", None) == b"POST http://h:1/a?b HTTP/1.1\r\nhost: h\r\n\r\n"
    assert absolute_form(head, b"http://h", b"Basic eA==") == (
        b"POST http://h/a?b HTTP/1.1\r\nproxy-authorization: Basic eA==\r\nhost: h\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("url", "origin", "authority", "host_header"),
    [
        ("https://API.example/v1", Origin("https", "api.example", 443), "api.example:443", b"api.example"),
        ("http://localhost:8000/", Origin("http", "localhost", 8000), "localhost:8000", b"localhost:8000"),
        ("http://[::1]:80/v1?x", Origin("http", "::1", 80), "[::1]:80", b"[::1]"),
        ("http://[::1]:81", Origin("http", "::1", 81), "[::1]:81", b"[::1]:81"),
        ("https://user:pw@h:443", Origin("https", "h", 443), "h:443", b"h"),
        ("https://bücher", Origin("https", "xn--bcher-kva", 443), "xn--bcher-kva:443", b"xn--bcher-kva"),
    ],
)
def test_an_origin_is_read_from_a_url(url: str, origin: Origin, authority: str, host_header: bytes) -> None:
    assert Origin.of(url) == origin
    assert (origin.authority, origin.host_header) == (authority, host_header)


@pytest.mark.parametrize(
    "url",
    ["", "api.example.com/v1", "ftp://secret", "http://", "http://secret:x", "http://secret:99999", "http://a..b"],
)
def test_an_unusable_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Origin.of(url)
    assert "secret" not in str(refusal.value)


API = Origin.of("https://api.example.com")
PLAIN = Origin.of("http://api.example.com")
PRIVATE = Origin.of("http://10.1.2.3:8000")


@pytest.mark.parametrize(
    ("origin", "environ", "proxy"),
    [
        (API, {}, None),
        (API, {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        (API, {"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, "http://low:1"),
        (API, {"HTTPS_PROXY": ""}, None),
        (API, {"HTTP_PROXY": "http://p:1"}, None),
        (API, {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        (API, {"all_proxy": "http://a:1", "HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        (PLAIN, {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        (PLAIN, {"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}, None),
        (PLAIN, {"http_proxy": "http://p:1", "REQUEST_METHOD": "GET"}, "http://p:1"),
        (API, {"HTTPS_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, "http://p:1"),
        (Origin.of("http://localhost:8000"), {"HTTP_PROXY": "http://p:1"}, None),
        (Origin.of("http://127.0.0.2:8000"), {"HTTP_PROXY": "http://p:1"}, None),
        (Origin.of("http://[::1]:8000"), {"HTTP_PROXY": "http://p:1"}, None),
    ],
)
def test_the_environment_names_the_proxy(origin: Origin, environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(origin, environ) == proxy


@pytest.mark.parametrize(
    ("origin", "no_proxy", "bypassed"),
    [
        (API, "api.example.com", True),
        (API, "API.Example.COM", True),
        (API, "example.com", True),
        (API, ".example.com", True),
        (API, "*.example.com", True),
        (API, "ample.com", False),
        (API, "other.org, example.com:443", True),
        (API, "example.com:8443", False),
        (API, "*", True),
        (API, " , ,", False),
        (API, "10.0.0.0/8", False),
        (PRIVATE, "10.0.0.0/8", True),
        (PRIVATE, "10.1.2.3", True),
        (PRIVATE, "10.1.2.3:8000", True),
        (PRIVATE, "10.1.2.3:80", False),
        (PRIVATE, "10.1.2.4,10.2.0.0/16,nonsense/99", False),
        (Origin.of("http://[fd00::1]:80"), "[fd00::1]:80", True),
        (Origin.of("http://[fd00::1]:80"), "fd00::/8", True),
        (Origin.of("http://[fd00::1]:80"), "fd00::1", True),
        (Origin.of("http://[fd00::1]:80"), "fd00::2", False),
    ],
)
@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_no_proxy_lists_what_is_reached_directly(origin: Origin, no_proxy: str, bypassed: bool, name: str) -> None:
    assert (proxy_for(origin, {"ALL_PROXY": "http://p:1", name: no_proxy}) is None) == bypassed


def test_a_proxy_url_is_read_with_its_password() -> None:
    proxy = Proxy.of("http://us%40er:s%3Acret@proxy.example:3128")
    assert (proxy.host, proxy.port, proxy.authorization) == ("proxy.example", 3128, b"Basic dXNAZXI6czpjcmV0")
    assert "cret" not in repr(proxy)
    assert "Basic" not in repr(proxy)
    assert Proxy.of("proxy.example:1") == Proxy("proxy.example", 1, None)
    assert Proxy.of("http://[::1]").authority == "[::1]:80"


@pytest.mark.parametrize(
    "url", ["https://u:secret@p:1", "socks5://u:secret@p:1", "http://u:secret@", "http://u:secret@p:x"]
)
def test_an_unusable_proxy_url_is_a_config_error_without_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Proxy.of(url)
    assert "secret" not in str(refusal.value)
