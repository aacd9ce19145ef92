"""The tokens of answers in process, as listeners are told of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Usage as AnthropicUsage
from openai.types import CompletionUsage
from openai.types.completion_usage import PromptTokensDetails

from hedgerow import Hedger
from hedgerow.client.using import usage_of
from hedgerow.events import AttemptEnded, Event
from hedgerow.testing import VirtualLoop
from hedgerow.usage import Usage
from tests.client.support import Book, run

OPENAI = CompletionUsage(
    prompt_tokens=90, completion_tokens=7, total_tokens=97, prompt_tokens_details=PromptTokensDetails(cached_tokens=64)
)
ANTHROPIC = AnthropicUsage(input_tokens=10, output_tokens=7, cache_read_input_tokens=64, cache_creation_input_tokens=16)


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (SimpleNamespace(usage=OPENAI), Usage(90, 7, 64)),
        (SimpleNamespace(usage=ANTHROPIC), Usage(90, 7, 64, cache_write_tokens=16)),
        ({"usage": {"input_tokens": 5, "output_tokens": 0}}, Usage(5, 0)),
        ({"usage": {"input_tokens": "5"}}, None),
        ({"usage": None}, None),
        ({}, None),
        ("text", None),
    ],
)
def test_tokens_are_read_from_the_answers_of_the_usual_sdks(answer: Any, usage: Usage | None) -> None:
    assert usage_of(answer) == usage


def test_listeners_are_told_of_them() -> None:
    async def main(_: VirtualLoop) -> None:
        book, told = Book(), list[Event]()
        answer = SimpleNamespace(usage=OPENAI)
        await Hedger("r", [book.target("a", 1.0, answer)], listeners=[told.append])()
        assert [each.usage for each in told if isinstance(each, AttemptEnded)] == [Usage(90, 7, 64)]

    run(main)
