"""An agent of Pydantic AI whose model hedges: ten chained calls, without and with.

Needs `pip install 'hedgerow[pydantic-ai,testing]' 'pydantic-ai-slim[openai]'`.
"""

from measure import DELAY, Ask, compare
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from hedgerow import Policy
from hedgerow.adapters.pydantic_ai import HedgedModel
from hedgerow.lab.control import LabControl


def model_at(lab: LabControl) -> Model:
    client = AsyncOpenAI(base_url=lab.base_url, api_key="any", max_retries=0)  # the other model is the better retry
    return OpenAIChatModel("lab-small", provider=OpenAIProvider(openai_client=client))


def agent_of(model: Model) -> Ask:
    agent = Agent(model)

    async def ask(prompt: str) -> str:
        return (await agent.run(prompt)).output

    return ask


def agents(first: LabControl, second: LabControl) -> tuple[Ask, Ask]:
    hedged = HedgedModel(model_at(first), model_at(second), policy=Policy(delay=DELAY))
    return agent_of(model_at(first)), agent_of(hedged)


if __name__ == "__main__":
    compare(agents)
