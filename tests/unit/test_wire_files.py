"""A file that was uploaded lives in one account: a request that names it is not hedged, in any protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hedgerow.wire import lookup

ASKING: dict[bytes, dict[str, Any]] = {
    b"/v1/chat/completions": {
        "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f-1"}}]}]
    },
    b"/v1/responses": {
        "store": False,
        "input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f-1"}]}],
    },
    b"/v1/messages": {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "f-1"}}]}],
    },
}


@pytest.mark.parametrize("path", ASKING)
def test_an_uploaded_file_forbids_a_hedge(path: bytes) -> None:
    body = json.dumps({"model": "m", **ASKING[path]}).encode()
    assert lookup(b"POST", path).facts(path, body).forbids_hedge == "an uploaded file"


@pytest.mark.parametrize("path", ASKING)
def test_talk_of_files_forbids_nothing(path: bytes) -> None:
    talk = json.dumps({"role": "user", "content": 'what is "file_id": "f-1"?'})
    schema = {"type": "object", "properties": {"file_id": {"type": "string"}}}
    body = json.dumps({"model": "m", "max_tokens": 9, "store": False, "messages": [json.loads(talk)], "x": schema})
    assert lookup(b"POST", path).facts(path, body.encode()).forbids_hedge is None
