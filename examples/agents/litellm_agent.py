"""Any two models that LiteLLM knows, hedged: ten chained calls, without and with.

Needs `pip install 'hedgerow[litellm,testing]'`.
"""

import os
import warnings
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else LiteLLM fetches prices, and warns where it cannot

import litellm
from measure import DELAY, Ask, compare

from hedgerow import Hedger, Policy, Target
from hedgerow.adapters.litellm import litellm_target
from hedgerow.lab.control import LabControl


def agents(first: LabControl, second: LabControl) -> tuple[Ask, Ask, Ask]:
    litellm.suppress_debug_info = True
    # What it leaves behind where a call is cancelled before anything is sent.
    warnings.filterwarnings("ignore", "coroutine '.*completion.*' was never awaited", RuntimeWarning)
    primary = litellm_target("openai/lab-small", api_base=first.base_url, api_key="any", name="first")
    backup = litellm_target("anthropic/lab-large", api_base=second.url, api_key="any", name="second")
    hedger = Hedger("agent", [primary, backup], Policy(delay=DELAY))

    def only(target: Target[Any]) -> Ask:
        async def ask(prompt: str) -> str:
            answer = await target.call([{"role": "user", "content": prompt}])
            return str(answer.choices[0].message.content)

        return ask

    async def hedged(prompt: str) -> str:
        result = await hedger([{"role": "user", "content": prompt}])
        return str(result.value.choices[0].message.content)

    return only(primary), hedged, only(backup)  # LiteLLM imports a provider at its first call


if __name__ == "__main__":
    compare(agents, litellm.close_litellm_async_clients)  # which it leaves open: `python -X dev` warns of it
