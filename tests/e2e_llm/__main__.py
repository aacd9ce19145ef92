"""`python -m tests.e2e_llm`: prints what it needs and how long, then one line for each claim; non-zero if one fails."""

import argparse
import sys
import time

from tests.e2e_llm.install import HOME, NEEDS, tools
from tests.e2e_llm.scenes import Report, busy_primary, cold_primary, plain
from tests.e2e_llm.servers import gateway, llama


def main() -> int:
    """0 when every claim held."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e_llm", description=__doc__)
    parser.add_argument("--install-only", action="store_true", help="install the tools and stop")
    options = parser.parse_args()
    print(NEEDS, flush=True)
    HOME.mkdir(exist_ok=True)
    found = tools()
    if options.install_only:
        return 0
    begun = time.monotonic()
    report = Report()
    with llama("primary", found) as primary, llama("backup", found) as backup, gateway(primary, backup) as port:
        print(f"two servers and the gateway are up after {time.monotonic() - begun:.1f} s", flush=True)
        plain(report, primary, port)
        busy_primary(report, primary, backup, port)
        cold_primary(report, primary, backup, port)
    print(f"{report.passed} passed, {report.failed} failed", flush=True)
    print(f"took {time.monotonic() - begun:.0f} s; logs in {HOME.name}/")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
