"""What the transports take for a request that may be hedged, and what their targets come to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

import hedgerow
from hedgerow import HttpTarget, Policy, http_client, http_client_sync
from hedgerow.extras import install
from hedgerow.gateway.headers import without_keys, without_keys_in_query
from hedgerow.gateway.target import base_path
from hedgerow.transports.asking import path_of
from hedgerow.transports.door import Door
from hedgerow.transports.httpx2 import SyncHedgeTransport
from hedgerow.transports.paths import hedged_path
from hedgerow.transports.targets import blueprint_of, configured
from hedgerow.wire.base import Family

HEDGED = {
    "/v1/chat/completions": "/v1/chat/completions",
    "/chat/completions": "/v1/chat/completions",
    "/openai/v1/chat/completions": "/v1/chat/completions",
    "/v1beta/openai/chat/completions": "/v1/chat/completions",
    "/openai/deployments/gpt/chat/completions?api-version=1": "/v1/chat/completions?api-version=1",
    "/v1/completions": "/v1/completions",
    "/v1/responses": "/v1/responses",
    "/v1/embeddings": "/v1/embeddings",
    "/v1/moderations": "/v1/moderations",
    "/v2/rerank": "/v1/rerank",
    "/v1/messages": "/v1/messages",
    "/anthropic/v1/messages?beta=true": "/v1/messages?beta=true",
    "/v1beta/models/gemini-2:generateContent": "/v1beta/models/gemini-2:generateContent",
    "/v1beta/models/gemini-2:streamGenerateContent?alt=sse": "/v1beta/models/gemini-2:streamGenerateContent?alt=sse",
}
LEFT_ALONE = [
    "/v1/batches",
    "/v1/files",
    "/v1/models",
    "/v1/fine_tuning/jobs",
    "/v1/images/generations",
    "/v1/audio/transcriptions",
    "/v1/threads/thread_1/messages",
    "/v1/messages/batches",
    "/v1/messages/count_tokens",
    "/v1/responses/resp_1/cancel",
    "/v1/chat/completions/chatcmpl-1",
    "/v1/fim/completions",
    "/v1/agents/completions",
    "/v1/chat/moderations",
    "/v1beta/models/gemini-2:embedContent",
    "/v1beta/models/gemini-2:countTokens",
]


@pytest.mark.parametrize(("path", "known"), HEDGED.items())
def test_paths_that_are_hedged_behind_any_base_url(path: str, known: str) -> None:
    assert hedged_path(path.encode()) == known.encode()


@pytest.mark.parametrize("path", LEFT_ALONE)
def test_paths_that_are_left_alone(path: str) -> None:
    assert hedged_path(path.encode()) is None


def test_paths_that_a_configuration_lists() -> None:
    assert hedged_path(b"/v1/translate", frozenset({b"/v1/translate"})) == b"/v1/translate"


@pytest.mark.parametrize(
    ("url", "hedged"),
    [
        ("http://llm.example/v1/chat/completions", True),
        ("http://llm.example:80/other/v1/responses", True),
        ("https://llm.example/v1/responses", False),
        ("http://llm.example:81/v1/responses", False),
        ("http://sdk.example/base/v1/chat/completions", True),
        ("http://sdk.example/based/v1/chat/completions", False),
        ("http://crm.example/api/forms/7/responses", False),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_requests_to_other_services_are_left_alone(
    method: str, url: str, hedged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = url if method == "POST" else "/".join([*url.split("/")[:-2], "hedgerow/requests/hr-1/alternatives"])
    door = Door(blueprint_of([HttpTarget(base_url="http://llm.example/v1")], Policy()), (), ["http://sdk.example/base"])
    for _ in range(2):
        assert (path_of(door, httpx2.Request(method, path)) is not None) is hedged
    assert len(caplog.messages) == (not hedged)
    if not hedged:
        assert "is asked without hedging: no target has that host, nor is it among base_urls" in caplog.text


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_posts_are_hedged(method: str) -> None:
    seen = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.method)
        return httpx2.Response(204)

    targets = [HttpTarget(base_url="http://127.0.0.1:9/v1")]
    transport = SyncHedgeTransport(targets, otherwise=httpx2.MockTransport(answer))
    with httpx2.Client(transport=transport) as client:
        assert client.request(method, "http://127.0.0.1:9/v1/chat/completions").status_code == 204
    assert seen == [method]


@pytest.mark.parametrize(
    ("url", "family", "path"),
    [
        ("https://api.openai.com/v1", Family.OPENAI, b"/v1"),
        ("http://localhost:8000", Family.OPENAI, b""),
        ("https://api.anthropic.com", Family.ANTHROPIC, b"/v1"),
        ("https://api.anthropic.com/v1/", Family.ANTHROPIC, b"/v1"),
        ("https://gateway.example/anthropic", Family.ANTHROPIC, b"/anthropic/v1"),
        ("https://generativelanguage.googleapis.com", Family.GEMINI, b"/v1beta"),
        ("https://generativelanguage.googleapis.com/v1alpha", Family.GEMINI, b"/v1alpha"),
    ],
)
def test_base_urls_are_as_the_sdks_take_them(url: str, family: Family, path: bytes) -> None:
    assert base_path(url, family, versioned=False) == path


def test_fields_that_may_hold_a_key_are_withheld() -> None:
    kept = b"content-type: application/json\r\nanthropic-beta: b1\r\ntraceparent: 00-1\r\nidempotency-key: abc\r\n"
    held = [b"helicone-auth", b"portkey-api-key", b"cf-aig-token", b"x-client-secret", b"openai-organization"]
    held += [b"x-jwt-assertion", b"x-bearer", b"x-signature", b"x-session-id", b"anthropic-organization-id"]
    held += [b"x-goog-user-project", b"x-tenant", b"cf-access-client-id", b"x-ssl-client-cert"]
    named = b"".join(name + b": v\r\n" for name in held)
    values = [b"Bearer any", b"Basic YTpi", b"sk-ant-1", b"eyJhbGciOiJIUzI1NiJ9.e30.x"]
    valued = b"".join(b"x-own: " + value + b"\r\n" for value in values)
    assert without_keys(kept + named + valued) == kept


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("?api-version=2&api-key=s", "?api-version=2"),
        ("?key=s&api_key=s&access_token=s&x=1&subscription-key=s", "?x=1"),
        ("?api%2Dkey=s&code=s&sig=s", ""),
        ("?x=Bearer+s", ""),
        ("?beta=true", "?beta=true"),
    ],
)
def test_a_key_in_the_url_stays_with_the_host_it_is_for(asked: str, sent: str) -> None:
    assert without_keys_in_query(b"/v1/messages" + asked.encode()) == b"/v1/messages" + sent.encode()


def test_targets_of_a_configuration_are_sent_no_more_of_the_clients_than_others(tmp_path: Path) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(
        "targets:\n"
        "  own: {base_url: 'https://a.example/v1', api_key: passthrough}\n"
        "  other: {base_url: 'https://b.example/v1', api_key: sk-b}\n"
        "routes: {fast: {targets: [own, other]}}\n"
    )
    assert {name: each.withholds for name, each in configured(file, None).targets.items()} == {
        "own": False,
        "other": True,
    }


@pytest.mark.parametrize("url", ["https://me:pw@a.example/v1", "https://a.example/v1?api-version=1", "https://a/v1#x"])
def test_what_of_a_base_url_would_not_be_sent_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url has a") as refused:
        HttpTarget(base_url=url)
    assert "pw" not in str(refused.value)


def test_targets_do_not_show_their_keys() -> None:
    target = HttpTarget(base_url="https://api.example.com/v1", api_key="sk-secret", headers={"x-token": "sk-other"})
    blueprint = blueprint_of([target, target], Policy())
    for shown in (repr(target), str([target]), repr(blueprint)):
        assert "sk-" not in shown
    assert list(blueprint.targets) == ["api.example.com", "api.example.com-2"]
    accounts = {each.account for each in blueprint.targets.values()}
    assert len(accounts) == 1, "targets with the same key share a rate limit"


def test_breakers_can_be_switched_off() -> None:
    [on], [off] = (
        blueprint_of([HttpTarget(base_url="http://a/v1")], Policy(breaker=breaker)).targets.values()
        for breaker in (True, False)
    )
    assert (on.breaker.failure_ratio, off.breaker.failure_ratio) == (0.5, None)


@pytest.mark.parametrize(
    ("targets", "options", "problem"),
    [
        ([], {}, "at least one target"),
        ([HttpTarget(base_url="ftp://a")], {}, "starts with http:// or https://"),
        ([HttpTarget(base_url="http://a/v1", protocol="openapi")], {}, "openapi"),  # type: ignore[arg-type]
        ([HttpTarget(base_url="http://a/v1")], {"allow": ["tools"]}, "allow has tools: it can have n, audio, store"),
        (
            [HttpTarget(base_url="http://a/v1", proxy="socks5://b")],
            {},
            "a:80: proxy: socks5:// proxies are not supported",
        ),
        (
            [HttpTarget(base_url="https://a/v1", ca_file="/none.pem")],
            {},
            "a:443: tls.ca_file: /none.pem cannot be read",
        ),
        ([HttpTarget(base_url="http://a/v1")], {"library": "requests"}, "it must be httpx2 or httpx"),
    ],
)
def test_what_cannot_work_is_refused(targets: list[HttpTarget], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        http_client(targets, **options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"verify": False}, r"use HttpTarget\(ca_file=..., verify=...\)"),
        ({"cert": "/client.pem"}, "targets are shown no client certificate"),
        ({"limits": {"max_connections": 2}}, r"use HttpTarget\(max_connections=...\)"),
        ({"proxy": "http://proxy:3128"}, r"use HttpTarget\(proxy=...\)"),
        ({"mounts": {"https://": None}}, "otherwise=..."),
        ({"transport": httpx2.HTTPTransport()}, "otherwise=..."),
        ({"trust_env": False}, r"HttpTarget\(proxy=None\)"),
        ({"http2": True}, "attempts speak HTTP/1.1"),
        ({"base_urls": "https://sdk/v1"}, "base_urls must be a list of URLs"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, dict) else "",
)
@pytest.mark.parametrize("library", ["httpx2", "httpx"])
def test_options_of_clients_that_would_have_no_effect_are_refused(
    options: dict[str, Any], problem: str, library: Any
) -> None:
    targets = [HttpTarget(base_url="https://a/v1")]
    for make in (http_client, http_client_sync):
        with pytest.raises(TypeError, match=problem):
            make(targets, library=library, **options)
        make(targets, library=library, verify=True, http2=False, trust_env=True)


MISSING = """
import sys
sys.modules[{package!r}] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {package!r} else find(name, *rest)
import hedgerow
try:
    hedgerow.http_client([hedgerow.HttpTarget(base_url="http://a/v1")], library={library!r})
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda make, one: make(["https://a/v1"]),
            r"a target must be an HttpTarget\(base_url=...\), not 'https://a/v1'",
        ),
        (lambda make, one: make(one), "targets must be a list of HttpTargets"),
        (lambda make, one: make([one], {"delay": 1}), r"policy must be a Policy, such as Policy\(delay=1\)"),
        (
            lambda make, one: make([one], delay=1, budget=0.1),
            r"http_client\(targets, Policy\(delay=..., budget=...\)\)",
        ),
    ],
)
@pytest.mark.parametrize("make", [http_client, http_client_sync])
def test_what_is_given_in_the_wrong_place_is_refused(call: Any, problem: str, make: Any) -> None:
    with pytest.raises(TypeError, match=problem):
        call(make, HttpTarget(base_url="https://a/v1"))


