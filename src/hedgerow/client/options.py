"""What a single call may say, beside where it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from hedgerow.client.failing import Classify
from hedgerow.client.gates import Check
from hedgerow.client.settings import Rules
from hedgerow.events import Listener


class Options(Rules, total=False):
    """The rules of a `Policy`, and what is asked of answers; see `hedge`."""

    gate: Check[Any] | Sequence[Check[Any]] | None
    first_token: Callable[[Any], bool] | None
    classify: Classify | None
    name: str | None


class HedgerOptions(TypedDict, total=False):
    """See `Hedger`."""

    gate: Check[Any] | Sequence[Check[Any]] | None
    first_token: Callable[[Any], bool] | None
    classify: Classify | None
    size: Callable[..., int] | None
    listeners: Sequence[Listener]
    draw: Callable[[], float] | None
    grace: float
