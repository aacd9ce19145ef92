"""What `server.traces` needs."""

from __future__ import annotations

import sys

import pytest

from hedgerow.config import loads
from hedgerow.errors import ConfigError
from hedgerow.extras import install

CONFIG = """\
targets: {a: {base_url: "https://a.example/v1"}}
routes: {fast: {targets: [a]}}
server:
  traces: {}
"""


@pytest.mark.parametrize("missing", ["opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"])
def test_traces_without_their_packages_say_how_to_get_them(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loads(CONFIG, {}).server.traces is not None
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError) as raised:
        loads(CONFIG, {})
    needs = f"needs the packages of OpenTelemetry: {install('otel')}"
    assert raised.value.problems == [f"hedgerow.yaml:4: server.traces: {needs}"]