@pytest.mark.parametrize(
    ("package", "library", "told"),
    [
        ("httptools", "httpx2", f"hedgerow's transports need httptools: {install('transports')}"),
        ("brotli", "httpx2", f"hedgerow's transports need brotli: {install('transports')}"),
        ("httpx2", "httpx2", "clients of httpx2 need httpx2: pip install httpx2"),
        ("httpx", "httpx", "clients of httpx need httpx: pip install httpx"),
    ],
)
def test_a_missing_package_is_told_with_what_to_install(package: str, library: str, told: str) -> None:
    code = MISSING.format(package=package, library=library)
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == f"{told}\n"


def test_the_transports_import_nothing_that_their_extra_does_not_bring() -> None:
    code = """
import sys, hedgerow
hedgerow.http_client([hedgerow.HttpTarget(base_url="http://a/v1")])
files = {name.partition(".")[0]: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
foreign = {name for name, file in files.items() if "site-packages" in file}
print(*sorted(foreign))
"""
    found = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    of_httpx2 = {"anyio", "httpx2", "httpcore2", "h11", "idna", "certifi", "truststore", "sniffio", "typing_extensions"}
    brought = {"httptools", "brotli", "_brotli", "backports", "certifi", "msgspec"}
    assert found - of_httpx2 - brought <= {"_distutils_hack"}


def test_public_names_are_found_and_imported_late() -> None:
    assert {"HttpTarget", "http_client", "http_client_sync"} <= set(hedgerow.__all__)
    code = "import sys, hedgerow; print([name for name in sys.modules if 'transports' in name or 'http' in name])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
