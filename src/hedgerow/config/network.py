"""Leaf types that name a place on the network or hold a credential. Their errors never quote the value."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from hedgerow.config.fields import Leaf, check_text, expected, problem

PASSTHROUGH: Final = "passthrough"
ApiKey = SecretStr | Literal["passthrough"] | None

_HOST = re.compile(r"[A-Za-z0-9._-]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_OURS = frozenset(
    # Hop-by-hop fields (RFC 9110, section 7.6.1), framing, and what the gateway itself must set.
    (
        *("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "content-type", "accept-encoding", "expect", "host"),
    )
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `host` None means every interface; port 0 means any free port."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host is not None and is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file that held one secret when the configuration was read."""

    path: Path
    secret: SecretStr


def is_loopback(host: str) -> bool:
    """Whether `host` (a name or an address without brackets) is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            return ipaddress.ip_address(host).version == 6
        except ValueError:
            return False
    return _HOST.fullmatch(host) is not None


def _parse_address(value: object, _: Path) -> Address:
    if isinstance(value, Address):
        return value
    wanted = expected("host:port such as 127.0.0.1:8080, [::1]:8080, or :8080 for all interfaces")
    if not isinstance(value, str):
        raise wanted
    host, colon, port = value.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise wanted
    if int(port) > 65_535:
        raise expected("a port from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise wanted
    elif ":" in host:
        raise expected(f"an IPv6 address in brackets: '[{host}]:{port}'")
    if host and not _is_host(host):
        raise wanted
    return Address(host or None, int(port))


def _split(value: object) -> SplitResult:
    """A well-formed http(s) URL with a host; the first checks are those that people trip over."""
    url = check_text(value).strip()
    if "://" not in url:
        raise problem("has no scheme; start it with https:// or http://")
    if not url.isascii() or " " in url:
        raise problem("holds a blank or a letter beyond ASCII; write such characters as %20 and the like")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise problem("is not a valid URL: check its host and port") from None
    if parts.scheme not in ("http", "https"):
        raise problem("must start with https:// or http://")
    if not parts.hostname or port == 0 or not _is_host(parts.hostname):
        raise problem("is not a valid URL: check its host and port")
    return parts


def check_base_url(value: object) -> str:
    """The URL in front of `/chat/completions`, without a trailing slash."""
    parts = _split(value)
    if "@" in parts.netloc:
        raise problem("must not hold a user name or password; use api_key or headers")
    if parts.query or parts.fragment:
        raise problem("must not hold a query or fragment; drop everything from the '?' or '#'")
    path = re.sub("/{2,}", "/", parts.path).rstrip("/")
    for ending in ("/chat/completions", "/completions", "/responses", "/embeddings", "/messages", "/models"):
        if path.endswith(ending):
            raise problem(f"ends in {ending}, which hedgerow adds by itself; drop that ending")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def _parse_collector(value: object, _: Path) -> str | None:
    if value is None:
        return None
    parts = _split(value)
    if "@" in parts.netloc:
        raise problem("must not hold a user name or password; use headers")
    if parts.query or parts.fragment:
        raise problem("must not hold a query or fragment; drop everything from the '?' or '#'")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1/traces'}"


def _parse_proxy(value: object, _: Path) -> str:
    if value in ("env", "off"):
        return str(value)
    if value is False or value is None:
        return "off"
    if not isinstance(value, str) or "://" not in value:
        raise problem("expected env, off, or a URL such as http://proxy.example:3128")
    parts = _split(value)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise problem("must be a bare proxy URL such as http://proxy.example:3128")
    return f"{parts.scheme}://{parts.netloc}"


def _check_secret(value: object, at: tuple[int, ...] = ()) -> SecretStr:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str):
        raise problem("expected a key: text, in quotes if it looks like a number", at=at)
    key = value.strip()
    if not key:
        raise problem("is empty; leave it out if no key is needed", at=at)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise problem("holds a blank or a character that cannot be sent in a header", at=at)
    return SecretStr(key)


def _parse_api_key(value: object, _: Path) -> ApiKey:
    return PASSTHROUGH if value == PASSTHROUGH else None if value is None else _check_secret(value)


_LEAST = 16
"""Characters of an admin token: what guards the switches of a gateway must not be guessed."""


def _parse_token(value: object, _: Path) -> SecretStr | None:
    if value is None:
        return None
    token = _check_secret(value)
    if len(token.get_secret_value()) < _LEAST:
        raise problem(f"is too short: at least {_LEAST} characters, such as `openssl rand -hex 24` prints")
    return token


def _parse_token_file(value: object, folder: Path) -> SecretFile | None:
    file = _parse_secret_file(value, folder)
    if file is not None:
        _parse_token(file.secret, folder)
    return file


def _parse_keys(value: object, _: Path) -> tuple[SecretStr, ...]:
    if not isinstance(value, list | tuple):
        raise problem("expected a list of keys")
    return tuple(_check_secret(key, (position,)) for position, key in enumerate(value))


def _parse_secret_file(value: object, folder: Path) -> SecretFile | None:
    if value is None or isinstance(value, SecretFile):
        return value
    path = folder / Path(check_text(value)).expanduser()
    try:
        secret = path.read_text("utf-8").strip()
    except OSError as error:
        # What stands here may be the key itself, put where its file belongs.
        raise problem(f"the file cannot be read: {error.strerror}; a relative path starts from {folder}") from None
    except UnicodeDecodeError:
        raise problem(f"{path} is not UTF-8 text") from None
    if not secret or "\n" in secret:
        raise problem(f"{path} must hold one key on one line")
    return SecretFile(path, _check_secret(secret))


def _parse_headers(value: object, _: Path) -> dict[str, SecretStr]:
    if not isinstance(value, Mapping):
        raise problem("expected a mapping of header names to values")
    headers: dict[str, SecretStr] = {}
    for name, content in value.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise problem("is not a valid header name", at=(str(name),))
        if name.lower() in _OURS:
            raise problem("is set by hedgerow itself and cannot be overridden", at=(name,))
        if name.lower() in headers:
            raise problem("is given twice; header names ignore case", at=(name,))
        if isinstance(content, SecretStr):
            content = content.get_secret_value()
        if not isinstance(content, str):
            raise problem("expected text: put the value in quotes", at=(name,))
        if not content.isascii() or not content.isprintable():
            raise problem("holds a character that cannot be sent in a header", at=(name,))
        headers[name.lower()] = SecretStr(content.strip())
    return headers


def _parse_field_name(value: object, _: Path) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise expected("the name of a header such as Idempotency-Key")
    if value.lower() in _OURS:
        raise problem("is set by hedgerow itself and cannot be overridden")
    return value


_TEXT = {"type": "string", "minLength": 1}

ADDRESS = Leaf(_parse_address, "host:port", {"type": "string", "pattern": r":\d+$|\$\{"})
BASE_URL = Leaf(
    lambda value, _: check_base_url(value), "URL", {"type": "string", "pattern": r"^https?://[^?#@]+$|\$\{"}
)
COLLECTOR = Leaf(_parse_collector, "URL", {"type": ["string", "null"], "pattern": r"^https?://[^?#@]+$|\$\{"})
PROXY = Leaf(
    _parse_proxy,
    "`env`, `off` or URL",
    {"anyOf": [{"enum": ["env", "off", False, None]}, {"type": "string", "pattern": r"^https?://|\$\{"}]},
)
API_KEY = Leaf(_parse_api_key, "secret or `passthrough`", {"type": ["string", "null"], "minLength": 1})
API_KEYS = Leaf(_parse_keys, "list of secrets", {"type": "array", "items": _TEXT}, lambda keys: f"{list(keys)}")
TOKEN = Leaf(_parse_token, "secret", {"type": ["string", "null"], "minLength": 1})
TOKEN_FILE = Leaf(_parse_token_file, "path", {"type": ["string", "null"], "minLength": 1})
SECRET_FILE = Leaf(_parse_secret_file, "path", {"type": ["string", "null"], "minLength": 1})
FIELD_NAME = Leaf(
    _parse_field_name,
    "name of a header",
    {"type": ["string", "null"], "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$|\$\{"},
)
HEADERS = Leaf(
    _parse_headers,
    "mapping of names to text",
    {"type": "object", "additionalProperties": {"type": "string"}},
    lambda headers: f"{dict(headers)}",
)
