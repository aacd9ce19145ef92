"""Protocols: what a request forbids, where its first token is, how it fails, how it ends. No I/O, no clock."""
