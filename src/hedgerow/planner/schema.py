"""The JSON Schema of what `hedgerow plan --format json` says: `python -m hedgerow.planner.schema docs` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.planner.compare import Comparison
from hedgerow.planner.plan import Plan

FILE = "plan.schema.json"


def schema() -> dict[str, Any]:
    """Of a plan, or of a comparison."""
    made = msgspec.json.schema(Plan | Comparison)
    found: dict[str, Any] = _nullable({"$schema": "https://json-schema.org/draft/2020-12/schema", **made})
    return found


def _nullable(part: Any) -> Any:
    """What is not known, and what is without bound, is null: JSON has no such numbers."""
    if isinstance(part, list):
        return [_nullable(each) for each in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "number":
        return {**part, "type": ["number", "null"]}
    return {key: _nullable(value) for key, value in part.items()}


def main(folder: Path) -> None:
    """Write it into `folder`."""
    (folder / FILE).write_text(json.dumps(schema(), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
