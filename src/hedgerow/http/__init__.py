"""The data plane: HTTP/1.1 server and upstream pool on asyncio protocols and llhttp (through httptools).

Callbacks on the hot path, coroutines for starting and stopping. Loop-agnostic; the gateway runs it on uvloop.
"""
