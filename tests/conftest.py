"""What holds for all tests.

They talk to this machine only, so no proxy of the environment may stand between. Properties have no deadline per
example, since a busy machine is no fault; in CI their examples are the same in each run, so that a red run is a change.
"""

from __future__ import annotations

import os

from hypothesis import settings

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
