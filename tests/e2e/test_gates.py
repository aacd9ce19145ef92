"""Gates in a real gateway, in front of upstreams that send just these bytes: who wins, and what is said of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.raw import Reply, ask
from tests.e2e.support import GatewayProcess, chat, config, until
from tests.e2e.upstream import LAST_CHUNK, SSE_HEAD, Answer, Received, Upstream, chunk, completion, event, stream, whole

pytestmark = pytest.mark.e2e

DELAY = "50ms"
GOOD = '{"name": "hedge"}'
SCHEMA = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
OWN = """
import asyncio, time

def judged(answer):
    if "raise" in answer.text:
        raise RuntimeError("secret: " + answer.text)
    if "sleep" in answer.text:
        time.sleep(30)
    return "bad" not in answer.text

async def judged_later(answer, request):
    assert b'"model":' in request.replace(b'": ', b'":')
    if "raise" in answer.text:
        raise RuntimeError("secret: " + answer.text)
    await asyncio.sleep(30 if "sleep" in answer.text else 0.01)
    return None if "bad" not in answer.text else "it is bad"
"""


def says(text: str) -> Answer:
    """A whole answer of this text, at once."""
    return lambda _: (whole(completion(text)),)


@dataclass
class World:
    """A gateway with the route `fast` over two upstreams."""

    gateway: GatewayProcess
    primary: Upstream
    backup: Upstream
    log: Path

    def ask(self, **body: Any) -> Reply:
        return asyncio.run(ask(self.gateway.address, "POST", "/v1/chat/completions", chat(**body)))

    def events(self, kind: str, least: int = 1) -> list[Any]:
        """The events of one kind, once there are so many."""

        def found() -> list[Any]:
            lines = self.log.read_text().splitlines() if self.log.exists() else []
            return [each for each in map(json.loads, lines) if each["event"] == kind]

        until(lambda: len(found()) >= least)
        return found()


Make = Callable[..., Any]


@contextmanager
def world(
    folder: Path,
    gates: Any,
    primary: Answer,
    backup: Answer,
    *,
    delay: str = DELAY,
    files: dict[str, str] | None = None,
) -> Iterator[World]:
    log = folder / "events.jsonl"
    with Upstream(primary) as first, Upstream(backup) as second:
        settings = config(first.base_url, second.base_url, delay=delay, gates=gates, server={"event_log": str(log)})
        with GatewayProcess(settings, files={"own.py": OWN, **(files or {})}) as gateway:
            yield World(gateway, first, second, log)


def text_in(reply: Reply) -> Any:
    return json.loads(reply.body)["choices"][0]["message"]["content"]


class Gate:
    """An upstream that answers when it is told to."""

    def __init__(self, text: str) -> None:
        self.open = threading.Event()
        self._text = text

    def __call__(self, _received: Received) -> Iterator[bytes]:
        assert self.open.wait(20)
        yield whole(completion(self._text))


@pytest.mark.parametrize(
    ("gates", "bad"),
    [
        (["json"], "Sure! Here it is"),
        (["finished", {"json_schema": "schema.json"}], '{"name": 3}'),
        ("json_schema", '{"name": 3}'),
        (["no_refusal"], "I'm sorry, but I can't help with that."),
        ([{"required_fields": ["name"]}], "{}"),
        ([{"matches": "hedge"}], "a wall"),
        ([{"python": "own:judged"}], "a bad one"),
        ([{"python": "own:judged_later"}], "a bad one"),
    ],
)
def test_a_fast_bad_answer_loses_to_a_slow_good_one(gates: Any, bad: str, tmp_path: Path) -> None:
    slow = Gate(GOOD)
    files = {"schema.json": json.dumps(SCHEMA)}
    with world(tmp_path, gates, slow, says(bad), files=files) as it:

        def release() -> None:
            assert it.events("answer_rejected")  # the fast one has been judged, and waits
            slow.open.set()

        waiting = threading.Thread(target=release)
        waiting.start()
        reply = it.ask(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}})
        waiting.join()
        assert (reply.status, text_in(reply), reply.target) == (200, GOOD, "primary")
        assert "x-hedgerow-gate" not in reply.headers
        (event_,) = it.events("answer_rejected")
        assert (event_["target"], event_["delivered"]) == ("backup", False)
        assert bad not in event_["detail"]
        ended = {each["target"]: each["outcome"] for each in it.events("attempt_ended", 2)}
        assert ended == {"primary": "won", "backup": "rejected"}


def test_a_rejected_answer_sends_the_backup_off_at_once(tmp_path: Path) -> None:
    with world(tmp_path, ["json"], says("no"), says(GOOD), delay="30s") as it:
        reply = it.ask()
        assert (text_in(reply), reply.target, reply.headers["x-hedgerow-hedged"]) == (GOOD, "backup", "false")
        roles = [each["role"] for each in it.events("attempt_launched", 2)]
        assert roles == ["primary", "failover"]


def test_when_all_are_rejected_the_best_is_delivered_and_marked(tmp_path: Path) -> None:
    gates = ["json", {"required_fields": ["name"]}]
    with world(tmp_path, gates, says("{}"), says("no"), delay="30s") as it:
        reply = it.ask()
        assert (reply.status, text_in(reply), reply.target) == (200, "{}", "primary")
        assert reply.headers["x-hedgerow-gate"] == "failed:required_fields"


def test_a_strict_route_says_which_gate_it_was(tmp_path: Path) -> None:
    with world(tmp_path, {"require": ["json"], "strict": True}, says("no"), says("nay"), delay="30s") as it:
        reply = it.ask()
        assert reply.status == 502
        assert json.loads(reply.body)["error"]["code"] == "gate"


@pytest.mark.parametrize("function", ["own:judged", "own:judged_later"])
@pytest.mark.parametrize(
    ("text", "why"), [("raise", "RuntimeError"), ("sleep", "it took more than 0.1 s")], ids=["raises", "late"]
)
def test_a_gate_that_cannot_judge_is_loud_and_loses_no_answer(
    function: str, text: str, why: str, tmp_path: Path
) -> None:
    gates = [{"python": {"call": function, "timeout": "100ms"}}]
    with world(tmp_path, gates, says(text), says(GOOD), delay="30s") as it:
        reply = it.ask()
        assert (reply.status, text_in(reply), reply.target) == (200, text, "primary")
        line = f"gate {function} did not judge: {why}"
        (event_,) = it.events("answer_not_judged")
        assert (event_["why"], event_["target"]) == (line, "primary")
        until(lambda: line in it.gateway.log)
        assert "secret" not in it.gateway.log  # and it stops in good order, with a thread that does not end


def test_the_schema_of_a_request_that_unfolds_for_ever_is_not_tried(tmp_path: Path) -> None:
    steps: dict[str, Any] = {"d0": {"type": "integer"}}
    for step in range(40):
        part = {"$ref": f"#/$defs/d{step}"}
        steps[f"d{step + 1}"] = {"anyOf": [part, part]}
    hostile = {"$defs": steps, "$ref": "#/$defs/d40"}
    with world(tmp_path, ["json_schema"], says('"text"'), says(GOOD), delay="30s") as it:
        reply = it.ask(response_format={"type": "json_schema", "json_schema": {"schema": hostile}})
        assert (text_in(reply), reply.target) == ('"text"', "primary")
        (event_,) = it.events("answer_not_judged")
        assert event_["why"] == "gate json_schema did not judge: ValueError"


def test_a_client_that_leaves_while_its_answer_is_judged_leaves_nothing_behind(tmp_path: Path) -> None:
    gates = [{"python": {"call": "own:judged_later", "timeout": "20s"}}]
    with world(tmp_path, gates, says("sleep"), says(GOOD), delay="30s") as it:
        files = it.gateway.fds()

        async def leave() -> None:
            asking = asyncio.create_task(ask(it.gateway.address, "POST", "/v1/chat/completions", chat()))
            await asyncio.to_thread(until, lambda: bool(it.primary.requests))
            await asyncio.sleep(0.1)
            asking.cancel()

        asyncio.run(leave())
        (event_,) = it.events("request_finished")
        assert event_["outcome"] == "client_gone"
        until(lambda: it.gateway.fds() <= files + 1)  # the upstream's connection is kept
        assert os.path.exists(f"/proc/{it.gateway.pid}")


# --- streams -----------------------------------------------------------------------------------------------------


def words(*texts: str) -> Sequence[bytes]:
    return [event({"role": "assistant", "content": ""}), *(event({"content": each}) for each in texts)]


def streams(*texts: str) -> Answer:
    return lambda _: (stream(*words(*texts), event({}, "stop")),)


PREFIX = {"require": ["no_refusal"], "prefix": {"tokens": 5, "time": "10s"}}


def test_a_start_that_is_rejected_never_reaches_the_client(tmp_path: Path) -> None:
    refusing = streams("I'm sorry, ", "but I can't help with", " that.")
    with world(
        tmp_path, PREFIX, refusing, streams("Of course", ": a hedge is a row", " of shrubs."), delay="30s"
    ) as it:
        reply = it.ask(stream=True)
        assert reply.whole
        assert reply.target == "backup"
        assert b"sorry" not in reply.body
        assert reply.body.endswith(b"data: [DONE]\n\n")
        assert reply.body.count(b"[DONE]") == 1


def test_a_start_is_held_until_there_is_enough_of_it_and_then_flows(tmp_path: Path) -> None:
    go_on, end = threading.Event(), threading.Event()

    def slowly(_: Received) -> Iterator[bytes]:
        yield SSE_HEAD + b"".join(chunk(one) for one in words("Well"))
        assert go_on.wait(20)
        yield chunk(event({"content": ", a hedge is a row of shrubs"}))
        assert end.wait(20)
        yield chunk(event({}, "stop")) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    with world(tmp_path, PREFIX, slowly, streams("never asked"), delay="30s") as it:

        async def story() -> bytes:
            reader, writer = await asyncio.open_connection(*it.gateway.address)
            body = chat(stream=True)
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.readexactly(1), 0.3)
            go_on.set()
            seen = await asyncio.wait_for(reader.readuntil(b"row of shrubs"), 10)
            end.set()
            seen += await asyncio.wait_for(reader.readuntil(b"[DONE]"), 10)
            writer.close()
            return seen

        seen = asyncio.run(story())
        assert seen.count(b"Well") == 1
        assert it.backup.requests == []


def test_without_a_prefix_a_stream_is_delivered_and_reported_on(tmp_path: Path) -> None:
    refusing = streams("I'm sorry, ", "but I can't help with", " that.")
    with world(tmp_path, ["no_refusal", {"python": "own:judged_later"}], refusing, streams("no"), delay="30s") as it:
        reply = it.ask(stream=True)
        assert reply.whole
        assert reply.target == "primary"
        assert it.backup.requests == []
        (event_,) = it.events("answer_rejected")
        assert (event_["gate"], event_["delivered"]) == ("no_refusal", True)


# --- reload ------------------------------------------------------------------------------------------------------


def test_gates_are_changed_by_a_reload_and_a_faulty_one_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path, [], says("no"), says(GOOD), delay="30s") as it:
        assert it.ask().target == "primary"
        settings = json.loads(it.gateway.file.read_text())
        settings["routes"]["fast"]["gates"] = [{"python": "own:judged"}, "json"]
        it.gateway.rewrite(settings)
        it.gateway.process.send_signal(signal.SIGHUP)
        until(lambda: it.ask().target == "backup")
        settings["routes"]["fast"]["gates"] = [{"python": "own:nothing"}]
        it.gateway.rewrite(settings)
        it.gateway.process.send_signal(signal.SIGHUP)
        until(lambda: "routes.fast.gates[0].python: the module own has no nothing" in it.gateway.log)
        assert it.ask().target == "backup"
