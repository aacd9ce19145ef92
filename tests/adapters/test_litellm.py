"""Models of LiteLLM as targets. It is too heavy for every `make setup-dev` (350 MB): without it only what needs no
provider is tested here, and the rest says that it was NOT run.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Policy, hedge
from hedgerow.adapters.litellm import litellm_target, says_something
from hedgerow.extras import install
from hedgerow.lab.control import LabControl
from hedgerow.testing import assert_hedged, assert_winner
from tests.adapters.support import pair

needs_litellm = pytest.mark.skipif(
    find_spec("litellm") is None, reason="LiteLLM is not installed: its models as targets were NOT tried"
)


def test_without_it_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ImportError, match=re.escape(install("litellm"))):
        litellm_target("openai/gpt-5")


@pytest.mark.parametrize(
    ("delta", "says"),
    [
        ({"role": "assistant", "content": None}, False),
        ({"role": "assistant", "content": ""}, False),
        ({"content": "x"}, True),
        ({"tool_calls": [object()]}, True),
        ({"reasoning_content": "hm"}, True),
    ],
)
def test_a_role_is_no_first_token(delta: dict[str, Any], says: bool) -> None:
    chunk = SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(**delta))])
    assert says_something(chunk) is says
    assert not says_something(SimpleNamespace(choices=[]))


@pytest.fixture
def labs() -> Iterator[tuple[LabControl, LabControl]]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    with pair() as two:
        yield two


def targets(labs: tuple[LabControl, LabControl]) -> list[Any]:
    return [
        litellm_target("openai/lab-small", api_base=labs[0].base_url, api_key="any"),
        litellm_target("anthropic/lab-large", api_base=labs[1].url, api_key="any"),
    ]


MESSAGES = [{"role": "user", "content": "hi"}]


@needs_litellm
@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stream", [False, True])
def test_a_stuck_provider_is_hedged_with_another_api(labs: tuple[LabControl, LabControl], stream: bool) -> None:
    labs[0].behave(script={"fault": "stall"})

    async def main() -> str:
        result = await hedge(
            *targets(labs),
            args=(MESSAGES,),
            kwargs={"stream": stream},
            delay=0.05,
            budget=None,
            first_token=says_something if stream else None,
        )
        assert_hedged(result)
        assert_winner(result, "anthropic/lab-large")
        if not stream:
            return str(result.value.choices[0].message.content)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in result.value])

    assert asyncio.run(main()).startswith("second")
    assert labs[0].stats()["open"] == 0


@needs_litellm
@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore")
def test_errors_are_litellms_own_and_nothing_is_retried_inside(labs: tuple[LabControl, LabControl]) -> None:
    import litellm

    for lab in labs:
        lab.behave(script={"status": 500})

    async def main() -> None:
        with pytest.raises(litellm.InternalServerError) as failed:
            await Hedger("all fail", targets(labs), Policy(delay="off"))(MESSAGES)
        assert isinstance(failed.value, EveryAttemptFailed)

    asyncio.run(main())
    assert [lab.stats()["requests"] for lab in labs] == [1, 1]
