"""`python -m hedgerow.lab`: a lab without the rest of the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hedgerow.errors import ConfigError
from hedgerow.lab.accounts import OnCancel
from hedgerow.lab.app import run
from hedgerow.lab.options import LabOptions
from hedgerow.lab.presets import PRESETS


def parser() -> argparse.ArgumentParser:
    """Every option of LabOptions; one that is not given is left to its default there."""
    parser = argparse.ArgumentParser("hedgerow.lab", argument_default=argparse.SUPPRESS, description=__doc__)
    add = parser.add_argument
    add("--name", help="the provider's name (default: lab)")
    add("--host", help="address to listen on (default: 127.0.0.1)")
    add("--port", type=int, help="port to listen on (default: any free one)")
    add("--seed", type=int, help="same seed, same draws (default: 1)")
    add("--preset", help=f"one of {', '.join(PRESETS)} (default: steady)")
    add("--p50-ms", type=float, help="median time to first token; with --p95-ms, in place of a preset's")
    add("--p95-ms", type=float)
    add("--p99-ms", type=float, help="left out: as --tail says")
    add("--tail", type=float, help="Pareto index above p95 (default: 2.4)")
    add("--latencies", type=Path, metavar="FILE.csv", help="recorded times to first token, in place of a preset's")
    add("--column", help="the column with the times; in ms, or in s if its name ends in _s (default: ttft_ms)")
    add("--where", action="append", metavar="COLUMN=VALUE", help="only rows like this; may be repeated")
    add("--order", choices=["sampled", "sequence"], help="draw from the recorded times, or walk them in file order")
    add("--speed", type=float, help="divide all simulated times by this (default: 1)")
    add("--rho", type=float, help="correlation with labs of the same seed, 0 to 1 (default: 0)")
    add("--slow", metavar="FACTOR:SHARE:SECONDS", help="slow regimes, e.g. 3:0.1:20")
    add("--prefill-ms", type=float, help="added to the first token per 1,000 prompt tokens (default: 0)")
    add("--gap-ms", type=float, help="median time between tokens (default: the preset's)")
    add("--jitter", type=float, help="log standard deviation of the time between tokens (default: the preset's)")
    add("--tokens", type=int, help="length of an answer without a limit (default: the preset's)")
    add("--fault", metavar="MIX", help="faults by probability, e.g. 429:0.01,cut:0.005,stall:0.01")
    add("--ignore-cancel", action="store_true", help="generate and bill to the end when a client leaves")
    add("--billed-on-cancel", choices=[*OnCancel], help="what an answer costs whose client left (default: generated)")
    add("--cached", type=float, help="share of each prompt that is said to come from a cache, 0 to 1 (default: 0)")
    add("--model", action="append", dest="models", help="what /v1/models lists; may be repeated")
    add("--input-price", type=float, help="dollars per million prompt tokens (default: 0.25)")
    add("--output-price", type=float, help="dollars per million generated tokens (default: 2)")
    add("--cached-price", type=float, help="dollars per million prompt tokens from the cache (default: as any other)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; 0 then, 2 when the options cannot work, 1 when the port is taken."""
    given = vars(parser().parse_args(arguments))
    for name in ("where", "models"):
        if name in given:
            given[name] = tuple(given[name])
    try:
        run(LabOptions(**given))
    except ConfigError as error:
        sys.stderr.write(f"hedgerow.lab: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"hedgerow.lab: cannot listen: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
