"""Listeners that put the stream of events where people and tools can read it."""
