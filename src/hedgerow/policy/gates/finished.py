"""Whether an answer came to a real end."""

from __future__ import annotations

from hedgerow.answer import Answer, Finish
from hedgerow.policy.gates.gate import Says
from hedgerow.policy.gates.settings import Finished


def finished(spec: Finished) -> Says:
    """Its model stopped by itself or to have tools run. Where the protocol has no word for it, nothing is said."""
    ends = {Finish.STOP, Finish.TOOL_CALLS} | ({Finish.LENGTH} if spec.length else set())

    def says(answer: Answer, _request: bytes) -> str | None:
        finish = answer.finish
        return None if finish is None or finish in ends else f"it ended with {finish}"

    return says
