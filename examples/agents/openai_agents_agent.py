"""An agent of the OpenAI Agents SDK whose client hedges: ten chained calls, without and with.

Needs `pip install 'hedgerow[transports]' openai-agents`. The SDK takes a client, and the client takes ours: nothing
else changes. With the Responses API set `store=False` in the model's settings: what a provider keeps is not hedged.
"""

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from measure import DELAY, Ask, compare
from openai import AsyncOpenAI

from hedgerow import HttpTarget, Policy, http_client
from hedgerow.lab.control import LabControl


def agent_of(client: AsyncOpenAI) -> Ask:
    agent = Agent(name="hedge", model=OpenAIChatCompletionsModel("lab-small", client))

    async def ask(prompt: str) -> str:
        return str((await Runner.run(agent, prompt)).final_output)

    return ask


def agents(first: LabControl, second: LabControl) -> tuple[Ask, Ask]:
    set_tracing_disabled(True)  # else it would tell OpenAI of every run
    targets = [HttpTarget(base_url=lab.base_url, api_key="any", name=lab.name) for lab in (first, second)]
    hedging = http_client(targets, Policy(delay=DELAY))
    alone = AsyncOpenAI(base_url=first.base_url, api_key="any")
    return agent_of(alone), agent_of(AsyncOpenAI(base_url=first.base_url, api_key="any", http_client=hedging))


if __name__ == "__main__":
    compare(agents)
