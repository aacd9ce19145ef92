"""Prices that are to come from elsewhere, and that nobody knows there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hedgerow.config import price_book
from hedgerow.config.problem import Problem
from hedgerow.config.target import Target
from hedgerow.errors import ConfigError

_SAY = "say what this target charges: {input: 0.25, output: 2}"


def unknown(targets: Mapping[str, Target], file: Path | None) -> Iterator[Problem]:
    """`price: auto` of targets whose provider or model is not in the price book."""
    if file is not None and file.exists():
        try:
            price_book.read(file)
        except ConfigError as error:
            yield Problem(("server", "prices", "file"), str(error))
            return
    for name, target in targets.items():
        if target.price is not None and target.price.source == "auto":
            why = _why_unknown(target, file)
            if why is not None:
                yield Problem(("targets", name, "price"), f"auto {why}")


def _why_unknown(target: Target, file: Path | None) -> str | None:
    listed = price_book.listed_at(target.base_url, file)
    if not listed:
        if not (price_book.is_installed() or (file is not None and file.exists())):
            return price_book.missing()
        return f"finds nobody at {target.base_url} in genai-prices; {_SAY}"
    model = target.sent_model
    if model is not None and price_book.find(listed, model) is None:
        return f"finds no price of {model} at {target.base_url} in genai-prices; {_SAY}"
    return None
