"""Calls of the official SDKs, of whatever version is here, with primaries that stall and with targets that all fail.

`client.py LIBRARY PRIMARY BACKUP` with the labs' URLs prints as JSON what came of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anthropic
import groq
import openai
from mistralai.client import Mistral
from mistralai.client.errors import SDKError

from hedgerow import HttpTarget, Policy, http_client, http_client_sync

LIBRARY, *URLS = sys.argv[1:]
POLICY = Policy(delay=0.05, budget=None, breaker=False)
ASKED: Any = {"model": "any", "max_tokens": 20, "messages": [{"role": "user", "content": "Say hedge."}]}
STALL = {"x-lab-script-primary": '{"fault": "stall"}'}
HANG = {"x-lab-script-primary": '{"fault": "hang"}'}
DOWN = {"x-lab-script": '{"status": 429}'}


def client_options(made: Any, suffix: str = "") -> dict[str, Any]:
    return {"api_key": "sk-mine", "base_url": URLS[0] + suffix, "http_client": made, "max_retries": 0, "timeout": 10}


def http(ours: Any, suffix: str = "") -> Any:
    targets = [HttpTarget(base_url=url + suffix, api_key=f"sk-{number}") for number, url in enumerate(URLS)]
    return ours(targets, POLICY, library=LIBRARY)


def chat_text(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def message_text(events: list[Any]) -> str:
    return "".join(event.delta.text for event in events if event.type == "content_block_delta")


async def chats() -> dict[str, Any]:
    async with openai.AsyncOpenAI(**client_options(http(http_client, "/v1"), "/v1")) as client:
        create: Any = client.chat.completions.create
        whole = await create(**ASKED, extra_headers=HANG)
        streamed = [chunk async for chunk in await create(**ASKED, stream=True, extra_headers=STALL)]
        try:
            await create(**ASKED, extra_headers=DOWN)
        except openai.RateLimitError as error:
            failed = error.status_code
    return {"whole": whole.choices[0].message.content, "streamed": chat_text(streamed), "failed": failed}


def chats_sync() -> dict[str, Any]:
    with openai.OpenAI(**client_options(http(http_client_sync, "/v1"), "/v1")) as client:
        create: Any = client.chat.completions.create
        whole = create(**ASKED, extra_headers=HANG)
        streamed = list(create(**ASKED, stream=True, extra_headers=STALL))
        try:
            create(**ASKED, extra_headers=DOWN)
        except openai.RateLimitError as error:
            failed = error.status_code
    return {"whole": whole.choices[0].message.content, "streamed": chat_text(streamed), "failed": failed}


async def messages() -> dict[str, Any]:
    async with anthropic.AsyncAnthropic(**client_options(http(http_client))) as client:
        create: Any = client.messages.create
        whole = await create(**ASKED, extra_headers=HANG)
        streamed = [event async for event in await create(**ASKED, stream=True, extra_headers=STALL)]
        try:
            await create(**ASKED, extra_headers=DOWN)
        except anthropic.RateLimitError as error:
            failed = error.status_code
    return {"whole": whole.content[0].text, "streamed": message_text(streamed), "failed": failed}


def messages_sync() -> dict[str, Any]:
    with anthropic.Anthropic(**client_options(http(http_client_sync))) as client:
        create: Any = client.messages.create
        whole = create(**ASKED, extra_headers=HANG)
        streamed = list(create(**ASKED, stream=True, extra_headers=STALL))
        try:
            create(**ASKED, extra_headers=DOWN)
        except anthropic.RateLimitError as error:
            failed = error.status_code
    return {"whole": whole.content[0].text, "streamed": message_text(streamed), "failed": failed}


async def groqs() -> dict[str, Any]:
    """Groq's SDK has the path of its API in each call."""
    async with groq.AsyncGroq(**client_options(http(http_client, "/v1"))) as client:
        create: Any = client.chat.completions.create
        whole = await create(**ASKED, extra_headers=HANG)
        streamed = [chunk async for chunk in await create(**ASKED, stream=True, extra_headers=STALL)]
        try:
            await create(**ASKED, extra_headers=DOWN)
        except groq.RateLimitError as error:
            failed = error.status_code
    return {"whole": whole.choices[0].message.content, "streamed": chat_text(streamed), "failed": failed}


async def mistrals() -> dict[str, Any]:
    made = http(http_client, "/v1")
    async with made, Mistral(api_key="sk-mine", server_url=URLS[0], async_client=made, timeout_ms=10_000) as client:
        whole = await client.chat.complete_async(**ASKED, http_headers=HANG)
        streamed = [event.data async for event in await client.chat.stream_async(**ASKED, http_headers=STALL)]
        try:
            await client.chat.complete_async(**ASKED, http_headers=DOWN)
        except SDKError as error:
            failed = error.status_code
    return {"whole": whole.choices[0].message.content, "streamed": chat_text(streamed), "failed": failed}


if __name__ == "__main__":
    versions = [int(each.__version__.partition(".")[0]) for each in (openai, anthropic)]
    found = {
        "openai": [asyncio.run(chats()), chats_sync()],
        "anthropic": [asyncio.run(messages()), messages_sync()],
        "others": [asyncio.run(groqs()), asyncio.run(mistrals())],
    }
    print(json.dumps({"versions": versions, **found}))
