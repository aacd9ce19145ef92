"""What the check shows: three scenes with a real model behind the gateway."""

import time
from dataclasses import dataclass

from tests.e2e_llm.servers import Answer, Call, Llama

FREE_WITHIN = 0.2
DELAY = 1.0
_LONG_GENERATION = 4000  # tokens; hung up long before
_REPLY = 24


@dataclass(slots=True)
class Report:
    """Counts claims and prints each as it is decided."""

    passed: int = 0
    failed: int = 0

    def claim(self, text: str, held: bool, seen: str) -> None:
        """One claim, whether it held, and what was seen."""
        self.passed += held
        self.failed += not held
        print(f"{'ok  ' if held else 'FAIL'} {text}: {seen}", flush=True)


def _whole(report: Report, answer: Answer, target: str) -> None:
    """The stream is complete and comes from that target."""
    seen = f"status {answer.status}, {answer.pieces} pieces, finish {answer.finish}, [DONE] {answer.done}"
    complete = (
        answer.status == 200 and answer.done and answer.finish in ("stop", "length") and bool(answer.text.strip())
    )
    report.claim("the stream is whole", complete, f"{seen}, {answer.text.strip()[:40]!r}")
    won = answer.headers.get("x-hedgerow-target", "?")
    report.claim(f"{target} answered", won == target, f"x-hedgerow-target {won}")


def _wait_until_busy(server: Llama) -> None:
    until = time.monotonic() + 30
    while not server.busy():
        if time.monotonic() > until:
            raise SystemExit(f"e2e-llm: {server.name} does not start to work")
        time.sleep(0.02)


def plain(report: Report, primary: Llama, port: int) -> None:
    """Nothing is slow: the primary answers and no hedge starts."""
    print("scene 1: an idle primary answers alone")
    call = Call(port, "chat", "Say hello.", tokens=_REPLY)
    call.begin()
    answer = call.finish()
    _whole(report, answer, "primary")
    attempts = answer.headers.get("x-hedgerow-attempts", "?")
    report.claim("no hedge started", attempts == "1", f"{attempts} attempt")
    report.claim("the slot is free", primary.free_after(time.monotonic(), limit=1) < 1, "idle")


def busy_primary(report: Report, primary: Llama, backup: Llama, port: int) -> None:
    """The primary's only slot generates for somebody else: our request queues there and the hedge wins.

    The superseded request never had the slot. llama.cpp looks for closed connections of queued requests only when their
    turn comes, so what can be seen is this: once the long generation is gone, the slot is free and stays free.
    """
    print("scene 2: the primary's slot is busy with a long generation")
    long = Call(primary.port, "gemma", "Tell a very long story.", tokens=_LONG_GENERATION)
    _wait_until_busy(primary)
    call = Call(port, "chat", "What is the capital of France?", tokens=_REPLY)
    time.sleep(DELAY / 2)
    report.claim("our request waits at the primary", primary.deferred() == 1, f"{primary.deferred()} deferred")
    answer = call.begin()
    waited = answer.first_byte - answer.sent
    report.claim("the hedge starts after the delay", waited >= DELAY, f"first token after {waited:.2f} s")
    call.finish()
    _whole(report, answer, "backup")
    report.claim("the primary was still busy", primary.busy(), "its slot was still generating")
    freed = primary.free_after(long.hang_up(), limit=10)
    seen = f"{freed * 1000:.0f} ms after the long generation hung up"
    report.claim(f"the loser's slot is free within {FREE_WITHIN * 1000:.0f} ms", freed <= FREE_WITHIN, seen)
    time.sleep(FREE_WITHIN)
    looks = []
    for _ in range(20):
        looks.append(primary.busy())
        time.sleep(0.05)
    report.claim(
        "the superseded request does not come back", not any(looks), f"{sum(looks)} of {len(looks)} looks busy"
    )
    report.claim("nothing waits any more", primary.deferred() == 0, f"{primary.deferred()} deferred")
    report.claim("the winner's slot is free", not backup.busy(), "idle")


def cold_primary(report: Report, primary: Llama, backup: Llama, port: int) -> None:
    """A long prompt that the backup has in its cache: the primary holds its slot with our request when it loses.

    With `return_progress` the primary sends headers and progress events at once, and no token: a gateway that commits
    on headers or on the first event would sit with the slow one.
    """
    print("scene 3: the primary works on our long prompt, the backup has it in its cache")
    prompt = "Summarise: " + " ".join(f"item {n} is {'red' if n % 3 else 'blue'}," for n in range(400))
    warm = Call(backup.port, "gemma", prompt, tokens=1)
    warm.begin()
    warm.finish()
    took = time.monotonic() - warm.answer.sent
    report.claim("the prompt is long", took > 3 * DELAY, f"cold, it took {took:.1f} s")
    call = Call(port, "chat", prompt, tokens=_REPLY, return_progress=True)
    time.sleep(DELAY / 2)
    report.claim("the primary holds its slot with our request", primary.busy(), "its slot is processing")
    answer = call.begin()
    freed = primary.free_after(answer.first_byte, limit=10)
    seen = f"{freed * 1000:.0f} ms after the commit reached the client"
    report.claim(f"the loser's slot is free within {FREE_WITHIN * 1000:.0f} ms", freed <= FREE_WITHIN, seen)
    call.finish()
    waited = answer.first_byte - answer.sent
    report.claim("the hedge wins soon after the delay", DELAY <= waited < took, f"first token after {waited:.2f} s")
    _whole(report, answer, "backup")
