"""Look a word up at three translation services at once: show the first answer, and the others as they come in.

Start a gateway first: `hedgerow serve --config examples/word_translation.yaml`. No threads are
needed: the gateway asks all services at once, and tells of late answers as server-sent events.
"""

import json

import httpx

with httpx.Client(base_url="http://127.0.0.1:8080", timeout=60) as client:
    answer = client.post("/v1/translate", json={"text": "hæk", "to": "en"}).raise_for_status()
    print("first:", answer.json()["translation"], "from", answer.headers["x-hedgerow-target"])

    where = answer.headers.get("x-hedgerow-alternatives")
    if where is None:
        raise SystemExit("No other service could be asked.")
    with client.stream("GET", where, headers={"accept": "text/event-stream"}) as events:
        for line in events.iter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: ") and event == "alternative":
                seen = json.loads(line.removeprefix("data: "))
                services = ", ".join(said["target"] for said in seen["said_by"])
                print(f"{seen['answer']['translation']}: {seen['agreement']} of 3 ({services})")
            elif line.startswith("data: "):
                done = json.loads(line.removeprefix("data: "))
                agree = (
                    f"All {seen['agreement']} that answered agree."
                    if seen["agreement"] > 1
                    else "Nobody else answered."
                )
                print("They disagree." if done["disagreement"] else agree)
