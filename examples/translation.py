"""Translate a sentence with two models at once, and show the slower one's version beside the faster one's.

Start a gateway first: `hedgerow serve --config examples/translation.yaml`.
"""

import time
from typing import Any

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any")

answer = client.chat.completions.with_raw_response.create(
    model="translate",
    messages=[
        {"role": "system", "content": "Translate to English. Answer with the translation alone."},
        {"role": "user", "content": "Hækken står mellem vejen og huset."},
    ],
)
print(answer.headers["x-hedgerow-target"], "was first:", answer.parse().choices[0].message.content)

where = answer.headers.get("x-hedgerow-alternatives")  # not there when only one model could be asked
while where:
    kept: Any = client.get(where.removeprefix("/v1"), cast_to=object)
    if not kept["pending"]:
        break
    time.sleep(0.2)  # the slower model is still at it
else:
    raise SystemExit("Nothing to compare it with: the other model failed, or could not be asked.")

for each in kept["alternatives"]:
    models = ", ".join(said["target"] for said in each["said_by"])
    print(f"{models}: {each['text']}")
print("They disagree." if kept["disagreement"] else "They agree.")
