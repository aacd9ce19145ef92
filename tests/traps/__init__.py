"""Feedback traps of hedging: loops in which what is decided changes what is learned."""
