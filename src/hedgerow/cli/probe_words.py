"""What a probe is about to do, and the most that it may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.policy.price import Price, show_dollars
from hedgerow.probe.asking import PROMPT_TOKENS
from hedgerow.probe.attempts import FINISHED
from hedgerow.probe.result import Phase

if TYPE_CHECKING:
    from hedgerow.config import Target
    from hedgerow.probe.run import Job


def plan(job: Job, target: Target) -> str:
    """In two lines, the second with the price where the target has one."""
    cancelled = job.calls * len(Phase)
    output = FINISHED + cancelled * job.tokens
    prompts = (1 + cancelled) * PROMPT_TOKENS
    return (
        f"target {job.name} (model {job.model} at {job.target.base_url}): 1 call of at most {FINISHED} tokens, and "
        f"{cancelled} that are cancelled, of at most {job.tokens}\n"
        f"  that is {output} tokens of answer at most, if cancelling does not work, and about {prompts} of prompt"
        f"{_cost(job.target.price, prompts, output)}"
    )


def _cost(price: Price | None, prompts: int, output: int) -> str:
    return "; it has no price here" if price is None else f": {show_dollars(price.cost(prompts, output))} at most"
