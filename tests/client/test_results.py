"""The one error of all attempts, and that whoever catches the SDK's own error catches it (B19)."""

from __future__ import annotations

import copy
import errno
import pickle
from typing import Any, ClassVar, Self

import anthropic
import httpx2
import openai
import pytest

from hedgerow import EveryAttemptFailed, hedge, race
from hedgerow.client.failing import failure_of
from hedgerow.errors import HedgerowError
from hedgerow.events import FailureClass
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, run

REQUEST = httpx2.Request("POST", "http://provider.test/v1/chat/completions")


def answered(kind: type[Any], status: int, body: Any = None, headers: dict[str, str] | None = None) -> Exception:
    response = httpx2.Response(status, request=REQUEST, headers=headers)
    made: Exception = kind("it says no", response=response, body=body)
    return made


class Slotted(Exception):
    __slots__ = ("code_name",)

    def __init__(self, code_name: str) -> None:
        super().__init__(f"slotted {code_name}")
        self.code_name = code_name


class Particular(Exception):
    """Tells of fewer arguments than it takes."""

    def __init__(self, first: str, *, second: int) -> None:
        super().__init__(first)
        self.second = second


class OwnNew(Exception):
    def __new__(cls, *args: Any, needed: int = 0) -> Self:
        if not needed:
            raise TypeError("needed is needed")
        return super().__new__(cls, *args)


class NoHeirs(Exception):
    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise RuntimeError("nobody inherits of this")


