"""The gateway in front of two real llama.cpp servers. Opt-in: `make e2e-llm`; pytest collects nothing here."""
