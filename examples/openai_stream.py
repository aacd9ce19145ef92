"""Stream a chat completion through hedgerow with the official OpenAI SDK.

Start a gateway first: `hedgerow serve`, with a route named `fast` (see the README). The one line that differs from
calling OpenAI directly is `base_url`; the gateway has the keys, so the client's may be anything.
"""

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any")

stream = client.chat.completions.create(
    model="fast",
    messages=[{"role": "user", "content": "Why do hedges make fields safer?"}],
    stream=True,
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
print()
