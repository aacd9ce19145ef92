"""Simulated LLM providers: the real wire over HTTP, with times, faults and costs one can choose and repeat."""
