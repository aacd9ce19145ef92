"""Decisions: when to launch which attempt, who wins, what the client gets. No I/O, no clock: `now` is an argument."""
