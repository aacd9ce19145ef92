"""Hedging in the frameworks that call models for you: a module for each, imported by who uses it.

`pydantic_ai`, `langchain` and `litellm`. The OpenAI Agents SDK and LlamaIndex take an HTTP client, so they need none:
give them that of `hedgerow.http_client`.
"""
