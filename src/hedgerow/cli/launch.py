"""Starts the serving process in the place of this one, with what the configuration said and without its readers."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

import msgspec

from hedgerow.cli.process import LaunchRecord

_FLAGS = {
    "debug": "-d",
    "dont_write_bytecode": "-B",
    "ignore_environment": "-E",
    "no_site": "-S",
    "no_user_site": "-s",
    "isolated": "-I",
    "verbose": "-v",
    "bytes_warning": "-b",
    "optimize": "-O",
}
"""Options of the interpreter that say how to find, compile and watch code, by their names in `sys.flags`."""


def launch(record: LaunchRecord, *, asked: list[str]) -> NoReturn:
    """Become the serving process: same process id, same streams, folder and environment. `asked` is shown by `ps`.

    The record goes through a file without a name: keys belong neither on a command line nor in the environment, where
    other users and other programs may see them. Raises `OSError` when the process cannot be started.
    """
    file = _nameless(msgspec.msgpack.encode(record))
    # -P: nothing in the folder the user happens to be in shall be imported.
    options = [*interpreter_options(), "-P", "-m", "hedgerow.cli.process"]
    sys.stdout.flush()
    sys.stderr.flush()
    # A Ctrl-C from here on waits until somebody is there who can say so without a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        os.execv(sys.executable, [sys.executable, *options, str(file), *asked])  # noqa: S606 - our own interpreter
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def interpreter_options() -> list[str]:
    """The options this interpreter was started with, as far as they concern a server."""
    options = [option for name, option in _FLAGS.items() for _ in range(getattr(sys.flags, name))]
    for key, value in sys._xoptions.items():
        options += ["-X", key if value is True else f"{key}={value}"]
    return options + [f"-W{each}" for each in sys.warnoptions]


def _nameless(data: bytes) -> int:
    """The descriptor of an open file that holds `data`, has no name, is read from its start and survives an exec."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("hedgerow-launch", 0)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
        os.set_inheritable(descriptor, True)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
