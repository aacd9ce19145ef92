"""What holds for all tests: they talk to this machine only, so no proxy of the environment may stand between."""

from __future__ import annotations

import os

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]
