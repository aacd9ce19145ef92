"""A model of LlamaIndex whose client hedges: ten chained calls, without and with.

Needs `pip install 'hedgerow[transports]' llama-index-llms-openai`, which takes a client of httpx.
"""

from llama_index.llms.openai import OpenAI
from measure import DELAY, Ask, compare

from hedgerow import HttpTarget, Policy, http_client
from hedgerow.lab.control import LabControl


def agent_of(model: OpenAI) -> Ask:
    async def ask(prompt: str) -> str:
        return str(await model.acomplete(prompt))

    return ask


def agents(first: LabControl, second: LabControl) -> tuple[Ask, Ask]:
    targets = [HttpTarget(base_url=lab.base_url, api_key="any", name=lab.name) for lab in (first, second)]
    hedging = http_client(targets, Policy(delay=DELAY), library="httpx")
    alone = OpenAI(model="gpt-4o-mini", api_base=first.base_url, api_key="any")
    hedged = OpenAI(model="gpt-4o-mini", api_base=first.base_url, api_key="any", async_http_client=hedging)
    return agent_of(alone), agent_of(hedged)


if __name__ == "__main__":
    compare(agents)
