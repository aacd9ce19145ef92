"""A chat model of LangChain that hedges: ten chained calls, without and with.

Needs `pip install 'hedgerow[langchain,testing]' langchain-openai`.
"""

from typing import Any

from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from measure import DELAY, Ask, compare
from pydantic import SecretStr

from hedgerow.adapters.langchain import HedgedRunnable
from hedgerow.lab.control import LabControl


def model_at(lab: LabControl) -> ChatOpenAI:
    # The other model is the better retry.
    return ChatOpenAI(model="lab-small", base_url=lab.base_url, api_key=SecretStr("any"), max_retries=0)


def agent_of(model: Runnable[Any, Any]) -> Ask:
    async def ask(prompt: str) -> str:
        return str((await model.ainvoke(prompt)).content)

    return ask


def agents(first: LabControl, second: LabControl) -> tuple[Ask, Ask]:
    return agent_of(model_at(first)), agent_of(HedgedRunnable(model_at(first), model_at(second), delay=DELAY))


if __name__ == "__main__":
    compare(agents)
