"""The ledger against the lab's own books: no request or attempt missing or double, also after a kill."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.e2e
