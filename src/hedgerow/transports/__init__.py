"""Transports for the HTTP clients that the official SDKs use: the gateway's core, in the process of its caller."""
