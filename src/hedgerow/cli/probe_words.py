"""What a probe is about to do, and the most that it may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.policy.price import Price, show_dollars
from hedgerow.policy.terms import Terms
from hedgerow.probe.asking import PROMPT_TOKENS
from hedgerow.probe.attempts import FINISHED
from hedgerow.probe.result import Phase

if TYPE_CHECKING:
    from hedgerow.probe.run import Job


def plan(job: Job) -> str:
    """In two lines, the second with the price where that is known."""
    target, cancelled = job.target, job.calls * len(Phase)
    output, prompts = FINISHED + cancelled * job.tokens, (1 + cancelled) * PROMPT_TOKENS
    cost = _cost(Terms(target.price, target.listed).price(job.model), prompts, output)
    return (
        f"target {job.name} (model {job.model} at {target.base_url}): 1 call of at most {FINISHED} tokens, and "
        f"{cancelled} that are cancelled, of at most {job.tokens}\n"
        f"  that is {output} tokens of answer at most, if cancelling does not work, and about {prompts} of prompt{cost}"
    )


def _cost(price: Price | None, prompts: int, output: int) -> str:
    return "; its price is not known" if price is None else f": {show_dollars(price.cost(prompts, output))} at most"
