"""A lab in virtual time without a socket, and clients of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.events import Headers
from hedgerow.http.exchange import Listener
from hedgerow.http.head import fields_in
from hedgerow.lab.options import LabOptions
from hedgerow.lab.routes import LabApp
from hedgerow.testing import VirtualLoop, run_virtual

EXACT: dict[str, Any] = {"ttft_ms": 1000, "gap_ms": 250, "tokens": 3}
"""A script: tokens at 1, 1.25 and 1.5 seconds."""


class Client:
    """An exchange that notes what it is told, and when."""

    def __init__(self, loop: VirtualLoop, method: bytes, target: bytes, body: bytes, headers: Headers) -> None:
        self._loop = loop
        self.method, self.target, self.body, self.headers = method, target, body, headers
        self.peer = "127.0.0.1:1"
        self.listener: Listener | None = None
        self.started = False
        self.status: int | None = None
        self.answer_headers: dict[bytes, bytes] = {}
        self.writes: list[tuple[float, bytes]] = []
        self.over: str | None = None
        self.over_at = 0.0

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        self.start(status, headers, fields)
        self.write(body)
        self._finish("respond")

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        if self.over == "left":
            return
        assert not self.started
        self.started, self.status = True, status
        self.answer_headers = dict([*headers, *fields_in(fields)])

    def write(self, data: bytes) -> None:
        if self.over == "left":
            return
        assert self.started
        assert self.over is None
        self.writes.append((self._loop.time(), data))

    def end(self) -> None:
        self._finish("end")

    def abort(self) -> None:
        self._finish("abort")

    def _finish(self, how: str) -> None:
        if self.over == "left":
            return
        assert self.over is None
        self.over, self.over_at = how, self._loop.time()

    def leave(self) -> None:
        assert self.listener is not None
        self.over = "left"
        self.listener.on_disconnect()

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.writes)

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    def events(self) -> list[tuple[float, Any]]:
        """Time and JSON of every SSE event; b"[DONE]" as None."""
        found: list[tuple[float, Any]] = []
        for at, data in self.writes:
            assert data.endswith(b"\n\n")
            for event in data[:-2].split(b"\n\n"):
                assert event.startswith(b"data: ")
                found.append((at, None if event[6:] == b"[DONE]" else json.loads(event[6:])))
        return found

    def frames(self) -> list[tuple[str | None, Any]]:
        """Name (if it has one) and JSON of every SSE event, whatever its line ends; [DONE] as None."""
        found: list[tuple[str | None, Any]] = []
        for event in self.text.decode().replace("\r\n", "\n").removesuffix("\n\n").split("\n\n"):
            fields = dict(line.split(": ", 1) for line in event.split("\n"))
            data = fields["data"]
            found.append((fields.get("event"), None if data == "[DONE]" else json.loads(data)))
        return found


class Bench:
    """A lab in virtual time, and clients of it."""

    def __init__(self, loop: VirtualLoop, options: LabOptions) -> None:
        self._loop = loop
        self.app = LabApp(options, loop)

    def send(
        self, method: str, target: str, body: object = None, headers: dict[str, str] | None = None, raw: bytes = b""
    ) -> Client:
        fields = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        data = raw if body is None else json.dumps(body).encode()
        client = Client(self._loop, method.encode(), target.encode(), data, fields)
        self.app(client)
        return client

    def chat(self, script: dict[str, Any] | None = None, key: str = "k", **body: Any) -> Client:
        chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True} | body
        return self.post("/v1/chat/completions", chat, script, {"x-lab-key": key})

    def post(
        self, target: str, body: object, script: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> Client:
        """A request with a script."""
        scripted = {} if script is None else {"x-lab-script": json.dumps(script)}
        return self.send("POST", target, body, scripted | (headers or {}))

    def stats(self) -> Any:
        return self.send("GET", "/lab/stats").json

    def log(self, query: str = "") -> Any:
        return self.send("GET", f"/lab/log{query}").json["records"]


def in_lab(
    act: Callable[[Bench], Client], *, until: float = 1000.0, then: Callable[[Bench, Client], None], **options: Any
) -> None:
    """Act in a fresh lab, let virtual time pass, then look."""

    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop, LabOptions(**options))
        client = act(bench)
        await sleep(loop, until)
        then(bench, client)

    run_virtual(main)


async def sleep(loop: VirtualLoop, seconds: float) -> None:
    done = loop.create_future()
    loop.call_later(seconds, done.set_result, None)
    await done
