"""What holds for all tests.

They talk to this machine only, so no proxy of the environment may stand between. Properties have no deadline per
example, since a busy machine is no fault; in CI their examples are the same in each run, so that a red run is a change.
What is started in the background of a shell ignores SIGINT, and so does all that it starts: here that is undone, since
hedgerow leaves it as it finds it and tests send it.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
