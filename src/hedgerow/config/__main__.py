"""`python -m hedgerow.config docs` writes the reference page and the schema into that folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hedgerow.config import describe, json_schema


def main(folder: Path) -> None:
    """Writes configuration.md and hedgerow.schema.json into `folder`."""
    (folder / "configuration.md").write_text(describe(), "utf-8")
    (folder / "hedgerow.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
