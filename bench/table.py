"""The report: one Markdown text for terminal and file."""

from collections.abc import Sequence

from bench.goals import US, Verdict, verdicts
from bench.machine import Machine
from bench.plan import DIRECT, JSON_1, JSON_64, JSON_512, SSE_256, STREAMS_1000
from bench.record import Candidate, Figure, difference, figure, ratio

CAVEATS = """\
- Loopback, one machine, one core for the gateway. Load generator and upstream are one process on the other core.
- Spinning (the default): that process never sleeps, so a gateway pays no inter-processor wake-up for its neighbours.
  That is the gateway's own cost, as when its peers are on other hosts. With `--no-spin` fast gateways read up to twice
  as slow.
- The upstream answers at once. A real model takes seconds: nobody sees these req/s, they say what is left for the rest.
- "direct" talks to the upstream inside one process, so "added" counts two process switches against every gateway alike.
- The peers do other work than hedgerow. nginx and Envoy forward bytes; the others know models, keys and prices.
  hedgerow runs with routing, model rewriting, events, failure handling and an armed hedge timer for each request.
- Requests 2 KB, JSON answers 600 bytes. Chunks 250 bytes, 200 a stream; the next is sent when the client has the last.
"""


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _cell(found: Figure | None) -> str:
    """Median (smallest-largest)."""
    if found is None:
        return "-"
    return (
        f"{_number(found.mid)} ({_number(found.low)}-{_number(found.high)})"
        if found.low != found.high
        else _number(found.mid)
    )


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [cell.ljust(widths[0]) if i == 0 else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        for row in [head, *rows]
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def _requests(all_of_them: Sequence[Candidate]) -> str:
    head = ["JSON", "req/s, 1", "req/s, 64", "req/s, 512", "µs/req, 1", "µs/req, 64", "µs/req, 512"]
    runs = (JSON_1, JSON_64, JSON_512)
    rows = [
        [one.name, *(_cell(figure(one.values(run, key))) for key in ("rps", "us_per_request") for run in runs)]
        for one in all_of_them
    ]
    return _rows(head, rows)


def _latency(all_of_them: Sequence[Candidate], direct: Candidate) -> str:
    head = ["one connection, µs", "p50", "p99", "added p50", "added p99"]
    rows = []
    for one in all_of_them:
        p50, p99 = one.values(JSON_1, "p50_us"), one.values(JSON_1, "p99_us")
        added = (difference(p50, direct.values(JSON_1, "p50_us")), difference(p99, direct.values(JSON_1, "p99_us")))
        rows.append(
            [one.name, _cell(figure(p50)), _cell(figure(p99)), *("-" if one is direct else _cell(a) for a in added)]
        )
    return _rows(head, rows)


def _streams(all_of_them: Sequence[Candidate]) -> str:
    head = [
        "SSE and size",
        "chunks/s, 256",
        "µs/chunk",
        "chunk p99 µs",
        "RSS MB, 1,000 streams",
        "RSS MB, 64 conns",
        "ready s",
    ]
    rows = []
    for one in all_of_them:
        streams = [_cell(figure(one.values(SSE_256, key))) for key in ("chunks_per_s", "us_per_chunk", "chunk_p99_us")]
        rss = [
            _cell(figure({n: kb / 1e3 for n, kb in one.values(run, "rss_kb").items()}))
            for run in (STREAMS_1000, JSON_64)
        ]
        opened = figure(one.values(STREAMS_1000, "open_streams"))
        if opened is not None and opened.low < 1000 and one.name != DIRECT:
            rss[0] += f" only {opened.low:.0f} open"
        rows.append([one.name, *streams, *rss, _cell(figure(one.ready))])
    return _rows(head, rows)


def _ratios(all_of_them: Sequence[Candidate], ours: Candidate) -> str:
    head = ["hedgerow against", "req/s, 1", "req/s, 64", "req/s, 512", "chunks/s, 256"]
    pairs = ((JSON_1, "rps"), (JSON_64, "rps"), (JSON_512, "rps"), (SSE_256, "chunks_per_s"))
    rows = [
        [one.name, *(_cell(ratio(ours.values(run, key), one.values(run, key))) for run, key in pairs)]
        for one in all_of_them
        if one.name not in (US, DIRECT)
    ]
    return _rows(head, rows)


def _verdict(verdict: Verdict) -> list[str]:
    goal = verdict.goal
    asked = f"{'at least' if goal.least else 'under'} {goal.bound:g} {goal.unit}"
    return [goal.claim, asked, _cell(verdict.figure), verdict.word]


def _notes(all_of_them: Sequence[Candidate]) -> list[str]:
    notes = [f"- {one.name} took no part or stopped: {one.failed}" for one in all_of_them if one.failed]
    wrong = [one for one in all_of_them if one.errors()]
    notes += [f"- {one.name}: {one.errors():.0f} wrong answers; the first: `{one.first_error()}`" for one in wrong]
    disturbed = [f"{one.name} in {one.disturbed()}" for one in all_of_them if one.disturbed()]
    if disturbed:
        notes.append(f"- The machine was not ours alone, so rates are too low and uneven: {'; '.join(disturbed)}.")
    return notes


def report(
    candidates: dict[str, Candidate], machine: Machine, *, command: str, when: str, spin: bool, rounds: int
) -> str:
    """The whole page."""
    every = list(candidates.values())
    measured = [one for one in every if one.runs]
    versions = [[one.name, one.version or "-", one.about] for one in every if one.name != DIRECT]
    setting = (
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_gb} GB, Linux {machine.kernel}, {machine.system}; "
        f"{machine.python}; {machine.compiler}. Load average at the start {machine.load:.1f}. Command: `{command}`. "
        f"{rounds} rounds, {'spinning' if spin else 'sleeping'} load generator. Median (smallest-largest) over rounds."
    )
    parts = [
        f"# Benchmark of {when}",
        setting,
        _rows(["candidate", "version", "what it does"], versions),
        _requests(measured),
        _latency(measured, candidates[DIRECT]),
        _streams(measured),
    ]
    if US in candidates and candidates[US].runs:
        parts.append(_ratios(measured, candidates[US]))
        parts.append(_rows(["required", "bound", "measured", "verdict"], [_verdict(v) for v in verdicts(candidates)]))
    if notes := _notes(every):
        parts.append("## Notes\n\n" + "\n".join(notes))
    parts.append("## How to read this\n\n" + CAVEATS)
    return "\n\n".join(parts)