class Grudging(OSError):
    """With an __init__ of its own, an OSError leaves its errno to that."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ECONNREFUSED, why)


ERRORS: list[tuple[Exception, dict[str, Any]]] = [
    (ValueError("v"), {"args": ("v",)}),
    (KeyError("k"), {"args": ("k",)}),
    (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), {"errno": errno.ECONNREFUSED, "strerror": "refused"}),
    (FileNotFoundError(errno.ENOENT, "no", "a.txt"), {"filename": "a.txt"}),
    (Grudging("why"), {"errno": errno.ECONNREFUSED, "strerror": "why"}),
    (TimeoutError("slow"), {}),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), {"reason": "bad", "start": 0}),
    (ImportError("no", name="numpy"), {"name": "numpy"}),
    (ExceptionGroup("several", [ValueError(1)]), {"message": "several"}),
    (Slotted("x"), {"code_name": "x"}),
    (Particular("first", second=2), {"second": 2}),
    (answered(openai.InternalServerError, 500), {"status_code": 500, "message": "it says no"}),
    (answered(openai.RateLimitError, 429, {"code": "x"}), {"status_code": 429, "code": "x"}),
    (openai.APIConnectionError(request=REQUEST), {"request": REQUEST}),
    (openai.APITimeoutError(REQUEST), {"request": REQUEST}),
    (answered(anthropic.APIStatusError, 529), {"status_code": 529}),
    (httpx2.ConnectError("refused"), {}),
    (httpx2.HTTPStatusError("no", request=REQUEST, response=httpx2.Response(503, request=REQUEST)), {}),
]


@pytest.mark.parametrize(("raised", "attributes"), ERRORS, ids=lambda each: type(each).__name__)
def test_it_is_caught_as_the_primarys_own_error_and_has_its_attributes(
    raised: Exception, attributes: dict[str, Any]
) -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        with pytest.raises(type(raised)) as caught:
            await hedge(book.target("a", 1.0, error=raised), book.target("b", 1.0, error=OSError("other")), delay=5)
        error = caught.value
        assert isinstance(error, EveryAttemptFailed)
        assert isinstance(error, HedgerowError)
        assert error.attempts[0].error is raised
        for name, value in attributes.items():
            assert getattr(error, name) == value
        assert str(error).startswith(f"{len(error.attempts)} of {len(error.attempts)} attempts failed: a: ")
        assert repr(error)

    run(main)


@pytest.mark.parametrize("raised", [OwnNew.__new__(OwnNew, "x", needed=1), NoHeirs("x")])
def test_where_python_cannot_make_both_it_is_itself_and_tells_of_the_other(raised: Exception) -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        with pytest.raises(EveryAttemptFailed) as caught:
            await hedge(book.target("a", 1.0, error=raised))
        assert caught.value.attempts[0].error is raised
        assert caught.value.__cause__ is raised

    run(main)


def test_of_a_hedge_within_a_hedge_the_innermost_error_still_counts() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()

        async def inner() -> object:
            return (await hedge(book.target("a", 1.0, error=KeyError("k")))).value

        with pytest.raises(KeyError) as caught:
            await race(inner, inner)
        assert isinstance(caught.value, EveryAttemptFailed)
        assert len(caught.value.attempts) == 2

    run(main)


def test_it_goes_to_other_processes_and_can_be_copied() -> None:
    async def main(_: VirtualLoop) -> EveryAttemptFailed:
        book = Book()
        with pytest.raises(ConnectionError) as caught:
            await hedge(book.target("a", 1.0, error=ConnectionResetError(errno.ECONNRESET, "reset")))
        assert isinstance(caught.value, EveryAttemptFailed)
        return caught.value

    error = run(main)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(again, ConnectionResetError)
        assert isinstance(again, EveryAttemptFailed)
        assert str(again) == str(error)
        assert [each.target for each in again.attempts] == ["a"]


class Botocore(Exception):
    response: ClassVar[dict[str, Any]] = {
        "ResponseMetadata": {"HTTPStatusCode": 503},
        "Error": {"Code": "ServiceUnavailable"},
    }


class Raising(Exception):
    @property
    def response(self) -> object:
        raise RuntimeError("not yet")


class Unauthorized(Exception):
    status = 401  # aiohttp


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (answered(openai.InternalServerError, 500), FailureClass.SERVER_ERROR),
        (answered(openai.BadRequestError, 400), FailureClass.FATAL_REQUEST),
        (answered(openai.AuthenticationError, 401), FailureClass.UPSTREAM_AUTH),
        (answered(openai.RateLimitError, 429), FailureClass.RATE_LIMITED),
        (answered(openai.RateLimitError, 429, {"code": "insufficient_quota"}), FailureClass.QUOTA_EXHAUSTED),
        (answered(anthropic.APIStatusError, 529), FailureClass.OVERLOADED),
        (openai.APIConnectionError(request=REQUEST), FailureClass.CONNECT),
        (openai.APITimeoutError(REQUEST), FailureClass.TIMEOUT_FIRST_TOKEN),
        (anthropic.APITimeoutError(REQUEST), FailureClass.TIMEOUT_FIRST_TOKEN),
        (httpx2.ConnectError("x"), FailureClass.CONNECT),
        (httpx2.ReadTimeout("x"), FailureClass.TIMEOUT_FIRST_TOKEN),
        (Botocore(), FailureClass.SERVER_ERROR),
        (Unauthorized(), FailureClass.UPSTREAM_AUTH),
        (TimeoutError(), FailureClass.TIMEOUT_FIRST_TOKEN),
        (ConnectionResetError(), FailureClass.CONNECT),
        (Raising(), FailureClass.SERVER_ERROR),
        (ValueError("secret prompt"), FailureClass.SERVER_ERROR),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else str(each),
)
def test_an_exception_means_to_hedging_what_it_means_to_the_gateway(error: Exception, kind: FailureClass) -> None:
    failure = failure_of(error)
    assert failure.kind is kind
    assert "secret" not in failure.message
    assert type(error).__name__ in failure.message


def test_a_pushback_is_read_from_the_sdks_error() -> None:
    assert failure_of(answered(openai.RateLimitError, 429, headers={"retry-after": "7"})).retry_after == 7.0
    assert failure_of(answered(openai.RateLimitError, 429, headers={"retry-after": "soon"})).retry_after is None


def test_a_rule_of_the_callers_own_decides_and_one_that_fails_does_not(caplog: pytest.LogCaptureFixture) -> None:
    def rule(error: BaseException) -> FailureClass | None:
        return FailureClass.FATAL_REQUEST if isinstance(error, KeyError) else None

    def broken(error: BaseException) -> FailureClass | None:
        raise ZeroDivisionError

    async def main(_: VirtualLoop) -> None:
        book = Book()
        with pytest.raises(KeyError):
            await hedge(book.target("a", 1.0, error=KeyError()), book.target("b", 1.0), delay=5, classify=rule)
        result = await hedge(book.target("a", 1.0, error=OSError()), book.target("b", 1.0), delay=5, classify=broken)
        assert result.value == "b"

    run(main)
    assert "the rule that classifies errors failed at a OSError" in caplog.text
