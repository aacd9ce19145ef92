"""Simulated LLM providers: the real OpenAI wire over HTTP, with times, faults and costs one can choose and repeat."""
