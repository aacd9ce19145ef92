"""`python -m tests.cases FOLDER`: run the cases in a folder, a line for each and a total.

Exit code 0: each is ok or waits for a feature; 1: some differ; 2: a file is no case.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.cases.files import FaultyCase, load
from tests.cases.run import run_cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    parser = argparse.ArgumentParser("python -m tests.cases", description="Run hedge-case/1 files against the gateway.")
    parser.add_argument("folder", type=Path, help="all *.json below it; or one file")
    parser.add_argument("--filter", default="", help="only cases whose id, topic or protocol contains this")
    parser.add_argument("-j", "--jobs", type=int, default=4, help="cases at once (default: 4)")
    parser.add_argument("--fresh", action="store_true", help="a gateway of its own for each case")
    options = parser.parse_args(arguments)
    try:
        cases = load(options.folder, options.filter)
    except (FaultyCase, OSError) as error:
        print(f"faulty   {error}")
        return 2
    if not cases:
        print(f"no case in {options.folder}")
        return 2
    results = asyncio.run(
        run_cases(cases, jobs=options.jobs, fresh=options.fresh, said=lambda result: print(result, flush=True))
    )
    total = Counter(result.verdict for result in results)
    print(f"{len(results)} cases: " + ", ".join(f"{total[word]} {word}" for word in ("ok", "differs", "waiting")))
    return 1 if total["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
