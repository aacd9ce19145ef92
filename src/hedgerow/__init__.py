"""Request hedging for LLM APIs: the first good answer wins, the loser is cancelled, the spend is capped."""

__version__ = "0.1.0.dev0"
