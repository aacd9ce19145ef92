"""Which answer is good enough to win. A gate is asked when an attempt answers; every module here is one idea."""

from __future__ import annotations
